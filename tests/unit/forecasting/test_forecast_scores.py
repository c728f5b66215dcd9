"""Every figure of an evaluation, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfs.domain.errors import InputError
from gfs.forecasting.evaluation import Rolled, Scores, origins_of_test, roll
from gfs.forecasting.history import DemandHistory, SeriesKey
from gfs.forecasting.naive import PERSISTENCE


def history(*series: list[float], start: int = 0, first: list[int] | None = None) -> DemandHistory:
    keys = tuple(SeriesKey(f"org-{i}", "A100") for i in range(len(series)))
    begin = first or [0] * len(series)
    return DemandHistory(keys, np.asarray(series, dtype=float), np.asarray(begin, dtype=np.int64), start)


def rolled(actual: Any, mean: Any, upper: Any, peak: Any, counted: Any = None) -> Rolled:
    came = np.asarray(actual, dtype=float)
    bound = np.asarray(upper, dtype=float)
    return Rolled(
        start=0,
        actual=came,
        mean=np.asarray(mean, dtype=float),
        quantiles={0.9: bound, 0.95: bound},
        peak=np.asarray(peak, dtype=float),
        counted=np.ones(came.shape[:2], dtype=bool) if counted is None else np.asarray(counted, dtype=bool),
        train_seconds=1.5,
        predict_ms=0.25,
    )


TWO = rolled(
    # two series, two origins, two hours ahead
    actual=[[[10, 20], [20, 30]], [[0, 4], [4, 0]]],
    mean=[[[12, 20], [20, 22]], [[1, 4], [4, 1]]],
    upper=[[[15, 25], [19, 31]], [[2, 3], [4, 0]]],
    peak=[[25, 31], [3, 5]],
)
"""Errors 2 0 0 8 of a series with mean 20, and 1 0 0 1 of one with mean 2."""


@pytest.fixture
def scores() -> Scores:
    return TWO.scores()


class TestErrors:
    def test_mae_is_in_gpus_over_all_hours(self, scores: Scores) -> None:
        assert scores.mae == pytest.approx((2 + 8 + 1 + 1) / 8)

    def test_mse_and_its_root(self, scores: Scores) -> None:
        assert scores.mse == pytest.approx((4 + 64 + 1 + 1) / 8)
        assert scores.rmse == pytest.approx((70 / 8) ** 0.5)

    def test_nmae_is_percent_of_each_mean_then_averaged(self, scores: Scores) -> None:
        # (10/4) / 20 = 12.5% and (2/4) / 2 = 25%
        assert scores.nmae == pytest.approx((12.5 + 25) / 2)

    def test_mape_leaves_out_hours_of_no_demand(self, scores: Scores) -> None:
        # 2/10, 0, 0, 8/30 of the first, 0 and 0 of the second: six hours
        assert scores.mape == pytest.approx(100 * (2 / 10 + 8 / 30) / 6)

    def test_pinball_weighs_too_low_p_and_too_high_one_minus_p(self, scores: Scores) -> None:
        # first: bound above by 5, 5, 1, below by 1; second: above by 2 and 0, 0, below by 1
        for p, found in ((0.9, scores.pinball_90), (0.95, scores.pinball_95)):
            one = ((1 - p) * (5 + 5 + 1) + p * 1) / 4 / 20
            two = ((1 - p) * 2 + p * 1) / 4 / 2
            assert found == pytest.approx(100 * (one + two) / 2)


class TestBounds:
    def test_coverage_counts_hours_at_or_below_the_bound(self, scores: Scores) -> None:
        # one of four hours of each series lies above; equal (4 and 4, 0 and 0) is covered
        assert scores.coverage_90 == scores.coverage_95 == pytest.approx(0.75)

    def test_maqe_is_the_mean_distance_of_the_series(self) -> None:
        # 3 of 4 and 4 of 4 covered: |0.75 - 0.9| = 0.15 and |1 - 0.9| = 0.1; their mean coverage would say 0.025
        upper = [[[15, 25], [19, 31]], [[9, 9], [9, 9]]]
        better = replace(TWO, quantiles={0.9: np.asarray(upper, float), 0.95: np.asarray(upper, float)}).scores()
        assert better.maqe_90 == pytest.approx((0.15 + 0.1) / 2)
        assert better.maqe_95 == pytest.approx((0.2 + 0.05) / 2)
        assert better.lowest_coverage_95 == pytest.approx(0.75)

    def test_the_peak_is_the_highest_of_the_horizon(self, scores: Scores) -> None:
        # peaks 20 <= 25, 30 <= 31; 4 > 3, 4 <= 5
        assert scores.peak_coverage_95 == pytest.approx(3 / 4)

    def test_over_reserved_is_what_the_bound_lies_above_the_peak(self, scores: Scores) -> None:
        # first: 5 and 1, mean 3 of 20; second: 0 (below) and 1, mean 0.5 of 2
        assert scores.over_reserved_95 == pytest.approx(100 * (3 / 20 + 0.5 / 2) / 2)


class TestWhatCounts:
    def test_a_series_without_demand_has_no_relative_figure(self) -> None:
        dull = rolled([[[10]], [[0]]], [[[9]], [[1]]], [[[10]], [[1]]], [[10], [1]]).scores()
        assert dull.nmae == pytest.approx(10)
        assert dull.mae == pytest.approx(1)

    def test_nothing_at_all_gives_zeros_and_no_warning(self) -> None:
        nothing = rolled([[[0]]], [[[0]]], [[[0]]], [[0]]).scores()
        assert (nothing.nmae, nothing.mape, nothing.pinball_95, nothing.coverage_95) == (0, 0, 0, 1)

    def test_hours_before_an_organization_existed_count_for_no_one(self) -> None:
        late = rolled(
            [[[0], [0], [8]]], [[[5], [5], [6]]], [[[0], [0], [9]]], [[0, 0, 9]], counted=[[False, False, True]]
        ).scores()
        assert late.mae == 2
        assert late.nmae == pytest.approx(25)
        assert late.coverage_95 == 1

    def test_no_series_that_counts_is_refused(self) -> None:
        with pytest.raises(InputError, match="nothing to compare"):
            rolled([[[1]]], [[[1]]], [[[1]]], [[1]], counted=[[False]]).scores()

    def test_times_are_passed_on(self, scores: Scores) -> None:
        assert (scores.train_seconds, scores.predict_ms) == (1.5, 0.25)
        assert scores.predict_ms == 0.25


class TestRolling:
    def test_persistence_on_a_ramp_is_off_by_the_hours_ahead(self) -> None:
        # 1, 2, ..., 100: the forecast h hours ahead is h too low, so |error| is 2.5 on average over 4 hours
        ramp = roll(PERSISTENCE, history([float(x) for x in range(1, 101)])).scores()
        assert ramp.mae == pytest.approx(2.5)
        assert ramp.mse == pytest.approx((1 + 4 + 9 + 16) / 4)
        # past errors were just those, so the bounds are exact
        assert ramp.coverage_95 == 1
        assert ramp.over_reserved_95 == 0

    def test_every_hour_of_the_test_part_whose_horizon_is_known_is_an_origin(self) -> None:
        known = history([1.0] * 100, start=24)
        assert origins_of_test(known, 4, (0.7, 0.1, 0.2)) == range(104, 121)
        assert roll(PERSISTENCE, known).actual.shape == (1, 17, 4)

    def test_fitted_once_before_the_test_part_and_asked_at_every_hour_of_it(self) -> None:
        seen = []

        class Spy:
            name = "spy"

            def fit(self, known: DemandHistory) -> Any:
                seen.append((known.start, known.end))
                return self

            def predict(self, known: DemandHistory, hours: int) -> Any:
                seen.append((known.start, known.end))
                return PERSISTENCE.fit(known).predict(known, hours)

        roll(Spy(), history([1.0] * 50), horizon=9)
        assert seen == [(0, 40), (0, 40), (0, 41)]

    def test_series_that_begin_in_the_test_part_count_from_their_second_hour(self) -> None:
        counted = roll(PERSISTENCE, history([1.0] * 20, [0.0] * 17 + [5.0] * 3, first=[0, 17]), horizon=1).counted
        assert counted.tolist() == [[True] * 4, [False, False, True, True]]

    @pytest.mark.parametrize("split", [(0.7, 0.2, 0.2), (0, 0.5, 0.5), (0.5, 0.5, 0), (1.2, -0.4, 0.2)])
    def test_a_split_must_be_three_shares(self, split: tuple[float, float, float]) -> None:
        with pytest.raises(InputError, match="add up to 1"):
            origins_of_test(history([1.0] * 10), 1, split)

    def test_too_few_hours_are_refused(self) -> None:
        with pytest.raises(InputError, match="10 hours of demand are too few"):
            roll(PERSISTENCE, history([1.0] * 10))
        with pytest.raises(InputError, match="1 hours of demand are too few"):
            roll(PERSISTENCE, history([1.0]), horizon=1)

    def test_a_horizon_of_nothing_is_refused(self) -> None:
        with pytest.raises(InputError, match="at least 1 hour"):
            roll(PERSISTENCE, history([1.0] * 100), horizon=0)
