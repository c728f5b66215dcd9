"""OrgLinear: decomposition, attention, loss and gradients, and what it does with difficult series."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from gfs import InputError
from gfs.forecasting.history import DemandHistory, SeriesKey, holiday_hours
from gfs.forecasting.orglinear.estimator import OrgLinearEstimator
from gfs.forecasting.orglinear.model import (
    CALENDAR,
    LEAST_SIGMA,
    Batch,
    Schedule,
    Shape,
    context_of,
    forward,
    gradients_of,
    initial,
    loss,
    moving_average,
    train,
)
from gfs.forecasting.orglinear.scaling import KnownHours, series_scale, window_scales
from gfs.forecasting.registry import MODELS

SMALL = OrgLinearEstimator(window=48, schedule=Schedule(epochs=3, rate=1e-3))
"""Two days of window: quick, and the rules are the same."""


def history(*series: np.ndarray, first: list[int] | None = None, first_day: date | None = None) -> DemandHistory:
    keys = tuple(SeriesKey(f"org{i}", "A100") for i in range(len(series)))
    return DemandHistory(keys, np.stack(series), np.array(first or [0] * len(series)), first_day=first_day)


def daily(hours: int, level: float = 100.0, swing: float = 20.0, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, 2.0, hours)
    return level + swing * np.sin(2 * np.pi * np.arange(hours) / 24) + noise


def test_the_moving_average_mirrors_the_window_at_its_ends() -> None:
    # Window 1 2 6 7 9, kernel 3. Mirrored without repeating the end: 2 | 1 2 6 7 9 | 7.
    # Means: (2+1+2)/3, (1+2+6)/3, (2+6+7)/3, (6+7+9)/3, (7+9+7)/3.
    trend = moving_average(5, 3) @ np.array([1.0, 2.0, 6.0, 7.0, 9.0])
    assert trend == pytest.approx([5 / 3, 3.0, 5.0, 22 / 3, 23 / 3])
    assert moving_average(672, 25).sum(axis=1) == pytest.approx(np.ones(672))


def test_an_even_kernel_has_no_middle() -> None:
    with pytest.raises(InputError, match="kernel = 24"):
        OrgLinearEstimator(kernel=24)


def random_batch(shape: Shape, cases: int = 5, seed: int = 0) -> Batch:
    generator = np.random.default_rng(seed)
    calendar = np.stack([generator.integers(0, n, cases) for n in CALENDAR.values()], axis=1)
    attributes = np.stack([generator.integers(0, n, cases) for n in shape.attributes], axis=1)
    return Batch(
        generator.normal(size=(cases, shape.window)),
        calendar,
        attributes,
        generator.normal(size=(cases, shape.horizon)),
    )


def test_the_weights_to_begin_with_say_the_last_value() -> None:
    # Windows are measured from their last value, so it is 0.
    shape = Shape(window=30, horizon=4, width=3, attributes=(3, 2))
    mu, sigma = forward(initial(shape, np.random.default_rng(1)), random_batch(shape), moving_average(30, 5))
    assert mu == pytest.approx(np.zeros((5, 4)))
    assert sigma == pytest.approx(np.full((5, 4), np.log(2) + LEAST_SIGMA))


def test_a_window_is_measured_by_its_series_and_its_changes() -> None:
    # Two days and an hour: 4 until noon and 6 after it. That is 48 steps, of which 4 by 2: rms 1 / sqrt(3).
    demand = np.array([*[4.0] * 12, *[6.0] * 12] * 2 + [4.0])
    series = np.array([5.0]), np.array([np.sqrt(3)])
    scale, ahead = window_scales(demand[None], KnownHours.of(np.array([49]), len(demand)), series, 13)
    assert scale[0] == pytest.approx(1.0)  # sqrt(sqrt(3) / sqrt(3))
    # An hour after midnight it was 4 as before on both days, after noon it was 6. One day more, on which it was s:
    # rms changes of sqrt((0 + 0 + 1) / 3) and sqrt((4 + 4 + 1) / 3).
    assert ahead[0, 0] == pytest.approx((1 / 3) ** 0.25)
    assert ahead[0, 12] == pytest.approx(3**0.25)


def test_a_constant_window_has_a_scale_too() -> None:
    series = np.array([5.0]), np.array([0.05])
    for hours in (1, 2, 24, 49, 672):
        for known in (0, 1, hours):
            scale, ahead = window_scales(np.full((1, hours), 5.0), KnownHours.of(np.array([known]), hours), series, 30)
            assert scale == pytest.approx(np.array([0.05]))
            assert ((ahead > 0.01) & (ahead <= scale[0])).all()


def test_attention_is_scaled_before_the_softmax_and_adds_up_to_one() -> None:
    shape = Shape(window=4, horizon=1, width=4, attributes=(2, 2))
    parameters = initial(shape, np.random.default_rng(0))
    for name in ("query", "key", "value"):
        parameters[name] = np.eye(4)
    parameters["attribute0"][1] = [2.0, 0.0, 0.0, 0.0]
    parameters["attribute1"][1] = [0.0, 1.0, 0.0, 0.0]
    batch = Batch(np.zeros((1, 4)), np.zeros((1, 3), int), np.array([[1, 1]]), np.zeros((1, 1)))
    # First token: logits (2x2, 0) / sqrt(4) = (2, 0); second: (0, 1) / 2 = (0, 0.5).
    attention = context_of(parameters, batch).attention[0]
    assert attention[0] == pytest.approx([np.e**2 / (np.e**2 + 1), 1 / (np.e**2 + 1)])
    assert attention[1] == pytest.approx([1 / (1 + np.e**0.5), np.e**0.5 / (1 + np.e**0.5)])


def test_the_loss_has_the_log_sigma_term() -> None:
    # One case, one hour: y = 3, mu = 1, sigma = 2: log 2 + (3 - 1)^2 / (2 x 4) = 0.6931 + 0.5.
    shape = Shape(window=2, horizon=1, width=1, attributes=(1,))
    parameters = initial(shape, np.random.default_rng(0))
    parameters["context"][:] = parameters["spread_context"][:] = 0.0
    parameters["offset"][:] = 1.0
    parameters["spread_offset"][:] = np.log(np.expm1(2.0 - LEAST_SIGMA))
    batch = Batch(np.array([[0.0, 1.0]]), np.zeros((1, 3), int), np.zeros((1, 1), int), np.array([[3.0]]))
    assert loss(parameters, batch, np.eye(2)) == pytest.approx(np.log(2) + 0.5)


def test_every_gradient_is_the_slope_of_the_loss() -> None:
    shape = Shape(window=12, horizon=3, width=3, attributes=(4, 3))
    generator = np.random.default_rng(5)
    parameters = {
        name: value + generator.normal(0, 0.3, value.shape) for name, value in initial(shape, generator).items()
    }
    batch, average = random_batch(shape, cases=7), moving_average(12, 5)
    gradients = gradients_of(parameters, batch, average, average.T)
    assert set(gradients) == set(parameters)
    step = 1e-6
    for name, gradient in gradients.items():
        for where in np.ndindex(gradient.shape):
            slopes = []
            for sign in (1, -1):
                moved = {**parameters, name: parameters[name].copy()}
                moved[name][where] += sign * step
                slopes.append(loss(moved, batch, average))
            assert gradient[where] == pytest.approx((slopes[0] - slopes[1]) / (2 * step), rel=1e-4, abs=1e-7), name


def test_cases_may_share_the_attributes_of_their_series() -> None:
    shape = Shape(window=12, horizon=3, width=3, attributes=(4, 3))
    parameters, average = initial(shape, np.random.default_rng(3)), moving_average(12, 5)
    own = random_batch(shape, cases=6)
    shared = own._replace(attributes=own.attributes[:2], series=np.array([0, 1, 1, 0, 1, 0]))
    alike = own._replace(attributes=own.attributes[shared.series])
    assert loss(parameters, shared, average) == loss(parameters, alike, average)
    gradients = gradients_of(parameters, alike, average, average.T)
    for name, gradient in gradients_of(parameters, shared, average, average.T).items():
        np.testing.assert_array_equal(gradient, gradients[name], err_msg=name)


def test_cases_worked_out_once_teach_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    demand = history(daily(24 * 60), daily(24 * 60, seed=1))
    kept = SMALL.fit(demand).parameters
    monkeypatch.setattr("gfs.forecasting.orglinear.estimator.KEPT", 0)
    for name, value in SMALL.fit(demand).parameters.items():
        np.testing.assert_array_equal(value, kept[name], err_msg=name)


def test_a_daily_swing_is_learnt() -> None:
    demand = daily(24 * 40)
    estimator = replace(SMALL, schedule=Schedule(epochs=15, rate=1e-3))
    predictor = estimator.fit(history(demand[:-48]))
    errors, persistence = [], []
    for hour in range(24 * 38, 24 * 40 - 4):
        errors.append(np.abs(predictor.predict(history(demand[:hour]), 4).mean()[0] - demand[hour : hour + 4]).mean())
        persistence.append(np.abs(demand[hour - 1] - demand[hour : hour + 4]).mean())
    assert np.mean(errors) < 0.4 * np.mean(persistence)


def test_the_mean_is_that_of_trend_and_cycle_apart() -> None:
    shape = Shape(window=30, horizon=4, width=3, attributes=(3, 2))
    generator, average = np.random.default_rng(3), moving_average(30, 5)
    parameters = initial(shape, generator)
    parameters = {name: value + generator.normal(0, 0.3, value.shape) for name, value in parameters.items()}
    batch = random_batch(shape)
    trend = batch.window @ average.T
    cycle = batch.window - trend
    context = context_of(parameters, batch).features @ parameters["context"] + parameters["offset"]
    apart = cycle @ parameters["cycle"] + trend @ parameters["trend"] + context
    assert forward(parameters, batch, average)[0] == pytest.approx(apart)


def test_a_forecast_is_the_model_put_together() -> None:
    # The shortcut by one matrix must equal the model applied to the window.
    demand = daily(24 * 20)
    predictor = SMALL.fit(history(demand))
    forecast = predictor.predict(history(demand), 4)
    raw = demand[None, -48:]
    scale, ahead = window_scales(raw, KnownHours.of(np.array([48]), raw.shape[1]), series_scale(history(demand)), 4)
    window = (raw - raw[0, -1]) / scale
    batch = Batch(window, np.array([[0, 20 % 7, 0]]), np.array([[1, 1, 1]]), np.zeros((1, 4)))
    mu, sigma = forward(predictor.parameters, batch, moving_average(48, 25))
    assert forecast.mu == pytest.approx(raw[0, -1] + ahead * mu, rel=1e-4)
    assert forecast.sigma == pytest.approx(ahead * sigma, rel=1e-3)


def test_a_level_shift_moves_the_forecast_with_it() -> None:
    # The same days 100 GPUs higher: the model sees the same window.
    demand = daily(24 * 20)
    predictor = SMALL.fit(history(demand))
    low, high = (predictor.predict(history(demand + shift), 4) for shift in (0.0, 100.0))
    assert high.mean() == pytest.approx(low.mean() + 100.0)
    assert high.sigma == pytest.approx(low.sigma)


def test_weights_of_old_hours_fade_where_nothing_is_learnt() -> None:
    # Windows of zeros: no gradient. One step at a rate of 0.01 and a fading of 2: exp(-0.02 x age).
    shape = Shape(window=3, horizon=1, width=1, attributes=(1,))
    start = initial(shape, np.random.default_rng(0))
    start["cycle"][:] = 1.0
    batch = Batch(np.zeros((1, 3)), np.zeros((1, 3), int), np.zeros((1, 1), int), np.ones((1, 1)))
    schedule = Schedule(epochs=1, rate=0.01, fading=2.0)
    fitted = train(start, lambda _: batch, 1, np.eye(3), schedule, np.random.default_rng(0))
    assert fitted["cycle"][:, 0] == pytest.approx(np.exp([-0.06, -0.04, -0.02]))


def test_yesterdays_weights_are_a_start() -> None:
    demand = daily(24 * 30)
    yesterday = SMALL.fit(history(demand[:-24]))
    today = SMALL.fit(history(demand), yesterday)
    assert any((today.parameters[name] != yesterday.parameters[name]).any() for name in today.parameters)
    again = SMALL.fit(history(demand), yesterday)
    assert all((today.parameters[name] == again.parameters[name]).all() for name in today.parameters)
    fresh = SMALL.fit(history(demand))
    assert any((today.parameters[name] != fresh.parameters[name]).any() for name in fresh.parameters)


def test_what_was_fitted_on_nothing_or_on_a_quarter_is_no_start() -> None:
    """A day has no case; after 5 days of 24 hours there are 5 x 24 - 24 - 4 + 1 = 93, after 20 days 453."""
    demand = daily(24 * 20)
    nothing, five = SMALL.fit(history(demand[:24])), SMALL.fit(history(demand[: 24 * 5]))
    assert (nothing.fitted_on, five.fitted_on) == (0, 93)
    for start, hours, cold in ((nothing, 240, True), (five, 24 * 16, False), (five, 24 * 20, True)):
        fresh, after = SMALL.fit(history(demand[:hours])), SMALL.fit(history(demand[:hours]), start)
        assert all((after.parameters[name] == fresh.parameters[name]).all() for name in fresh.parameters) == cold
        assert after.fitted_on == (fresh.fitted_on if cold else start.fitted_on)


def test_weights_that_were_fitted_on_enough_cases_go_on() -> None:
    """Eight cases for each of 48 hours of the window are 384: after 20 days there are 453, after 80 days 1,893."""
    demand = daily(24 * 80)
    start = SMALL.fit(history(demand[: 24 * 20]))
    fresh, after = SMALL.fit(history(demand)), SMALL.fit(history(demand), start)
    assert (start.fitted_on, fresh.fitted_on, after.fitted_on) == (453, 1893, 453)
    assert any((after.parameters[name] != fresh.parameters[name]).any() for name in fresh.parameters)


def test_of_many_cases_some_are_drawn() -> None:
    few = replace(SMALL, schedule=Schedule(epochs=1, most=64))
    one, other = few.fit(history(daily(24 * 20))), few.fit(history(daily(24 * 20)))
    assert one.fitted_on == 453
    assert all((one.parameters[name] == other.parameters[name]).all() for name in one.parameters)
    # One batch is one step: the first one of Adam changes every weight by the rate. All 453 would be two batches.
    assert np.abs(one.parameters["offset"]) == pytest.approx(np.full(4, Schedule().rate), rel=1e-3)


def test_every_attribute_of_a_series_tells_it_apart() -> None:
    keys = (SeriesKey("a", "A10", "east"), SeriesKey("a", "A10", "west"), SeriesKey("b", "A100", "west"))
    demand = np.stack([daily(24 * 12, seed=seed) for seed in range(3)])
    fitted = SMALL.fit(DemandHistory(keys, demand, np.zeros(3, np.int64)))
    assert fitted.attribute_values == (("a", "b"), ("A10", "A100"), ("east", "west"))
    assert fitted.parameters["attribute2"].shape == (3, SMALL.width)


def test_a_new_organization_does_not_throw_yesterdays_weights_away() -> None:
    none = replace(SMALL, warm=Schedule(epochs=0))
    yesterday = none.fit(history(daily(24 * 30 - 24)).only([0]))
    newcomer = DemandHistory(
        (SeriesKey("a-newcomer", "A100"), SeriesKey("org0", "A100")),
        np.stack([daily(24 * 30, seed=2), daily(24 * 30)]),
        np.array([24 * 29, 0]),
    )
    today = none.fit(newcomer, yesterday)
    assert today.attribute_values[0] == ("a-newcomer", "org0")
    before, after = yesterday.parameters, today.parameters
    assert (after["attribute0"][2] == before["attribute0"][1]).all()  # org0 has moved by a row
    assert (after["attribute0"][0] == before["attribute0"][0]).all()
    assert all((after[name] == before[name]).all() for name in before if name != "attribute0")


def test_a_new_organization_gets_a_forecast_from_its_own_scale() -> None:
    old = daily(24 * 30)
    predictor = SMALL.fit(history(old))
    young = np.zeros(24 * 30)
    young[-12:] = 7.0
    both = history(old, young, first=[0, 24 * 30 - 12])
    forecast = predictor.predict(both, 4)
    assert forecast.mean()[1] == pytest.approx(np.full(4, 7.0), abs=0.5)
    assert (forecast.quantile(0.95)[1] < 9).all()


def test_nothing_but_zeros_forecasts_zero_with_a_small_bound() -> None:
    forecast = SMALL.fit(history(np.zeros(24 * 10), daily(24 * 10))).predict(
        history(np.zeros(24 * 10), daily(24 * 10)), 4
    )
    assert (forecast.mean()[0] < 0.1).all()
    assert (forecast.quantile(0.95)[0] < 0.1).all()


def test_an_hour_of_history_is_enough_to_say_something() -> None:
    forecast = SMALL.fit(history(np.array([5.0]))).predict(history(np.array([5.0])), 6)
    assert forecast.mean() == pytest.approx(np.full((1, 6), 5.0), abs=0.1)
    assert forecast.hours == 6


def test_holidays_come_from_the_calendar_of_the_country() -> None:
    # 1 October is a public holiday in China, 29 September 2024 is a Sunday and none.
    days = history(np.zeros(24), first_day=date(2024, 9, 29))
    hours = np.array([0, 47, 48, 71])
    assert holiday_hours(days, hours, "CN").tolist() == [False, False, True, True]
    assert not holiday_hours(days, hours, "").any()
    assert not holiday_hours(history(np.zeros(24)), hours, "CN").any()
    with pytest.raises(InputError, match="country 'Atlantis'"):
        holiday_hours(days, hours, "Atlantis")


def test_a_country_is_asked_for_by_its_code_and_an_unknown_one_is_said_at_once() -> None:
    known = MODELS["orglinear"].load(country="CN")
    assert isinstance(known, OrgLinearEstimator)
    assert known.country == "CN"
    assert MODELS["persistence"].load(country="CN").name == "persistence"  # knows no holidays: nothing changes
    with pytest.raises(InputError, match="use a code such as CN"):
        MODELS["orglinear"].load(country="Atlantis")
