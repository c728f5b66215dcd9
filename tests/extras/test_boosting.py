"""LightGBM as the ceiling, and the grid of quantiles that it shares with the networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lightgbm", reason="needs the extra lightgbm: make test-extras")

from scipy.special import ndtri
from series import DAY, WEEK, daily

from gfs.forecasting.baselines.boosting import LOOK_BACK, LightGbmEstimator, tree_features
from gfs.forecasting.baselines.quantiles import LEVELS, MIDDLE, QuantileForecast, extended
from gfs.forecasting.evaluation import roll
from gfs.forecasting.naive import PERSISTENCE

QUICK = LightGbmEstimator(steps=30, rate=0.2)


def normal(mean: float, sigma: float) -> QuantileForecast:
    """A forecast of one series and hour whose grid is that of a normal distribution."""
    grid = mean + sigma * ndtri(np.array(LEVELS))[:, None, None]
    return QuantileForecast(daily(1).keys, grid[MIDDLE], grid)


class TestGrid:
    @pytest.mark.parametrize("p", [0.01, 0.05, 0.3, 0.5, 0.8, 0.9, 0.97, 0.99, 0.999])
    def test_a_normal_distribution_is_met_at_any_probability(self, p: float) -> None:
        assert normal(100.0, 10.0).quantile(p)[0, 0] == pytest.approx(100 + 10 * ndtri(p))

    def test_the_ends_are_finite(self) -> None:
        forecast = normal(100.0, 10.0)
        assert forecast.quantile(0.0) == pytest.approx(100 + 10 * ndtri(1e-4))
        assert forecast.quantile(1.0) == pytest.approx(100 - 10 * ndtri(1e-4))

    def test_nothing_is_below_zero(self) -> None:
        forecast = normal(-1.0, 1.0)
        assert forecast.mean() == 0
        assert forecast.quantile(0.1) == 0

    def test_beyond_the_hours_known_it_is_as_in_the_last_one_but_wider(self) -> None:
        # Two hours known, the last one 5 +- 1. Hour 8 is four times as far: twice as wide.
        middle = np.array([[4.0, 5.0]])
        grid = np.stack([middle - 1, middle, middle + 1])
        later, wide = extended(middle, grid, 8)
        assert later.tolist() == [[4.0, *[5.0] * 7]]
        assert wide[:, 0, 1].tolist() == [4.0, 5.0, 6.0]
        assert wide[:, 0, 7] == pytest.approx([3.0, 5.0, 7.0])


class TestFeatures:
    def test_a_larger_organization_has_the_same_features(self) -> None:
        known = daily(1, LOOK_BACK)
        origins = np.array([known.end])
        one, tenfold = (tree_features(size * known.gpus, known, origins, 4) for size in (1.0, 10.0))
        assert tenfold.values == pytest.approx(one.values)
        assert tenfold.scale == pytest.approx(10 * one.scale)

    def test_only_what_is_known_counts_for_an_hour_ahead(self) -> None:
        """A perfect rhythm: the change from yesterday's same hour is the change to come."""
        hours = np.arange(LOOK_BACK + 4)
        wave = 50 + 20 * np.sin(2 * np.pi * hours / DAY)[None, :]
        rows = tree_features(wave[:, :LOOK_BACK], daily(1), np.array([LOOK_BACK]), 4)
        coming = (wave[:, LOOK_BACK:] - rows.last[:, None]) / rows.scale[:, None]
        # the same hour of the 10 days that are looked at, and the mean of the last seven
        shown = rows.values[0]
        for ahead in range(4):
            assert np.isclose(shown[ahead], coming[0, ahead]).sum() >= 11
        assert shown[:, -3].tolist() == [(LOOK_BACK + ahead) % DAY for ahead in range(4)]
        assert shown[:, -1].tolist() == [0, 1, 2, 3]


def test_it_learns_a_daily_rhythm() -> None:
    known = daily()
    learnt, last = (roll(estimator, known).scores() for estimator in (QUICK, PERSISTENCE))
    assert learnt.nmae < 0.4 * last.nmae
    assert 0.85 < learnt.coverage_90 <= 1


def test_another_seed_is_another_forecast() -> None:
    known = daily()
    one, other = (replace(QUICK, seed=seed).fit(known).predict(known, 4).mean() for seed in (0, 1))
    assert (one != other).any()


def test_nothing_is_printed_or_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for hours in (30, 4 * WEEK):
        known = daily(2, hours)
        QUICK.fit(known).predict(known, 4)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
