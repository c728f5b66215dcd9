"""The quota of gfs-plus: a reserve of idle cards follows the share of guarantees that were broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Stage, hp, nodes, play, spot
from gfs.core.ledger import GuaranteeCounts, GuaranteeLedger
from gfs.quota.adaptive import CALM, MOST, AdaptiveQuota, ReserveMemory, first_share
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
    since: float | None = -1.0, broken: int = 0, kept: int = 0, memory: ReserveMemory | None = None, p: float = 0.9
) -> tuple[AdaptiveQuota, Given]:
    """`since`: when the spot task came that waits; None: nobody does."""
    ledger, waiting = Given(), SpotWaits()
    ledger.broken, ledger.kept = broken, kept
    if since is not None:
        waiting.submitted(spot("s").task(0), since)
    pool, rates = Stage(CARDS).pool, BrokenRates(ledger)
    return AdaptiveQuota(pool, rates, waiting, p=p, guarantees=(2, 1), memory=memory), ledger


def holding(share: float) -> ReserveMemory:
    """A reserve that has come to this share of the pool."""
    return ReserveMemory(shares={1: share, 2: share})


def after_days(quota: AdaptiveQuota, days: float) -> float:
    """The share of the pool that so many days of ticks lead to."""
    for i in range(round(days * TICKS_A_DAY) + 1):
        quota.tick(i * TICK)
    return quota.rows()[0].eta


def test_it_begins_with_a_cautious_reserve() -> None:
    quota, _ = made()
    assert quota.limit(1) == CARDS - CALM * CARDS  # before the first tick, too
    quota.tick(0.0)
    assert [row.quota for row in quota.rows()] == [CARDS - 24, CARDS - 24]
    assert quota.why(1) == "24 GPUs are kept for HP, 0% of guarantees broken in 5 days"


@pytest.mark.parametrize(
    ("p", "share"),
    [
        (0.5, 0.0110),  # 0.03 * 0.2 ** 0.625
        (0.8, 0.0195),  # 0.03 * 0.5 ** 0.625
        (0.9, 0.03),
        (0.97, 0.0637),  # 0.03 * (10 / 3) ** 0.625
        (0.99, 0.1265),  # 0.03 * 10 ** 0.625
        (0.999, 0.32),  # 0.03 * 100 ** 0.625 would be 0.53
    ],
)
def test_who_promises_more_begins_with_more(p: float, share: float) -> None:
    assert first_share(p) == pytest.approx(share, abs=5e-5)
    quota, _ = made(p=p)
    assert quota.limit(1) == CARDS - int(share * CARDS)


def test_what_was_learnt_stands_whatever_is_promised_then() -> None:
    quota, _ = made(memory=holding(0.05), p=0.99)
    assert quota.limit(1) == CARDS - 40


def test_while_nobody_waits_it_does_not_shrink() -> None:
    assert after_days(made(since=None, memory=holding(0.06))[0], 2) == 0.06


def test_without_evictions_it_shrinks_by_a_fifth_a_day() -> None:
    quota, _ = made(memory=holding(0.06))
    assert after_days(quota, 1) == pytest.approx(0.06 * 0.8187, abs=1e-5)  # by a fifth, a bit at every tick
    assert quota.limit(1) == CARDS - 39


def test_where_a_spot_task_waits_nothing_stays_reserved() -> None:
    # From 3% on by a fifth of 3% a day: 0.6 points, so that after 2 days 1.8% are left and after 5 nothing is.
    assert after_days(made()[0], 2) == pytest.approx(0.03 - 2 * 0.006, abs=1e-4)
    quota, _ = made()
    assert after_days(quota, 6) == 0
    assert quota.limit(1) == CARDS


def test_what_was_given_up_comes_back_when_no_spot_task_waits() -> None:
    assert after_days(made(since=None, memory=holding(0.01))[0], 2) == pytest.approx(0.01 + 2 * 0.006, abs=1e-4)
    assert after_days(made(since=None, memory=holding(0.01))[0], 5) == CALM


def test_it_grows_while_more_is_broken_than_promised() -> None:
    # The aim is 0.7 of 10%. 10.5% broken is half as much again: half of the most that it grows in a day.
    assert after_days(made(broken=105, kept=895, memory=holding(0.06))[0], 1) == pytest.approx(0.06 * 1.105, abs=1e-4)


def test_it_grows_by_a_fifth_a_day_at_most() -> None:
    worst = made(since=None, broken=50, kept=50, memory=holding(0.06))[0]
    assert after_days(worst, 1) == pytest.approx(0.06 * 1.221, abs=1e-4)
    assert after_days(made(broken=50, kept=50, memory=holding(0.3))[0], 1) == MOST


def test_from_nothing_it_grows_by_points() -> None:
    # A fifth of nothing would stay nothing: it grows by a fifth of 3% a day.
    assert after_days(made(broken=50, kept=50, memory=holding(0.0))[0], 2) == pytest.approx(0.012, abs=1e-4)


def test_on_its_aim_it_stays() -> None:
    assert after_days(made(broken=70, kept=930, memory=holding(0.06))[0], 3) == pytest.approx(0.06)


def test_below_its_aim_it_shrinks_the_slower_the_nearer_it_is() -> None:
    # 3.5% broken is half of the aim: half of a fifth a day, so two days for what takes one without evictions.
    quota = made(broken=35, kept=965, memory=holding(0.06))[0]
    assert after_days(quota, 2) == pytest.approx(0.06 * 0.8187, abs=1e-5)


def test_a_long_time_without_ticks_moves_it_by_an_hour_at_most() -> None:
    quota, _ = made(memory=holding(0.06))
    quota.tick(0.0)
    quota.tick(86_400.0)
    assert quota.rows()[0].eta == pytest.approx(0.06 * (1 - 0.2 / 24))


@pytest.mark.parametrize(("share", "caution"), [(0.2, 1.0), (CALM, 1.0), (0.015, 0.5), (0.0, 0.0)])
def test_caution_falls_with_what_is_reserved_below_three_percent(share: float, caution: float) -> None:
    assert holding(share).caution == caution


def test_5_days_later_what_was_broken_is_forgotten() -> None:
    quota, ledger = made(broken=30, kept=70)
    quota.tick(0.0)
    ledger.broken += 1
    ledger.kept += 99
    quota.tick(5 * 86_400.0)
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
    quota, ledger = made(since=-7200.0 if waits else None)
    for i, (broken, kept) in enumerate(events):
        ledger.broken += broken
        ledger.kept += kept
        quota.tick(i * TICK)
        assert 0 <= quota.limit(1) <= CARDS
        assert 0 <= quota.rows()[0].eta <= MOST


def test_spot_tasks_leave_the_reserve_idle_between_ticks_too() -> None:
    """With p = 0.97 6.4% of 40 cards are 2. They count what is idle now: b would fit, but not beside the reserve,
    until h has ended.
    """
    story = play(
        nodes(8, 8, 8, 8, 8),
        hp("h", gpus=4, pods=2, lasting=400),
        spot("a", gpus=4, pods=7, at=10, lasting=5000),
        spot("b", gpus=4, at=20, lasting=100),
        scheduler="gfs-plus",
        quota="adaptive",
        p=0.97,
    )
    assert story.started("a") == [10.0]
    assert story.started("b") == [400.0]
    said = "pool A100: spot quota 30 for 1 h: 2 GPUs are kept for HP, 0% of guarantees broken in 5 days; 28 in use"
    assert story.why_waited("b").startswith(said)


def test_hp_starts_on_the_reserve_without_evictions() -> None:
    story = play(
        nodes(8, 8, 8, 8, 8),
        spot("a", gpus=6, pods=5, lasting=5000),
        *(spot(f"s{i}", gpus=1, at=10, lasting=5000) for i in range(10)),
        hp("h", gpus=2, at=20, lasting=100),
        scheduler="gfs-plus",
        quota="adaptive",
        p=0.97,
    )
    assert story.started("h") == [20.0]
    assert not [name for name in ("a", *(f"s{i}" for i in range(10))) if len(story.started(name)) > 1]
