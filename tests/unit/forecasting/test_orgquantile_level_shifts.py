"""orgquantile where demand does what was never seen: level shifts, first days, organizations taken together."""

from __future__ import annotations

import numpy as np
import pytest

import needs
from gfs.forecasting.history import DemandHistory, Floats, SeriesKey
from gfs.forecasting.orgquantile.estimator import OrgQuantileEstimator, OrgQuantilePredictor

PAPER_SERIES = needs.SHARED / (
    "data/alibaba_v2026_spot_gpu/aggregates_sultanul_ovi/outputs_extra__hourly_concurrency_top_models.csv"
)
HOURS = 50 * 24
FITTED = 1000


def working_days(count: int = 6, hours: int = HOURS, seed: int = 0) -> DemandHistory:
    """What GPU demand looks like: a working day that ends at once, less on weekends, jumps of jobs, and noise."""
    rng = np.random.default_rng(seed)
    hour = np.arange(hours)
    day = (hour % 24 >= 9) & (hour % 24 < 22)
    weekday = hour // 24 % 7 < 5
    rows = []
    for size in np.geomspace(80, 2500, count):
        level = size * (0.6 + 0.4 * day * np.where(weekday, 1.0, 0.5))
        jobs = np.zeros(hours)
        for begin in rng.integers(0, hours, hours // 20):
            jobs[begin : begin + rng.geometric(1 / 6)] += size * rng.exponential(0.1)
        rows.append(np.round(np.maximum(level + jobs + rng.normal(0, 0.02 * size, hours), 0.0)))
    return history(np.stack(rows))


def history(gpus: Floats) -> DemandHistory:
    keys = tuple(SeriesKey(f"org{i}", "A100") for i in range(len(gpus)))
    return DemandHistory(keys, gpus, np.zeros(len(gpus), dtype=np.int64))


@pytest.fixture(scope="module")
def fitted() -> OrgQuantilePredictor:
    return OrgQuantileEstimator().fit(working_days().until(FITTED))


def covered_after_a_shift(predictor: OrgQuantilePredictor, known: DemandHistory, shift: int, times: float) -> Floats:
    """Share of hours at or below the 0.95 bound, forecast from 6 to 30 hours after the shift: per series."""
    gpus = known.gpus.copy()
    gpus[:, shift:] = np.round(times * gpus[:, shift:])
    shifted = history(gpus)
    covered = []
    for origin in range(shift + 6, shift + 30):
        forecast = predictor.predict(shifted.until(origin), 4)
        covered.append((gpus[:, origin : origin + 4] <= forecast.quantile(0.95)).mean(axis=1))
    share: Floats = np.mean(covered, axis=0)
    return share


@pytest.mark.parametrize("shift", [1020, 1027, 1033, 1042])
def test_six_hours_after_demand_is_two_and_a_half_times_as_high_bounds_hold_again(
    fitted: OrgQuantilePredictor, shift: int
) -> None:
    """At noon, by night or in the morning, or when the working day ends."""
    covered = covered_after_a_shift(fitted, working_days(), shift, 2.5)
    assert covered.mean() > 0.85
    assert covered.min() > 0.8


@pytest.mark.slow
@needs.shared(PAPER_SERIES)
@pytest.mark.parametrize("shift", [2700, 2913, 3105])
def test_so_they_do_on_the_series_of_the_paper(shift: int) -> None:
    values = np.genfromtxt(PAPER_SERIES, delimiter=",", skip_header=1)[24:3537, 1:]
    known = history(np.ascontiguousarray(values.T))
    covered = covered_after_a_shift(OrgQuantileEstimator().fit(known.until(shift - 40)), known, shift, 2.5)
    assert covered.mean() > 0.85


def test_bounds_hold_when_demand_falls_to_a_third(fitted: OrgQuantilePredictor) -> None:
    assert covered_after_a_shift(fitted, working_days(), 1027, 1 / 3).mean() > 0.9


def test_the_first_day_of_an_organization() -> None:
    """Nothing is known of it but its own first hours, and how others behave."""
    known = working_days(7)
    begin = 1021
    gpus = known.gpus.copy()
    gpus[6, :begin] = 0.0
    late = DemandHistory(known.keys, gpus, np.array([0, 0, 0, 0, 0, 0, begin]))
    predictor = OrgQuantileEstimator().fit(late.only(range(6)).until(1010))
    covered, wide = [], []
    for origin in range(begin + 1, begin + 24):
        forecast = predictor.predict(late.until(origin), 4)
        actual, bound = gpus[6, origin : origin + 4], forecast.quantile(0.95)[6]
        covered.append((actual <= bound).mean())
        wide.append(bound.max() / actual.max())
    assert np.mean(covered) > 0.8
    assert np.median(wide) < 2


def test_no_demand_stays_none_beside_others_that_want_much() -> None:
    gpus = working_days().gpus.copy()
    gpus[2] = 0.0
    known = history(gpus)
    forecast = OrgQuantileEstimator().fit(known.until(500)).predict(known.until(520), 4)
    assert forecast.mean()[2].max() == pytest.approx(0.0, abs=1e-3)
    assert forecast.quantile(0.95)[2].max() <= 1
    assert forecast.quantile(0.95)[[0, 5]].min() > 10


def test_bounding_the_total_keeps_less_free_than_bounding_each(fitted: OrgQuantilePredictor) -> None:
    """Organizations do not peak at the same hour: the bound of their sum still holds, with far fewer GPUs."""
    known, hours = working_days(), 4
    total, added, top = [], [], []
    for origin in range(FITTED, known.end - hours + 1):
        forecast = fitted.predict(known.until(origin), hours)
        total.append(forecast.total_peak_quantile(0.95, hours, range(6)))
        added.append(forecast.peak_quantile(0.95, hours).sum())
        top.append(known.gpus[:, origin : origin + hours].sum(axis=0).max())
    bound, sum_of_bounds, actual = np.array(total), np.array(added), np.array(top)
    assert 0.9 < (actual <= bound).mean() < 0.99
    assert (actual <= sum_of_bounds).mean() >= (actual <= bound).mean()
    assert np.maximum(bound - actual, 0).mean() < 0.75 * np.maximum(sum_of_bounds - actual, 0).mean()
