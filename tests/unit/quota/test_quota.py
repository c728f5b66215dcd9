"""A fixed share of the pool for spot tasks (in use with guarantee >= H, + w*g <= Q_H; docs/concepts/spot-quota.md)."""

from __future__ import annotations

import pytest

from builders import Stage, hp, nodes, play, spot, workload
from gfs import SCHEDULERS, InputError, simulate
from gfs.core.admission import SpotAdmission
from gfs.core.ports import QuotaRow
from gfs.domain.units import MICRO

HALF = {"quota": "fixed", "quota_share": 0.5}


def test_spot_in_use_and_the_newcomer_must_stay_within_the_quota() -> None:
    # Q = 0.5 x 8 = 4: a (3) starts, b (2) must wait although 5 cards are idle: 3 + 2 > 4; c (1) goes: 3 + 1 <= 4.
    story = play(nodes(8), spot("a", gpus=3), spot("b", gpus=2, at=10), spot("c", gpus=1, at=20), **HALF)
    assert story.started("a") == [0.0]
    assert story.started("c") == [20.0]
    assert story.started("b") == [100.0]  # a is gone, c is in use: 1 + 2 <= 4
    assert story.why_waited("b") == "pool A100: spot quota 4 for 1 h, 3 in use, task asks 2"


def test_a_gang_counts_with_all_its_pods() -> None:
    # 2 pods x 2 = 4 in use; any more is too much.
    story = play(nodes(8), spot("gang", gpus=2, pods=2), spot("b", gpus=0.5, at=10), **HALF)
    assert story.started("b") == [100.0]


def test_fractions_count_as_fractions() -> None:
    # Q = 0.5 x 2 = 1: 0.6 + 0.4 fit exactly, another 0.1 does not.
    story = play(nodes(2), spot("a", gpus=0.6), spot("b", gpus=0.4, at=1), spot("c", gpus=0.1, at=2), **HALF)
    assert story.started("b") == [1.0]
    assert story.started("c") == [100.0]


def test_hp_knows_no_quota() -> None:
    assert play(nodes(8), hp("h", gpus=8), quota="fixed", quota_share=0.0).started("h") == [0.0]


def test_every_offered_guarantee_up_to_its_own_counts() -> None:
    # Q = 4 for 1, 2 and 4 hours alike. "long" holds 3 with H = 4 and counts for all three: 3 + 2 > 4, whoever comes.
    long = play(
        nodes(8),
        spot("long", gpus=3, hours=4),
        spot("one", gpus=2, at=10, hours=1),
        spot("four", gpus=2, at=10, hours=4),
        **HALF,
    )
    assert long.started("one") == [100.0]
    assert long.started("four") == [100.0]
    # "short" holds 3 with H = 1. For 2 h nothing counts, but "two" holds its GPUs in the first hour as well: it waits.
    short = play(nodes(8), spot("short", gpus=3, hours=1), spot("two", gpus=2, at=10, hours=2), **HALF)
    assert short.started("two") == [100.0]
    assert short.why_waited("two") == ("pool A100: spot quota 4 for 1 h, 3 in use, task asks 2")


def test_only_tasks_with_at_least_a_guarantee_count_against_its_quota() -> None:
    # Q_1 = 8 and Q_4 = 4. "short" holds 5 with H = 1: for 1 h 5 + 3 <= 8, for 4 h 0 + 3 <= 4. Then 3 more: 8 + 3 > 8.
    pool = Stage(16)
    pool.holds("n0", spot("short", gpus=5, hours=1))
    admission = SpotAdmission(pool.pool, QuotaOf({1.0: 8.0, 4.0: 4.0}))
    four = spot("four", gpus=3, hours=4).task(1)
    assert admission.exceeded(four) is None
    assert admission.headroom(4.0) == 3.0  # 8 - 5 for an hour, 4 - 0 for four
    assert admission.exceeded(spot("too large", gpus=4, hours=4).task(2)) == 1.0
    pool.holds("n0", spot("four", gpus=3, hours=4))
    assert admission.exceeded(four) == 1.0
    assert admission.headroom(4.0) == 0.0  # 8 - 8 for an hour, 4 - 3 for four


class QuotaOf:
    """Quotas that are given."""

    def __init__(self, limits: dict[float, float]) -> None:
        self.horizons = tuple(limits)
        self._limits = limits

    def limit(self, guarantee_hours: float) -> float:
        return self._limits[guarantee_hours]

    def tick(self, now: float) -> None: ...

    def rows(self) -> list[QuotaRow]:
        return []

    def why(self, guarantee_hours: float) -> str:
        return ""


def test_evicted_tasks_give_their_share_of_the_quota_back() -> None:
    # Q = 4 of 8. s holds 4; h takes all 8 cards from 100 on and is done at 180; then s or t, not both.
    story = play(
        nodes(8),
        spot("s", gpus=4, lasting=500),
        hp("h", gpus=8, at=100, lasting=50),
        spot("t", gpus=4, at=110, lasting=20),
        **HALF,
    )
    assert story.started("s") == [0.0, 180.0]  # it was submitted first
    assert story.started("t") == [180.0 + 40 + 500]


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_every_scheduler_can_be_given_a_fixed_quota(scheduler: str) -> None:
    story = play(nodes(8), spot("a", gpus=4), spot("b", gpus=4), scheduler=scheduler, **HALF)
    assert story.started("a") == [0.0]
    assert story.started("b") == [300.0 if scheduler == "chronus" else 100.0]  # leases are given out in rounds


def test_static_has_a_fixed_quota_of_its_own_and_the_other_schedulers_none() -> None:
    # The usual share is 0.35 x 8 = 2.8.
    tasks = [spot("a", gpus=2), spot("b", gpus=2, at=10)]
    assert play(nodes(8), *tasks, scheduler="static").started("b") == [100.0]
    assert play(nodes(8), *tasks, scheduler="static", quota="none").started("b") == [10.0]
    assert play(nodes(8), *tasks, scheduler="lyra").started("b") == [10.0]
    assert play(nodes(8), *tasks, scheduler="yarn-cs").started("b") == [10.0]


def test_yarn_a_head_refused_by_the_quota_blocks_too() -> None:
    story = play(
        nodes(8),
        spot("a", gpus=4),
        spot("b", gpus=4, at=10),
        spot("c", gpus=1, at=20, hours=2),
        scheduler="yarn-cs",
        **HALF,
    )
    # After 100 c would fit beside b into the quota of 4, were it not for b that needs all of it.
    assert story.started("b") == [100.0]
    assert story.started("c") == [200.0]
    assert story.why_waited("c") == "queued behind b, which does not fit yet"


def test_a_task_larger_than_the_whole_quota_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"task s asks 5 and could never start.*at least 0\.6"):
        play(nodes(8), spot("s", gpus=5), **HALF)


def test_spot_held_counts_from_a_guarantee_upwards() -> None:
    stage = Stage(8)
    stage.holds("n0", spot("a", gpus=2, hours=1))
    stage.holds("n0", spot("b", gpus=0.5, hours=2))
    stage.holds("n0", spot("c", gpus=1, hours=4))
    assert [stage.pool.spot_held(hours) / MICRO for hours in (0.5, 1, 2, 3, 4, 5)] == [3.5, 3.5, 1.5, 1, 1, 0]


def test_the_quota_log_says_what_was_in_use_before_the_pass_of_each_tick() -> None:
    # Ticks at 0 (before a starts), 300 and 600; at 900 a finishes first and the run is over.
    work = workload(nodes(8), [spot("a", gpus=2, lasting=650, hours=2), spot("b", at=10, lasting=650, hours=1)])
    rows = simulate(work, record_quota=True, **HALF).quota.to_pylist()
    assert [(r["time"], r["guarantee_hours"], r["quota"], r["spot_in_use"], r["idle"]) for r in rows] == [
        (0.0, 1.0, 4.0, 0.0, 8),
        (0.0, 2.0, 4.0, 0.0, 8),
        (300.0, 1.0, 4.0, 3.0, 5),
        (300.0, 2.0, 4.0, 2.0, 5),
        (600.0, 1.0, 4.0, 3.0, 5),
        (600.0, 2.0, 4.0, 2.0, 5),
    ]


def test_a_share_that_makes_whole_cards_on_paper_allows_them_all() -> None:
    story = play(nodes(*[10] * 10), spot("s", pods=29), quota="fixed", quota_share=0.29)
    assert story.started("s") == [0.0]


def test_the_share_that_the_error_advises_is_enough() -> None:
    with pytest.raises(InputError) as error:
        play(nodes(8, 8, 8), spot("s", gpus=8), quota="fixed", quota_share=0.3)
    advised = float(str(error.value).rsplit(" ", 1)[1])
    assert play(nodes(8, 8, 8), spot("s", gpus=8), quota="fixed", quota_share=advised).started("s") == [0.0]
