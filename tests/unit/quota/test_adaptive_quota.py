"""The quota of gfs-plus: a reserve of idle cards follows the share of guarantees that were broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Stage, hp, nodes, play, spot
from gfs.core.ledger import GuaranteeCounts, GuaranteeLedger
from gfs.quota.adaptive import FIRST, LEAST, MOST, AdaptiveQuota, ReserveMemory, first_share
from gfs.quota.feedback import BrokenRates
from gfs.quota.waits import SpotWaits

TICK = 300.0
TICKS_A_DAY = 288
CARDS = 800


class Given(GuaranteeLedger):
    """Counts that are given."""

    broken = 0
    kept = 0

    def counts(self, guarantee_seconds: float, now: float) -> GuaranteeCounts:
        """The same for every guarantee."""
        return GuaranteeCounts(evicted=0, finished=0, periods=0, kept=self.kept, broken=self.broken)


def made(
    waits: bool = True, broken: int = 0, kept: int = 0, memory: ReserveMemory | None = None, p: float = 0.9
) -> tuple[AdaptiveQuota, Given]:
    ledger, waiting = Given(), SpotWaits()
    ledger.broken, ledger.kept = broken, kept
    if waits:
        waiting.submitted(spot("s").task(0), -1.0)
    quota = AdaptiveQuota(Stage(CARDS).pool, BrokenRates(ledger), waiting, p=p, guarantees=(2, 1), memory=memory)
    return quota, ledger


def after_days(quota: AdaptiveQuota, days: float) -> float:
    """The share of the pool that so many days of ticks lead to."""
    for i in range(round(days * TICKS_A_DAY) + 1):
        quota.tick(i * TICK)
    return quota.rows()[0].eta


def test_it_begins_with_a_cautious_reserve() -> None:
    quota, _ = made()
    assert quota.limit(1) == CARDS - FIRST * CARDS  # before the first tick, too
    quota.tick(0.0)
    assert [row.quota for row in quota.rows()] == [CARDS - 48, CARDS - 48]
    assert quota.why(1) == "48 GPUs are kept for HP, 0% of guarantees broken in a week"


@pytest.mark.parametrize(
    ("p", "share"),
    [
        (0.5, 0.06),  # less is promised than 0.9: no less is kept
        (0.9, 0.06),
        (0.97, 0.0811),  # 0.06 * (10 / 3) ** 0.25
        (0.99, 0.1067),  # 0.06 * 10 ** 0.25
        (0.999, 0.1897),  # 0.06 * 100 ** 0.25
    ],
)
def test_who_promises_more_begins_with_more(p: float, share: float) -> None:
    assert first_share(p) == pytest.approx(share, abs=5e-5)
    quota, _ = made(p=p)
    assert quota.limit(1) == CARDS - int(share * CARDS)


def test_what_was_learnt_stands_whatever_is_promised_then() -> None:
    quota, _ = made(memory=ReserveMemory(shares={1: 0.05, 2: 0.05}), p=0.99)
    assert quota.limit(1) == CARDS - 40


def test_while_nobody_waits_it_does_not_shrink() -> None:
    assert after_days(made(waits=False)[0], 2) == FIRST


def test_without_evictions_it_shrinks_by_a_fifth_a_day() -> None:
    quota, _ = made()
    assert after_days(quota, 1) == pytest.approx(FIRST * 0.8187, abs=1e-5)  # by a fifth, a bit at every tick
    assert quota.limit(1) == CARDS - 39


def test_something_stays_reserved() -> None:
    assert after_days(made()[0], 9) == LEAST


def test_it_grows_while_more_is_broken_than_promised() -> None:
    # The aim is 3/4 of 10%. 11.25% broken is half as much again: half of the most that it grows in a day.
    assert after_days(made(broken=1125, kept=8875)[0], 1) == pytest.approx(FIRST * 1.105, abs=1e-4)


def test_it_grows_by_a_fifth_a_day_at_most() -> None:
    assert after_days(made(waits=False, broken=50, kept=50)[0], 1) == pytest.approx(FIRST * 1.221, abs=1e-4)
    memory = ReserveMemory(shares={1: 0.3, 2: 0.3})
    assert after_days(made(broken=50, kept=50, memory=memory)[0], 1) == MOST


def test_on_its_aim_it_stays() -> None:
    assert after_days(made(broken=75, kept=925)[0], 3) == pytest.approx(FIRST)


def test_below_its_aim_it_shrinks_the_slower_the_nearer_it_is() -> None:
    # 5% broken is two thirds of the aim: a third of a fifth a day.
    assert after_days(made(broken=50, kept=950)[0], 3) == pytest.approx(FIRST * 0.8187, abs=1e-5)


def test_a_long_time_without_ticks_moves_it_by_an_hour_at_most() -> None:
    quota, _ = made()
    quota.tick(0.0)
    quota.tick(86_400.0)
    assert quota.rows()[0].eta == pytest.approx(FIRST * (1 - 0.2 / 24))


def test_a_week_later_what_was_broken_is_forgotten() -> None:
    quota, ledger = made(broken=30, kept=70)
    quota.tick(0.0)
    ledger.broken += 1
    ledger.kept += 99
    quota.tick(7 * 86_400.0)
    assert quota.rows()[0].eviction_rate == pytest.approx(0.01)


def test_a_guarantee_that_is_no_longer_on_offer_is_forgotten() -> None:
    memory = ReserveMemory()
    made(memory=memory)[0].tick(0.0)
    memory.shares[4.0], memory.rows[4.0] = 0.3, memory.rows[2]
    quota, _ = made(memory=memory)
    assert [row.guarantee_hours for row in quota.rows()] == [1, 2]
    assert quota.limit(4) == quota.limit(2)  # counts as the longest one


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=60), st.booleans())
def test_the_quota_stays_within_what_is_idle(events: list[tuple[int, int]], waits: bool) -> None:
    quota, ledger = made(waits)
    for i, (broken, kept) in enumerate(events):
        ledger.broken += broken
        ledger.kept += kept
        quota.tick(i * TICK)
        assert 0 <= quota.limit(1) <= CARDS
        assert LEAST <= quota.rows()[0].eta <= MOST


def test_spot_tasks_leave_the_reserve_idle_between_ticks_too() -> None:
    """6% of 40 cards are 2. They count what is idle now: b would fit, but not beside the reserve, until h has ended."""
    story = play(
        nodes(8, 8, 8, 8, 8),
        hp("h", gpus=4, pods=2, lasting=400),
        spot("a", gpus=4, pods=7, at=10, lasting=5000),
        spot("b", gpus=4, at=20, lasting=100),
        scheduler="gfs-plus",
        quota="adaptive",
    )
    assert story.started("a") == [10.0]
    assert story.started("b") == [400.0]
    said = "pool A100: spot quota 30 for 1 h: 2 GPUs are kept for HP, 0% of guarantees broken in a week; 28 in use"
    assert story.why_waited("b").startswith(said)


def test_hp_starts_on_the_reserve_without_evictions() -> None:
    story = play(
        nodes(8, 8, 8, 8, 8),
        spot("a", gpus=6, pods=5, lasting=5000),
        *(spot(f"s{i}", gpus=1, at=10, lasting=5000) for i in range(10)),
        hp("h", gpus=2, at=20, lasting=100),
        scheduler="gfs-plus",
        quota="adaptive",
    )
    assert story.started("h") == [20.0]
    assert not [name for name in ("a", *(f"s{i}" for i in range(10))) if len(story.started(name)) > 1]
