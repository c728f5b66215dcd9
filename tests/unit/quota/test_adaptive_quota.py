"""The quota of gfs-plus: the level of the bound follows the share of guarantees that were broken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Stage, hp, nodes, play, spot
from gfs.core.ledger import GuaranteeLedger
from gfs.forecasting.history import SeriesKey
from gfs.forecasting.online import PoolForecast
from gfs.quota.adaptive import AdaptiveQuota
from gfs.quota.feedback import EvictionRates
from gfs.quota.waits import SpotWaits

TICK = 300.0


class Proportional:
    """Total demand of 10 GPUs for sure and 10 more at level 1, in proportion."""

    keys = (SeriesKey("lab", "A100"),)

    def forecast(self, now: float) -> PoolForecast:
        """The same at any time."""
        bounds = np.full((1, 4), 20.0)
        return PoolForecast(("lab",), "synthetic", bounds, bounds, p=0.9, forecast=self)

    def total_peak_quantile(self, p: float, hours: int, rows: Sequence[int]) -> float:
        """The same however long."""
        return 10 + 10 * p


class Given(GuaranteeLedger):
    """Counts that are given."""

    broken = 0
    kept = 0

    def counts(self, guarantee_seconds: float, now: float) -> tuple[int, int]:
        """The same for every guarantee."""
        return self.broken, self.kept


def made(waits: bool) -> tuple[AdaptiveQuota, Given]:
    ledger, waiting = Given(), SpotWaits()
    if waits:
        waiting.submitted(spot("s").task(0), -1.0)
    rates = EvictionRates(ledger), EvictionRates(ledger)
    return AdaptiveQuota(Stage(32).pool, Proportional(), rates, waiting, p=0.9, guarantees=(1,)), ledger


def level(quota: AdaptiveQuota) -> float:
    return quota.rows()[0].eta


def test_it_begins_at_p() -> None:
    quota, _ = made(waits=False)
    assert quota.limit(1) == 0.0
    quota.tick(0.0)
    assert level(quota) == pytest.approx(0.9)
    assert quota.limit(1) == pytest.approx(32 - 19)
    assert quota.why(1) == "forecast peak 19 from 00:00 at level 0.90, 0% of guarantees broken in a week"


def test_while_nobody_waits_it_does_not_fall() -> None:
    quota, _ = made(waits=False)
    for i in range(100):
        quota.tick(i * TICK)
    assert level(quota) == pytest.approx(0.9)


def test_without_evictions_it_falls_until_nothing_is_kept_back() -> None:
    quota, _ = made(waits=True)
    quota.tick(0.0)
    assert level(quota) == pytest.approx(0.9 - 0.2 * 0.1)
    for i in range(1, 50):
        quota.tick(i * TICK)
    assert level(quota) == 0.0
    assert quota.limit(1) == 32
    assert quota.why(1) == "nothing is reserved, 0% of guarantees broken in a week"


def test_it_rises_while_more_is_broken_than_promised() -> None:
    quota, ledger = made(waits=False)
    ledger.broken, ledger.kept = 30, 70
    quota.tick(0.0)
    assert level(quota) == pytest.approx(0.9 + 0.2 * 0.2)
    for i in range(1, 20):
        quota.tick(i * TICK)
    assert level(quota) == 0.995  # and no further


def test_on_target_it_stays() -> None:
    quota, ledger = made(waits=True)
    ledger.broken, ledger.kept = 10, 90
    for i in range(10):
        quota.tick(i * TICK)
    assert level(quota) == pytest.approx(0.9)


def test_when_nobody_was_evicted_of_late_it_falls_though_much_was_broken() -> None:
    # Else a quota that lets nobody start would keep what was broken in mind for a week.
    quota, ledger = made(waits=True)
    ledger.broken, ledger.kept = 30, 70
    quota.tick(0.0)
    before = level(quota)
    quota.tick(3600.0)  # the 30 are an hour old
    assert level(quota) == pytest.approx(before - 0.2 * 0.1)
    assert quota.rows()[0].eviction_rate == pytest.approx(0.3)


def test_a_week_later_what_was_broken_is_forgotten() -> None:
    quota, ledger = made(waits=True)
    ledger.broken, ledger.kept = 30, 70
    quota.tick(0.0)
    before = level(quota)
    ledger.broken += 1
    ledger.kept += 99
    quota.tick(7 * 86_400.0)
    assert level(quota) == pytest.approx(before + 0.2 * (0.01 - 0.1))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=60), st.booleans())
def test_the_quota_stays_within_what_is_idle(events: list[tuple[int, int]], waits: bool) -> None:
    quota, ledger = made(waits)
    for i, (broken, kept) in enumerate(events):
        ledger.broken += broken
        ledger.kept += kept
        quota.tick(i * TICK)
        assert 0 <= quota.limit(1) <= 32
        assert 0 <= level(quota) <= 0.995


def test_in_a_run_of_gfs_plus() -> None:
    story = play(
        nodes(8),
        hp("h", gpus=4, lasting=4000),
        spot("s", gpus=3, at=10, lasting=100),
        scheduler="gfs-plus",
        quota="adaptive",
    )
    assert story.started("s") == [300.0]
    said = "pool A100: spot quota 0 for 1 h: forecast peak 8 from 00:00 at level 0.9"
    assert story.why_waited("s").startswith(said)
