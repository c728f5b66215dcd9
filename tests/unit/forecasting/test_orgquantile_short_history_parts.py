"""What orgquantile does about little history, jumps and volatile days, by worked numbers."""

from __future__ import annotations

import numpy as np
import pytest

from gfs.forecasting.history import DemandHistory, Floats, SeriesKey
from gfs.forecasting.orgquantile.calibration import (
    CURVE,
    PRIOR,
    RECENT_SHARE,
    ConformalScores,
    GrowthRatios,
    RecencyWeighted,
    Volatility,
    curve_at,
    level_shifted,
)
from gfs.forecasting.orgquantile.estimator import Curves, OrgQuantileForecast
from gfs.forecasting.orgquantile.features import LOOK_BACK, Single, calendar_from, features_of
from gfs.forecasting.orgquantile.forecast_log import PastForecasts
from gfs.forecasting.orgquantile.mixture import Bands
from gfs.forecasting.orgquantile.regression import QuantileFit, RegressionRows, quantile_regression
from gfs.forecasting.orgquantile.training import TrainingSet, warm_up


def demand(*rows: Floats) -> DemandHistory:
    keys = tuple(SeriesKey(f"org{i}", "") for i in range(len(rows)))
    return DemandHistory(keys, np.stack(rows), np.zeros(len(rows), dtype=np.int64))


def test_the_scale_of_a_young_series_is_that_of_the_hours_known_of_it() -> None:
    """10, 12, 10, 12, ... for two days: 47 changes of 2 in 48 hours, not in the 168 of a week."""
    young = demand(np.tile([10.0, 12.0], 24))
    window = young.padded(48 - LOOK_BACK).T
    features = features_of(window, np.array([48]), calendar_from(0, 2, 1), 1)
    assert features.scale == pytest.approx([47 * 2 / 48])


def test_the_first_quarter_of_a_short_history_is_not_learned_from() -> None:
    assert [warm_up(days * 24) for days in (0, 2, 10, 28, 60)] == [0, 12, 60, 168, 168]
    assert TrainingSet(demand(np.arange(48.0)), 4, 1000).rows == 36


def test_a_penalised_constant_stays_near_the_prior() -> None:
    """Targets of 3, a prior of 1: a free constant takes 3; penalised as much as the rows weigh, it is half way."""

    def single(values: Floats) -> Single:
        return values.astype(np.float32)

    rows, even = RegressionRows(single(np.ones((1, 50))), single(np.full(50, 3.0))), np.ones(50, dtype=np.float32)
    free = QuantileFit(0.5, penalty=0.5, steps=1, smoothing=0.1)
    start = np.ones(1)
    assert quantile_regression(rows, even, free, start, start) == pytest.approx([3.0])
    assert quantile_regression(rows, even, free.stiffened(3.0, constant=True), start, start) == pytest.approx([2.0])
    assert free.stiffened(1.0, constant=True) == free


def test_two_volatile_days_widen_and_two_calm_ones_narrow() -> None:
    """Errors of 1 but for the last two days: at 2 the week's mean is 9 / 7, at 0 it is 5 / 7."""
    for size, mean in ((2.0, 9 / 7), (0.0, 5 / 7), (1.0, 1.0), (50.0, 11 / 7)):  # 50 counts as 3
        volatility = Volatility(1)
        for hour in range(168):
            volatility.note(hour, np.full((4, 1), size if hour >= 120 else 1.0))
        recent = min(size, 3.0)
        assert volatility.stretch(167) == pytest.approx([np.sqrt((48 * recent + 24 * mean) / (72 * mean))])


def test_a_series_without_errors_is_not_stretched() -> None:
    volatility = Volatility(2)
    volatility.note(0, np.array([[0.0, np.inf]]))
    assert volatility.stretch(0).tolist() == [1.0, 1.0]


def test_the_last_week_counts_once_more() -> None:
    """A curve of 0: nine scores up to 9 give 9 * 9 / 209, a recent one of 1 gives 1 / 201."""
    nothing = np.zeros(len(CURVE))
    weighted = RecencyWeighted(
        ConformalScores.collected(np.arange(1.0, 10.0)[None]), ConformalScores.collected(np.ones((1, 1)))
    )
    expected = (1 - RECENT_SHARE) * 81 / (9 + PRIOR) + RECENT_SHARE / (1 + PRIOR)
    assert weighted.multiplier(0.95, nothing) == pytest.approx([expected])


def test_no_bound_lies_further_above_the_middle_than_demand_has_been() -> None:
    """A width of 10 and c = 1 make 20 of 10; it was 3 above at most. Eight hours ahead: 3 * sqrt(8 / 4)."""
    bands = Bands.blank(8, 1)
    bands.middle[:], bands.width[:], bands.exists[:] = 10.0, 10.0, 1.0
    one = np.ones(len(CURVE))
    forecast = OrgQuantileForecast(
        (SeriesKey("a", ""),),
        bands,
        ConformalScores.empty(1),
        ConformalScores.empty(1),
        np.array([3.0]),
        PastForecasts((bands,), ()),
        Curves(one, one),
        np.ones((1, 5, len(CURVE))),
        np.zeros(1, dtype=bool),
    )
    assert forecast.quantile(0.95)[0, [0, 3, 7]] == pytest.approx([13, 13, 10 + 3 * np.sqrt(2)])
    assert forecast.peak_quantile(0.95, 4) == pytest.approx([13])


def test_growth_from_next_to_nothing_says_nothing_of_growth_from_a_high_level() -> None:
    """Idle but for an hour a day at 100: over all hours every 24th goes up 201-fold; from 100 it never rises."""
    spikes = np.where(np.arange(24 * 20) % 24 == 9, 100.0, 0.0)
    growth = GrowthRatios.learned(demand(spikes), 1)
    assert curve_at(growth.general, 0.99)[0] < 1


def test_a_level_is_new_for_three_days() -> None:
    for days, new in ((1, True), (2, True), (3, True), (4, False)):
        window = np.where(np.arange(LOOK_BACK) < LOOK_BACK - 24 * days, 10.0, 25.0)[:, None]
        assert level_shifted(window, np.zeros(1, dtype=bool)).tolist() == [new]
