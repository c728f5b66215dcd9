"""Forecasters that take no training, the history they see, and the registry: small numbers worked by hand."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from gfs.domain.errors import InputError
from gfs.forecasting.forecast import NormalForecast
from gfs.forecasting.history import DemandHistory, SeriesKey, hour_of_day
from gfs.forecasting.naive import PERSISTENCE, SEASONAL_DAY, SEASONAL_WEEK, WEEKLY_PEAK, PastErrors
from gfs.forecasting.registry import MODELS, Model, find_model


def history(*series: list[float], first: list[int] | None = None, start: int = 0) -> DemandHistory:
    keys = tuple(SeriesKey(f"org-{i}", "A100") for i in range(len(series)))
    begin = first or [0] * len(series)
    return DemandHistory(keys, np.asarray(series, dtype=float), np.asarray(begin, dtype=np.int64), start)


class TestPersistence:
    def test_the_last_value_for_every_hour(self) -> None:
        known = history([1, 2, 3], [6, 5, 4])
        assert PERSISTENCE.fit(known).predict(known, 2).mean().tolist() == [[3, 3], [4, 4]]

    def test_bounds_are_quantiles_of_past_changes(self) -> None:
        # changes over 1 h: 1, 2, 3, 4; over 2 h: 3, 5, 7; the last value is 10
        known = history([0, 1, 3, 6, 10])
        forecast = PERSISTENCE.fit(known).predict(known, 2)
        assert forecast.quantile(1.0).tolist() == [[14, 17]]
        assert forecast.quantile(0.5).tolist() == [[12.5, 15]]
        assert forecast.quantile(0.9).tolist() == [[pytest.approx(13.7), pytest.approx(16.6)]]
        assert forecast.peak_quantile(0.5, 1).tolist() == [12.5]
        assert forecast.peak_quantile(0.5, 2).tolist() == [15]

    def test_changes_from_before_it_existed_do_not_count(self) -> None:
        # 0 to 50 was its arrival; since then it changed by 2 and by -1
        known = history([0, 0, 50, 52, 51], first=[2])
        assert PERSISTENCE.fit(known).predict(known, 1).quantile(1.0).tolist() == [[53]]

    def test_bounds_are_not_negative(self) -> None:
        known = history([9, 6, 3, 1])
        assert PERSISTENCE.fit(known).predict(known, 3).quantile(0.1).tolist() == [[0, 0, 0]]

    def test_a_series_that_was_not_fitted_has_its_value_alone(self) -> None:
        known = history([0, 9, 0, 9], [5, 5, 5, 7])
        forecast = PERSISTENCE.fit(known.only([0])).predict(known, 1)
        assert forecast.quantile(1.0).tolist() == [[18], [7]]

    def test_quantiles_are_those_of_numpy(self) -> None:
        gpus = np.random.default_rng(0).integers(0, 90, (3, 400)).astype(float)
        known = history(*gpus.tolist())
        found = PERSISTENCE.fit(known).predict(known, 1).quantile(0.93)[:, 0]
        assert found == pytest.approx(gpus[:, -1] + np.quantile(np.diff(gpus), 0.93, axis=1))

    def test_after_the_first_time_nothing_is_sorted_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A hundred series of half a year: 0.15 ms instead of 20."""
        known = history(*np.random.default_rng(0).integers(0, 90, (100, 4416)).astype(float).tolist())
        predictor = PERSISTENCE.fit(known)

        def bounds() -> list[object]:
            forecast = predictor.predict(known, 4)
            return [forecast.quantile(0.95).tolist(), forecast.peak_quantile(0.95, 4).tolist()]

        first = bounds()
        monkeypatch.delattr(PastErrors, "_errors")  # where the sorting is
        assert bounds() == first


class TestSeasons:
    def test_the_value_at_this_hour_a_day_ago(self) -> None:
        known = history([float(x) for x in range(48)])
        forecast = SEASONAL_DAY.fit(known).predict(known, 26)
        # hours 48 and 49 look at 24 and 25; hour 72 is forecast from 24 too: 48 has not come yet
        assert forecast.mean()[0, [0, 1, 23, 24, 25]].tolist() == [24, 25, 47, 24, 25]

    def test_a_series_younger_than_a_season_has_its_last_value(self) -> None:
        known = history([0.0] * 40 + [5, 6, 7], [1.0] * 43, first=[40, 0])
        assert SEASONAL_DAY.fit(known).predict(known, 2).mean().tolist() == [[7, 7], [1, 1]]
        assert SEASONAL_WEEK.fit(known).predict(known, 2).mean().tolist() == [[7, 7], [1, 1]]

    def test_no_history_is_no_demand(self) -> None:
        known = history([1.0, 2.0]).until(0)
        for estimator in (PERSISTENCE, SEASONAL_DAY, WEEKLY_PEAK):
            assert estimator.fit(known).predict(known, 3).quantile(0.9).tolist() == [[0, 0, 0]]


class TestWeeklyPeak:
    def test_the_highest_of_the_last_168_hours_and_no_more(self) -> None:
        known = history([99.0] + [1.0] * 100 + [7.0] + [2.0] * 67)
        forecast = WEEKLY_PEAK.fit(known).predict(known, 2)
        assert forecast.mean().tolist() == [[7, 7]]
        assert forecast.quantile(0.99).tolist() == [[7, 7]]


class TestNormal:
    def test_quantiles_of_the_paper(self) -> None:
        # z of 0.9 is 1.2816: 10 + 1.2816 * 2 and 20 + 1.2816 * 1; 1 - 1.2816 * 5 would be negative
        forecast = NormalForecast((SeriesKey("o", "A"),), np.array([[10.0, 20.0]]), np.array([[2.0, 1.0]]))
        assert forecast.quantile(0.9)[0] == pytest.approx([12.5631, 21.2816], abs=1e-4)
        assert forecast.peak_quantile(0.9, 2)[0] == pytest.approx(21.2816, abs=1e-4)
        low = NormalForecast((SeriesKey("o", "A"),), np.array([[1.0]]), np.array([[5.0]]))
        assert low.quantile(0.1).tolist() == [[0]]


class TestHistory:
    KNOWN = history([1, 2, 3, 4], [0, 0, 5, 6], first=[0, 2], start=30)

    def test_until_cuts_the_end_and_since_the_beginning(self) -> None:
        early, late = self.KNOWN.until(32), self.KNOWN.since(31)
        assert (early.start, early.end, early.gpus.tolist()) == (30, 32, [[1, 2], [0, 0]])
        assert (late.start, late.end, late.gpus.tolist()) == (31, 34, [[2, 3, 4], [0, 5, 6]])
        assert late.first.tolist() == [0, 1]

    def test_cuts_outside_change_nothing_or_leave_nothing(self) -> None:
        assert self.KNOWN.since(0).gpus.shape == self.KNOWN.until(99).gpus.shape == (2, 4)
        assert self.KNOWN.until(0).hours == self.KNOWN.since(99).hours == 0

    def test_days_and_hours(self) -> None:
        hours = np.array([0, 23, 24, 24 * 8 + 5])
        assert hour_of_day(hours).tolist() == [0, 23, 0, 5]
        assert self.KNOWN.weekday_of(hours).tolist() == [0, 0, 1, 1]
        thursday = DemandHistory((), np.empty((0, 0)), np.empty(0, np.int64), 0, date(2024, 4, 4))
        assert thursday.weekday_of(hours).tolist() == [3, 3, 4, 4]

    @pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
    def test_demand_is_finite_and_not_negative(self, bad: float) -> None:
        with pytest.raises(InputError, match="a number of GPUs from 0 to"):
            history([1, bad])


class TestRegistry:
    def test_a_slip_gets_the_closest_name(self) -> None:
        with pytest.raises(InputError, match="unknown forecaster 'seasonal': did you mean seasonal-"):
            find_model("seasonal")

    def test_a_missing_extra_says_which_command_installs_it(self) -> None:
        model = Model("deep", "a large one", "gfs_no_such_module:Deep", extra="baselines")
        with pytest.raises(InputError, match=r"deep needs .*: pip install 'gfs-scheduler\[baselines\]'$"):
            model.load()

    def test_a_window_is_for_those_that_have_one(self) -> None:
        windowed = Model("w", "remembers its arguments", "types:SimpleNamespace", windowed=True)
        assert windowed.load(48).window == 48  # type: ignore[attr-defined]
        assert not hasattr(windowed.load(), "window")
        assert find_model("persistence").load(48) is PERSISTENCE

    def test_ours_need_no_extra(self) -> None:
        assert {"persistence", "seasonal-24", "seasonal-168", "weekly-peak"} <= {
            name for name, model in MODELS.items() if not model.extra and model.summary
        }
