"""The parts of orgquantile, by worked numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from gfs.forecasting.history import DemandHistory, Floats, SeriesKey
from gfs.forecasting.orgquantile.calibration import (
    CURVE,
    NORMAL_CURVE,
    PRIOR,
    ConformalScores,
    LastValueBounds,
    curve_at,
    curve_of,
    quantiles,
)
from gfs.forecasting.orgquantile.features import (
    COUNT,
    LOOK_BACK,
    Single,
    calendar_from,
    calendar_of,
    features_of,
)
from gfs.forecasting.orgquantile.forecast_log import PastForecasts, peak, total_peak
from gfs.forecasting.orgquantile.mixture import FIXED_POINT, START_LOSS, Bands, ExpertWeights, fixed_point
from gfs.forecasting.orgquantile.network import fit_network
from gfs.forecasting.orgquantile.regression import QuantileFit, RegressionRows, quantile_regression, ridge_regression
from gfs.forecasting.orgquantile.training import Coefficients, TrainingSet, TrainingSettings, fit_coefficients, thinned


def pinball(residual: Floats, q: float) -> float:
    return float(np.maximum(q * residual, (q - 1) * residual).sum())


def rows_of(x: Floats, y: Floats) -> RegressionRows:
    def single(values: Floats) -> Single:
        return values.astype(np.float32)

    return RegressionRows(single(x.T), single(y))


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95])
def test_reweighted_least_squares_comes_close_to_the_exact_quantile_regression(q: float) -> None:
    """min q*u + (1-q)*v with x w + u - v = y: the linear programme whose optimum the steps approach."""
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(150), rng.normal(size=(150, 3))])
    y = x @ np.array([1.0, 2.0, -1.0, 0.5]) + rng.exponential(1.0, 150)
    cost = np.concatenate([np.zeros(4), np.full(150, q), np.full(150, 1 - q)])
    exact = linprog(
        cost, A_eq=np.hstack([x, np.eye(150), -np.eye(150)]), b_eq=y, bounds=[(None, None)] * 4 + [(0, None)] * 300
    )
    rows = rows_of(x, y)
    how = QuantileFit(q, penalty=0.0, steps=30, smoothing=1e-3)
    even = np.ones(150, dtype=np.float32)
    found = quantile_regression(rows, even, how, start=ridge_regression(rows, even, 0.0, 4), prior=np.zeros(4))
    assert pinball(y - x @ found, q) <= 1.01 * exact.fun


def test_a_strong_penalty_gives_the_prior() -> None:
    x = np.column_stack([np.ones(80), np.linspace(-1, 1, 80)])
    how = QuantileFit(0.5, penalty=1e6, steps=8, smoothing=0.05)
    rows, even = rows_of(x, 3 + 0 * x[:, 1]), np.ones(80, dtype=np.float32)
    found = quantile_regression(rows, even, how, start=np.zeros(2), prior=np.array([0.0, 5.0]))
    assert found == pytest.approx([3.0, 5.0], abs=0.2)  # the constant is free


def test_the_network_learns_what_a_line_cannot() -> None:
    """The next two hours come to |z| and 2 |z| scales, z being a feature: no line beats a constant there."""
    z = np.random.default_rng(5).normal(size=6_000).astype(np.float32)
    x = np.zeros((2, COUNT, len(z)), dtype=np.float32)
    x[:, 0], x[:, 1] = 1.0, z
    y = np.stack([np.abs(z), 2 * np.abs(z)])
    origins = np.arange(len(z))
    network = fit_network(x, y, np.ones(len(z), dtype=np.float32), origins)
    asked = np.zeros((2, COUNT, 3), dtype=np.float32)
    asked[:, 1] = [-1.0, 0.5, 2.0]
    assert network.offsets(asked, hour=30) == pytest.approx(np.array([[1, 0.5, 2], [2, 1, 4]]), abs=0.3)
    again = fit_network(x, y, np.ones(len(z), dtype=np.float32), origins)
    assert network.offsets(asked, hour=6).tobytes() == again.offsets(asked, hour=6).tobytes()
    asked[:, 1] = [-4.5, 4.5, 99.0]  # further than four standard deviations is as far as four
    far = network.offsets(asked, hour=0)
    assert np.array_equal(far[:, 1], far[:, 2])


def test_thinning_leaves_every_hour_of_the_day_as_often() -> None:
    origins = np.arange(24 * 60)
    for every in (1, 2, 5, 6, 12):
        hours = origins[thinned(origins, every)] % 24
        assert np.bincount(hours, minlength=24).tolist() == [60 // every] * 24


def test_every_hour_of_the_day_has_coefficients_of_its_own() -> None:
    """Demand falls from 300 to 100 at 18 o'clock and is back at 6: no wave, and known hours before."""
    hours = np.arange(40 * 24)
    noise = np.random.default_rng(2).normal(0, 2, len(hours))
    series = np.where((hours % 24 >= 6) & (hours % 24 < 18), 300.0, 100.0) + noise
    history = DemandHistory((SeriesKey("a", ""),), series[None, :], np.zeros(1, dtype=np.int64))
    training = TrainingSettings()
    fits = fit_coefficients(TrainingSet(history, 4, training.rows_of_each(1)), [history.end], training)[0]
    assert fits.hourly.shape == (24, 2, 4, COUNT)
    window = series[31 * 24 + 16 - LOOK_BACK : 31 * 24 + 16, None]  # it is 16 o'clock
    features = features_of(window, np.array([31 * 24 + 16]), calendar_from(16, 3, 4), 4)
    median = [float(fits.hourly[16 + ahead, 0, ahead] @ features.values[ahead, :, 0]) for ahead in range(4)]
    forecast = features.last[0] + features.scale[0] * np.array(median)
    assert forecast == pytest.approx([300, 300, 100, 100], abs=12)


def test_one_step_from_an_earlier_fit_is_nearly_a_whole_fit() -> None:
    """Ten series of 40 days, fitted until day 36: four days more need one step, and keep the network."""
    generator = np.random.default_rng(4)
    hours = np.arange(40 * 24)
    waves = 100 + 30 * np.sin(2 * np.pi * hours / 24) + generator.normal(0, 1, (10, len(hours))).cumsum(axis=1)
    keys = tuple(SeriesKey(f"o{i}", "") for i in range(10))
    history = DemandHistory(keys, np.maximum(waves, 0), np.zeros(10, np.int64))
    training = TrainingSettings(least_hours=100)
    sets = [TrainingSet(some, 4, training.rows_of_each(10)) for some in (history.until(36 * 24), history)]
    before = fit_coefficients(sets[0], [36 * 24], training)[0]
    whole, quick = (fit_coefficients(sets[1], [40 * 24], training, start)[0] for start in (None, before))
    rows = next(iter(sets[1]))
    ahead = np.arange(4)[:, None]

    def loss(fit: Coefficients) -> float:
        both = fit.hourly[(rows.origins + ahead) % 24, 0, ahead] + fit.corrections[keys[0]][0, ahead]
        return float(np.abs(rows.y - np.einsum("hfn,hnf->hn", rows.x, both)).mean())

    assert loss(quick) < 1.01 * loss(whole) < loss(before) * 1.05
    assert (quick.network, quick.network_until) == (before.network, 36 * 24)
    assert (whole.network_until, whole.network is before.network) == (40 * 24, False)
    later = DemandHistory(keys, np.tile(history.gpus, 2), history.first)
    again = fit_coefficients(TrainingSet(later, 4, 500), [80 * 24], training, quick)[0]
    assert again.network_until == 80 * 24, "more than a third of the history is newer"


def test_features_of_a_saw_by_hand() -> None:
    """Demand 10, 12, 10, 12, ...: it changes by 2 an hour, which is the scale; the last value is 12."""
    window = np.tile([10.0, 12.0], LOOK_BACK // 2)[:, None]
    features = features_of(window, np.array([LOOK_BACK]), calendar_from(0, 0, 2), 2)
    assert features.last == pytest.approx([12.0])
    assert features.scale == pytest.approx([2.0])
    values = features.values[..., 0]
    assert values.shape == (2, COUNT)
    # constant; 2, 3, 4, 5, 6, 8, 12, 18 hours ago counted so that 1 is the last: 10, 12, 10, 12, 10, 10, 10, 10
    assert values[0, :9] == pytest.approx([1, -1, 0, -1, 0, -1, -1, -1, -1])
    # means of 6, 24, 72, 168 hours are 11; then min and max of a day and of a week
    assert values[0, 9:17] == pytest.approx([-0.5, -0.5, -0.5, -0.5, -1, 0, -1, 0])
    assert values[0, 17:20] == pytest.approx([-1, 0, 0])  # 12, 10, 12 in order
    assert values[0, 20:22] == pytest.approx([1, 1])  # usual change
    # the next hour was 10 on all ten earlier days, the one after 12; moves from the hour like the last one
    assert values[0, 26:46] == pytest.approx([-1.0] * 20)
    assert values[1, 26:46] == pytest.approx([0.0] * 20)


def test_where_in_the_week() -> None:
    """Noon on a Sunday is 13 / 14 of a turn of the week, and weekend; noon on a Thursday is half a turn."""
    calendar = calendar_of(np.array([[6 * 24 + 12], [3 * 24 + 12]]), np.array([[6], [3]]))
    angle = 2 * np.pi * 13 / 14
    waves = [np.sin(angle), np.sin(2 * angle), np.cos(angle), np.cos(2 * angle)]
    assert calendar[0, :, 0] == pytest.approx([*waves, 1], abs=1e-12)
    assert calendar[1, :, 0] == pytest.approx([0, 0, -1, 1, 0], abs=1e-12)
    assert np.array_equal(calendar_from(12, 6, 1)[0], calendar[0])


def test_before_the_first_record_stands_the_first_value() -> None:
    history = DemandHistory(
        (SeriesKey("a", ""), SeriesKey("b", "")),
        np.array([[5.0, 6.0, 7.0], [0.0, 0.0, 9.0]]),
        np.array([0, 2]),
        start=10,
    )
    assert history.padded(8).tolist() == [[5, 5, 5, 6, 7], [9, 9, 9, 9, 9]]
    assert history.padded(11).tolist() == [[6, 7], [9, 9]]


def test_conformal_rank_by_hand() -> None:
    """Nine scores: ceil(0.9 * 10) = 9, the highest; ceil(0.5 * 10) = 5, the fifth; a curve of 0: 9 / 209."""
    scores = ConformalScores.collected(np.array([[3.0, 1, 2, 9, 8, 7, 4, 6, 5, np.inf]]))
    nothing = np.zeros(len(CURVE))
    assert scores.known.tolist() == [9]
    assert scores.multiplier(0.9, nothing) == pytest.approx([9 * 9 / (9 + PRIOR)])
    assert scores.multiplier(0.5, nothing) == pytest.approx([9 * 5 / (9 + PRIOR)])
    assert scores.multiplier(0.999, nothing) == pytest.approx([9 * 9 / (9 + PRIOR)])


def test_without_scores_the_general_curve_holds() -> None:
    assert ConformalScores.empty(2).multiplier(0.95, NORMAL_CURVE) == pytest.approx([1.0, 1.0])
    assert curve_at(curve_of(np.linspace(0, 1, 1001)), 0.955) == pytest.approx(0.955)
    assert curve_of(np.array([1.0, np.inf])) is NORMAL_CURVE


def test_the_expert_with_the_smaller_loss_weighs_more() -> None:
    """Losses 100, 100, 188 with START_LOSS 12: the third is 88 / 112 worse, exp(-7 * 88 / 112) = exp(-5.5)."""
    assert START_LOSS == 12
    losses = fixed_point(np.array([100.0, 100.0, 188.0])[:, None, None])
    weights = ExpertWeights(sharpness=7.0, handicap=0.0, start_handicap=0.0).of(losses)[:, 0, 0]
    e = np.exp(-5.5)
    assert weights == pytest.approx([1 / (2 + e), 1 / (2 + e), e / (2 + e)])


def test_the_last_value_counts_until_it_is_proved_wrong() -> None:
    """No loss yet: exp(-7 * 3 / 12) for the fitted expert."""
    weights = ExpertWeights(sharpness=7.0, handicap=0.0).of(fixed_point(np.zeros((2, 1, 1))))[:, 0, 0]
    assert weights[1] / weights[0] == pytest.approx(np.exp(-7 * 3 / 12))


def test_bounds_of_young_series_are_mixed_with_those_of_the_last_value() -> None:
    """Demand rises by 2 an hour for six days: a share of 36 / 144, and 2 h GPUs in h hours at any probability.

    After one day nothing else counts."""
    keys = (SeriesKey("young", ""), SeriesKey("old", ""), SeriesKey("new", ""))
    gpus = np.stack([2.0 * np.arange(700), np.ones(700), np.ones(700)])
    learnt = LastValueBounds.learned(DemandHistory(keys, gpus, np.array([700 - 144, 0, 700 - 24])), 4)
    found = learnt.of(keys)
    assert found is not None
    assert found[1].tolist() == [0.25, 0.0, 1.0]
    assert curve_at(found[0], 0.9)[0] == pytest.approx([2, 4, 6, 8])
    assert learnt.of(keys[1:2]) is None


def test_without_losses_of_its_own_the_last_value_has_all_the_weight() -> None:
    losses = fixed_point(np.array([0.0, 30.0, 50.0])[:, None, None])
    assert ExpertWeights().of(losses)[0, 0, 0] == pytest.approx(1.0)
    assert fixed_point(np.array([0.5])) == FIXED_POINT // 2


def bands(middle: list[list[float]], width: list[list[float]]) -> Bands:
    """Of hours x series."""
    forecast = Bands.blank(*np.shape(middle))
    forecast.middle[:], forecast.width[:], forecast.exists[:] = middle, width, 1.0
    return forecast


def test_peaks_and_totals_by_hand() -> None:
    forecast = bands([[10.0, 5.0], [20.0, 1.0]], [[4.0, 4.0], [3.0, 4.0]])
    middle, width = peak(forecast, 2)
    assert middle.tolist() == [20, 5]
    assert width.tolist() == [3, 4]  # highest bounds 23 and 9
    assert total_peak(forecast) == (21.0, pytest.approx(np.sqrt(32)))
    past = PastForecasts((forecast,) * 3, (np.array([10.0, 9.0]), np.array([26.0, 1.0])))
    assert past.peak_scores(2).ordered.tolist() == [[2.0], [1.0]]  # (26 - 20) / 3 and (9 - 5) / 4
    # sums 19 and 27: the peak is 6 above 21
    assert past.total_peak_scores([0, 1], 2).ordered[0] == pytest.approx([6 / np.sqrt(32)])
    forecast.exists[:, 0] = 0.0  # only the second was there: 9 of 5 expected, width 4
    again = PastForecasts(past.bands, past.actual)  # a past remembers what it was asked
    assert again.total_peak_scores([0, 1], 2).ordered[0] == pytest.approx([(27 - 5) / 4])


@pytest.mark.parametrize("count", [1, 2, 119, 500])
def test_quantiles_by_sorting_are_those_of_numpy(count: int) -> None:
    values = np.random.default_rng(count).standard_normal((3, count)).round(1)
    assert (quantiles(values) == np.quantile(values, CURVE, axis=1).T).all()
