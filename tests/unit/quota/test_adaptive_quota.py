"""The quota of gfs-plus: the margin above the expected demand follows the share of guarantees that were broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from builders import Stage, hp, nodes, play, spot
from gfs.core.ledger import GuaranteeCounts, GuaranteeLedger
from gfs.forecasting.online import PoolForecast
from gfs.quota.adaptive import SPREAD_P, AdaptiveQuota
from gfs.quota.feedback import BrokenRates
from gfs.quota.waits import SpotWaits

TICK = 300.0
TICKS_A_DAY = 288


class TwoOrganizations:
    """Means of 6 and 10 GPUs, standard deviations of 3 and 4: together 16 and, independent, 5. More in hour 2."""

    def forecast(self, now: float) -> PoolForecast:
        """The same at any time."""
        mean = np.array([[6.0, 7.0], [10.0, 11.0]])
        upper = mean + float(ndtri(SPREAD_P)) * np.array([[3.0], [4.0]])
        return PoolForecast(("lab", "shop"), "synthetic", mean, upper, p=SPREAD_P)

    def trained(self, model: Any, asked_at: float) -> None:
        """There is nothing to learn."""


class Given(GuaranteeLedger):
    """Counts that are given."""

    broken = 0
    kept = 0

    def counts(self, guarantee_seconds: float, now: float) -> GuaranteeCounts:
        """The same for every guarantee."""
        return GuaranteeCounts(self.broken, 0, self.kept)


def made(waits: bool) -> tuple[AdaptiveQuota, Given]:
    ledger, waiting = Given(), SpotWaits()
    if waits:
        waiting.submitted(spot("s").task(0), -1.0)
    pool = Stage(32).pool
    return AdaptiveQuota(pool, TwoOrganizations(), BrokenRates(ledger), waiting, p=0.9, guarantees=(1, 2)), ledger


def test_it_says_when_the_forecast_expects_room() -> None:
    """32 GPUs and no margin: 16 are left now, 14 in the next hour, and two hours of them cannot be seen later."""
    quota, _ = made(waits=False)
    assert quota.expected_room(spot("s", gpus=14, hours=1).task(0)) is None, "before the first tick"
    quota.tick(0.0)
    assert quota.expected_room(spot("s", gpus=14, hours=1).task(0)) == (3600.0, True)
    assert quota.expected_room(spot("s", gpus=15, hours=1).task(0)) == (3600.0, False)
    assert quota.expected_room(spot("s", gpus=14, hours=2).task(0)) is None


def after_days(quota: AdaptiveQuota, days: float) -> float:
    """The margin that so many days of ticks lead to, in standard deviations."""
    for i in range(round(days * TICKS_A_DAY) + 1):
        quota.tick(i * TICK)
    return float(ndtri(quota.rows()[0].eta))


def test_it_begins_with_what_is_expected() -> None:
    quota, _ = made(waits=True)
    assert quota.limit(1) == 0.0
    quota.tick(0.0)
    assert quota.limit(1) == 32 - 16
    assert quota.limit(2) == 32 - 18
    assert quota.why(1) == "forecast peak 16 from 00:00 at level 0.50, 0% of guarantees broken in a week"


def test_while_nobody_waits_it_does_not_fall() -> None:
    quota, _ = made(waits=False)
    assert after_days(quota, 2) == 0.0


def test_without_evictions_it_falls_by_half_a_standard_deviation_a_day() -> None:
    quota, _ = made(waits=True)
    assert after_days(quota, 2) == pytest.approx(-1.0)
    assert quota.limit(1) == pytest.approx(32 - (16 - 5))
    assert quota.rows()[0].eta == pytest.approx(ndtr(-1.0))


def test_it_falls_until_nothing_is_kept_back() -> None:
    quota, _ = made(waits=True)
    assert after_days(quota, 9) == pytest.approx(-3.0)  # and no further
    assert quota.limit(1) == pytest.approx(32 - (16 - 15))


def test_it_rises_while_more_is_broken_than_promised() -> None:
    # The aim is 3/4 of 10%. 11.25% broken is half as much again: half of the most that it rises in a day.
    quota, ledger = made(waits=True)
    ledger.broken, ledger.kept = 1125, 8875
    assert after_days(quota, 1) == pytest.approx(0.75)
    assert quota.limit(1) == pytest.approx(32 - (16 + 0.75 * 5))


def test_it_rises_by_three_halves_a_day_at_most() -> None:
    quota, ledger = made(waits=False)
    ledger.broken, ledger.kept = 50, 50
    assert after_days(quota, 1) == pytest.approx(1.5)
    assert after_days(made_with(50, 50), 3) == pytest.approx(3.0)


def made_with(broken: int, kept: int) -> AdaptiveQuota:
    quota, ledger = made(waits=True)
    ledger.broken, ledger.kept = broken, kept
    return quota


def test_on_its_aim_it_stays() -> None:
    assert after_days(made_with(75, 925), 3) == pytest.approx(0.0, abs=1e-9)


def test_below_its_aim_it_falls_the_slower_the_nearer_it_is() -> None:
    # 5% broken is two thirds of the aim: a third of half a standard deviation a day.
    assert after_days(made_with(50, 950), 3) == pytest.approx(-0.5)


def test_a_long_time_without_ticks_moves_it_by_an_hour_at_most() -> None:
    quota, _ = made(waits=True)
    quota.tick(0.0)
    quota.tick(86_400.0)
    assert float(ndtri(quota.rows()[0].eta)) == pytest.approx(-0.5 / 24)


def test_a_week_later_what_was_broken_is_forgotten() -> None:
    quota, ledger = made(waits=True)
    ledger.broken, ledger.kept = 30, 70
    quota.tick(0.0)
    ledger.broken += 1
    ledger.kept += 99
    quota.tick(7 * 86_400.0)
    assert quota.rows()[0].eviction_rate == pytest.approx(0.01)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=60), st.booleans())
def test_the_quota_stays_within_what_is_idle(events: list[tuple[int, int]], waits: bool) -> None:
    quota, ledger = made(waits)
    for i, (broken, kept) in enumerate(events):
        ledger.broken += broken
        ledger.kept += kept
        quota.tick(i * TICK)
        assert 0 <= quota.limit(1) <= 32
        assert 0 < quota.rows()[0].eta < 1


def test_in_a_run_of_gfs_plus() -> None:
    story = play(
        nodes(8),
        hp("h", gpus=4, lasting=4000),
        spot("s", gpus=3, at=10, lasting=100),
        scheduler="gfs-plus",
        quota="adaptive",
    )
    assert story.started("s") == [300.0]
    said = "pool A100: spot quota 0 for 1 h: forecast peak 8 from 00:00 at level 0.5"
    assert story.why_waited("s").startswith(said)
