"""What every forecaster must do, whatever it is made of: one suite for all in the registry."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfs.domain.errors import InputError
from gfs.forecasting.forecast import Estimator, Forecast, Predictor
from gfs.forecasting.history import DemandHistory, Floats, SeriesKey
from gfs.forecasting.registry import MODELS, Model

DAY, WEEK = 24, 168
FITTED, HOURS = 2 * WEEK, 3 * WEEK
"""Hours to learn from, and to forecast from."""
QUICK_WINDOW, QUICK_STEPS = 2 * DAY, 3
"""For models that train for minutes: what is asked of them here does not depend on how well they have learnt."""
LEVELS = (0.05, 0.5, 0.75, 0.9, 0.95, 0.99)


def case(model: Model) -> Any:
    """The forecaster's name as a parameter of tests; skipped where its extra is not installed."""
    marks = [pytest.mark.extra] if model.extra else []
    try:
        model.load()
    except InputError:
        assert model.extra, model.name
        marks.append(pytest.mark.skip(f"needs the extra {model.extra}: make test-extras"))
    return pytest.param(model.name, marks=marks)


def quick(name: str) -> Estimator:
    """The forecaster as it is; one that needs an extra with little training."""
    model = MODELS[name]
    return replace(model.load(QUICK_WINDOW), steps=QUICK_STEPS) if model.extra else model.load()


OURS = [name for name, model in MODELS.items() if not model.extra]


@pytest.fixture(params=[case(model) for model in MODELS.values()], scope="module")
def estimator(request: pytest.FixtureRequest) -> Estimator:
    return quick(request.param)


def history(gpus: Floats, first: list[int] | None = None, start: int = 0) -> DemandHistory:
    count = len(gpus)
    keys = tuple(SeriesKey(f"org-{i}", "A100") for i in range(count))
    return DemandHistory(keys, gpus, np.asarray(first or [0] * count, dtype=np.int64), start)


def rhythm(count: int = 3, hours: int = HOURS, seed: int = 0) -> Floats:
    """A day's rhythm with noise, larger for later series."""
    random = np.random.default_rng(seed)
    wave = 1.5 + np.sin(2 * np.pi * np.arange(hours) / DAY)
    size = 20.0 * (1 + np.arange(count))[:, None]
    return np.round(np.maximum(size * (wave + 0.2 * random.standard_normal((count, hours))), 0))


@pytest.fixture(scope="module")
def fitted(estimator: Estimator) -> Predictor:
    """Fitted on two of the three weeks of `rhythm`, once for all tests that only ask: fitting may take time."""
    return estimator.fit(history(rhythm()).until(FITTED))


def check(forecast: Forecast, keys: tuple[SeriesKey, ...], hours: int) -> None:
    """Shapes, keys, order of quantiles; nothing negative, nothing NaN."""
    assert forecast.keys == keys
    assert forecast.hours == hours
    mean = forecast.mean()
    assert mean.shape == (len(keys), hours)
    assert np.isfinite(mean).all()
    assert (mean >= 0).all()
    before, peak_before = np.zeros((len(keys), hours)), np.zeros(len(keys))
    for p in LEVELS:
        quantile, peak = forecast.quantile(p), forecast.peak_quantile(p, hours)
        assert quantile.shape == (len(keys), hours)
        assert peak.shape == (len(keys),)
        assert np.isfinite(quantile).all()
        assert np.isfinite(peak).all()
        assert (quantile >= before).all(), f"quantile {p} lies below the one before it"
        assert (peak >= peak_before).all(), f"peak quantile {p} lies below the one before it"
        before, peak_before = quantile, peak


def numbers(forecast: Forecast) -> bytes:
    """All that a forecast says, to the last bit."""
    parts = [forecast.mean(), *(forecast.quantile(p) for p in LEVELS)]
    return b"".join(np.ascontiguousarray(part).tobytes() for part in (*parts, forecast.peak_quantile(0.95, 2)))


def test_it_is_called_what_the_registry_calls_it(estimator: Estimator) -> None:
    assert MODELS[estimator.name].load().name == estimator.name


@pytest.mark.parametrize("hours", [1, 4, 24, 30])
def test_quantiles_rise_and_nothing_is_negative_or_missing(fitted: Predictor, hours: int) -> None:
    known = history(rhythm())
    check(fitted.predict(known, hours), known.keys, hours)


def test_the_peak_of_fewer_hours_is_no_higher(fitted: Predictor) -> None:
    forecast = fitted.predict(history(rhythm()), 4)
    peaks = [forecast.peak_quantile(0.95, hours) for hours in (1, 2, 3, 4)]
    assert all((low <= high).all() for low, high in pairwise(peaks))


def test_the_future_moves_no_forecast(estimator: Estimator) -> None:
    """Fitting and forecasting see what `until` leaves them, whatever came after."""
    gpus = rhythm()
    other = gpus.copy()
    origin = FITTED + 50
    other[:, origin:] = 9_999.0
    told = [history(gpus), history(other)]
    first, second = (estimator.fit(h.until(FITTED)).predict(h.until(origin), 4) for h in told)
    assert numbers(first) == numbers(second)


def test_asking_later_hours_first_changes_nothing(estimator: Estimator, fitted: Predictor) -> None:
    """A predictor remembers nothing of the future it was shown before."""
    known = history(rhythm())
    fitted.predict(known, 4)
    fresh = estimator.fit(known.until(FITTED))
    early = known.until(FITTED + 5)
    assert numbers(fitted.predict(early, 4)) == numbers(fresh.predict(early, 4))


def test_the_same_input_gives_the_same_bytes(estimator: Estimator) -> None:
    known = history(rhythm())
    again = history(rhythm())
    assert numbers(estimator.fit(known).predict(known, 4)) == numbers(estimator.fit(again).predict(again, 4))


def test_histories_are_left_as_they_were(estimator: Estimator) -> None:
    known = history(rhythm())
    known.gpus.setflags(write=False)
    known.first.setflags(write=False)
    estimator.fit(known).predict(known, 4).quantile(0.9)


def test_no_demand_forecasts_none_with_a_small_bound(estimator: Estimator) -> None:
    gpus = rhythm()
    gpus[1] = 0.0
    known = history(gpus)
    forecast = estimator.fit(known).predict(known, 4)
    assert forecast.mean()[1].max() < 0.001  # a thousandth of a GPU is nothing
    assert forecast.quantile(0.95)[1].max() <= 1
    assert forecast.peak_quantile(0.95, 4)[1] <= 1


def test_nothing_but_zeros(estimator: Estimator) -> None:
    known = history(np.zeros((2, HOURS)))
    forecast = estimator.fit(known).predict(known, 4)
    check(forecast, known.keys, 4)
    assert forecast.quantile(0.95).max() <= 1


def test_constant_demand_is_forecast_as_it_is(estimator: Estimator) -> None:
    known = history(np.full((2, HOURS), 40.0))
    forecast = estimator.fit(known).predict(known, 4)
    assert forecast.mean() == pytest.approx(40.0, rel=0.02)
    assert forecast.quantile(0.95).max() <= 44
    assert forecast.quantile(0.95).min() >= 39


def test_one_series(estimator: Estimator) -> None:
    known = history(rhythm(1))
    check(estimator.fit(known).predict(known, 4), known.keys, 4)


@pytest.mark.parametrize("hours", [1, 2, 5, 25, 169, 200])
def test_short_histories(estimator: Estimator, hours: int) -> None:
    known = history(rhythm(2, hours))
    check(estimator.fit(known).predict(known, 4), known.keys, 4)


def test_one_hour_to_learn_from_and_more_to_forecast_from(estimator: Estimator) -> None:
    known = history(rhythm(2, 2 * WEEK))
    check(estimator.fit(known.until(1)).predict(known, 4), known.keys, 4)


def test_a_window_instead_of_all_history(fitted: Predictor) -> None:
    known = history(rhythm())
    for hours in (400, 200, 1):
        check(fitted.predict(known.since(known.end - hours), 4), known.keys, 4)


def test_hours_need_not_begin_with_zero(estimator: Estimator) -> None:
    known = history(rhythm(), start=1_000)
    check(estimator.fit(known).predict(known, 4), known.keys, 4)


def test_an_organization_that_was_not_there_to_learn_from(estimator: Estimator) -> None:
    gpus = rhythm(4, HOURS)
    gpus[3, : FITTED + 10] = 0
    later = history(gpus, [0, 0, 0, FITTED + 10])
    predictor = estimator.fit(later.only([0, 1, 2]).until(FITTED))
    for hours_old in (1, 5, 30):
        known = later.until(FITTED + 10 + hours_old)
        forecast = predictor.predict(known, 4)
        check(forecast, later.keys, 4)
        # its last value or more would be a usable bound; ten times all it ever wanted would not
        assert forecast.quantile(0.95)[3].max() <= 10 * gpus[3].max()
        assert forecast.quantile(0.95)[3].max() > 0


def test_organizations_in_another_order(fitted: Predictor) -> None:
    known = history(rhythm())
    turned = fitted.predict(known.only([2, 0, 1]), 4).quantile(0.9)
    assert turned == pytest.approx(fitted.predict(known, 4).quantile(0.9)[[2, 0, 1]])


def test_an_organization_that_has_gone(fitted: Predictor) -> None:
    some = history(rhythm()).only([1])
    check(fitted.predict(some, 4), some.keys, 4)


def any_history(count: int, hours: int, seed: int) -> DemandHistory:
    """Numbers without any pattern, many of them 0, in series that begin anywhere."""
    random = np.random.default_rng(seed)
    gpus = random.integers(0, 50, (count, hours)) * (random.random((count, hours)) < 0.7)
    first = random.integers(0, hours, count)
    gpus[np.arange(hours)[None, :] < first[:, None]] = 0
    return replace(history(gpus.astype(float)), first=first.astype(np.int64))


def check_half(name: str, known: DemandHistory, ahead: int) -> None:
    """Fit on the first half of a history, forecast from the end of it."""
    check(quick(name).fit(known.until(max(1, known.hours // 2))).predict(known, ahead), known.keys, ahead)


@settings(max_examples=15)
@given(st.integers(1, 4), st.integers(1, 260), st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 26]))
def test_any_history_at_all(count: int, hours: int, seed: int, ahead: int) -> None:
    for name in OURS:
        check_half(name, any_history(count, hours, seed), ahead)


@pytest.mark.parametrize("name", [case(model) for model in MODELS.values() if model.extra])
@settings(max_examples=4)
@given(st.integers(1, 4), st.integers(1, 260), st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 26]))
def test_any_history_at_all_for_those_that_take_longer(
    name: str, count: int, hours: int, seed: int, ahead: int
) -> None:
    check_half(name, any_history(count, hours, seed), ahead)
