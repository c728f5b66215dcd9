"""How long runs last, from runs that were not all seen to their end."""

from __future__ import annotations

from random import Random

import pytest

from gfs.policies.gfs.life_table import SHRINK, LifeTable, share_beyond


def table(*pieces: tuple[int, int, int]) -> LifeTable:
    """A table of (entered, ended, evicted) by piece, the last one beyond all edges."""
    made = LifeTable(len(pieces) - 1)
    made.entered, made.ended, made.evicted = (list(column) for column in zip(*pieces, strict=True))
    return made


def test_whoever_was_not_seen_to_the_end_is_at_risk_for_half_of_the_piece() -> None:
    # Of 100 runs 50 ended in the first hour, 12 were evicted in it, 8 are in it; 30 came further.
    runs = table((100, 50, 12), (30, 0, 0))
    risk = 100 - (12 + 8) / 2
    assert runs.hazard(0, 0.0) == pytest.approx(50 / (risk + SHRINK))
    assert runs.hazard(0, 0.5) == pytest.approx((50 + 10) / 110)


def test_evictions_do_not_make_runs_look_short() -> None:
    # Half of 2,000 runs end in the first hour. Where 600 are evicted in it, they are at risk for half of it: of
    # 2,000 - 300 half are seen to end.
    undisturbed = table((2000, 1000, 0), (1000, 0, 0))
    disturbed = table((2000, 850, 600), (550, 0, 0))
    assert share_beyond([undisturbed], 1) == pytest.approx(1 - 1000 / 2020)
    assert share_beyond([disturbed], 1) == pytest.approx(1 - 850 / 1720)
    # As if the evicted had ended it would be 1 - 1450 / 2020.
    assert abs(share_beyond([disturbed], 1) - share_beyond([undisturbed], 1)) < 0.001


def test_shares_multiply_from_piece_to_piece() -> None:
    runs = table((80, 40, 0), (40, 30, 0), (10, 0, 0))
    assert share_beyond([runs], 1) == pytest.approx(1 - 40 / 100)
    assert share_beyond([runs], 2) == pytest.approx((1 - 40 / 100) * (1 - 30 / 60))


def test_when_nothing_is_known_nothing_ends() -> None:
    assert share_beyond([LifeTable(3)] * 3, 3) == 1.0


def test_a_group_without_runs_is_like_the_wider_one_and_with_many_like_itself() -> None:
    wide = table((180, 90, 0), (90, 0, 0))  # 90 / 200 end in the first hour
    assert share_beyond([wide, LifeTable(1)], 1) == pytest.approx(0.55)
    some = table((20, 20, 0), (0, 0, 0))  # all of 20 did: halfway between 0.45 and 1
    assert share_beyond([wide, some], 1) == pytest.approx(1 - (20 + 9) / 40)
    many = table((20_000, 20_000, 0), (0, 0, 0))
    assert share_beyond([wide, many], 1) < 0.001


def test_it_comes_near_the_truth_with_evictions_at_random() -> None:
    lot, edges = Random(7), (1.0, 2.0, 4.0)
    runs = LifeTable(3)
    lasting = [lot.lognormvariate(0.3, 1.2) for _ in range(20_000)]
    for hours in lasting:
        evicted_at = lot.expovariate(0.2)
        until = min(hours, evicted_at)
        piece = sum(until > edge for edge in edges)
        for passed in range(piece + 1):
            runs.entered[passed] += 1
        (runs.ended if hours <= evicted_at else runs.evicted)[piece] += 1
    for pieces, edge in enumerate(edges, start=1):
        truth = sum(hours > edge for hours in lasting) / len(lasting)
        assert share_beyond([runs], pieces) == pytest.approx(truth, abs=0.015)
