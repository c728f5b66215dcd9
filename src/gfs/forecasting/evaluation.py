"""How good a forecast is: rolled over every hour of held-out demand (docs/concepts/demand-forecast.md).

The history is split in time into training, validation and test. A model is fitted once on what comes before the
test part (a model that needs a validation part takes the end of it). Then, for every hour of the test part as if
it began now, the next hours are forecast from what was known by then and compared with actual demand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gfs.domain.errors import InputError
from gfs.forecasting.forecast import Estimator, Predictor
from gfs.forecasting.history import Bools, DemandHistory, Floats

SPLIT = (0.7, 0.1, 0.2)
"""Shares of training, validation and test."""
BOUNDS = (0.9, 0.95)
PEAK_BOUND = 0.95

Progress = Callable[[int], None]
"""Told how many hours of the test part are done."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The figures of one model. Shares of demand are in percent of each series' mean, averaged over the series."""

    nmae: float
    """Mean absolute error, % of the series' mean demand."""
    mae: float
    """In GPUs, like the next two."""
    mse: float
    rmse: float
    mape: float
    """Mean absolute error in % of actual demand; hours of no demand left out."""
    pinball_90: float
    """Pinball loss of the 0.9 quantile, % of mean demand."""
    pinball_95: float
    coverage_90: float
    """Share of hours at or below the 0.9 quantile."""
    coverage_95: float
    maqe_90: float
    """Mean over series of |coverage - 0.9|."""
    maqe_95: float
    lowest_coverage_95: float
    """Coverage of the 0.95 quantile in the series where it is lowest."""
    peak_coverage_95: float
    """How often the highest demand of the horizon is at or below its 0.95 bound."""
    over_reserved_95: float
    """How far that bound lies above the highest demand, where it does, % of mean demand."""
    train_seconds: float
    """CPU seconds of fitting."""
    predict_ms: float
    """Milliseconds for one forecast of all series, median."""


@dataclass(frozen=True, slots=True, eq=False)
class Rolled:
    """Forecasts for every hour of the test part beside actual demand: series x origins x hours ahead."""

    start: int
    """Number of the first hour of the test part."""
    actual: Floats
    mean: Floats
    quantiles: dict[float, Floats]
    peak: Floats
    """Series x origins: the bound of the horizon's highest demand."""
    counted: Bools
    """Series x origins: whether anything was known of the series by then. Hours before that count for no forecaster."""
    train_seconds: float
    predict_ms: float

    def scores(self) -> Scores:
        """The figures; series without any demand in the test part are left out of those relative to it."""
        horizon = self.actual.shape[2]
        origins = self.counted.sum(axis=1)
        some = origins > 0
        if not some.any():
            raise InputError("no series has a record before the last hours: there is nothing to compare with")

        def per_series(values: Floats | Bools) -> Floats:
            """Mean of each series over what counts in it."""
            by_origin = values if values.ndim == 2 else values.mean(axis=2)
            means: Floats = np.where(self.counted, by_origin, 0.0).sum(axis=1)[some] / origins[some]
            return means

        demand = per_series(self.actual)
        used = demand > 0

        def relative(loss: Floats) -> float:
            return 100 * float((per_series(loss)[used] / demand[used]).mean()) if used.any() else 0.0

        pinball, coverage = {}, {}
        for p in BOUNDS:
            above = self.actual - self.quantiles[p]
            pinball[p] = relative(np.maximum(p * above, (p - 1) * above))
            coverage[p] = per_series(above <= 0)
        error = np.abs(self.actual - self.mean)
        cases = np.repeat(self.counted[:, :, None], horizon, axis=2)
        mse = float((error[cases] ** 2).mean())
        positive = cases & (self.actual > 0)
        top = self.actual.max(axis=2)
        return Scores(
            nmae=relative(error),
            mae=float(error[cases].mean()),
            mse=mse,
            rmse=float(np.sqrt(mse)),
            mape=100 * float((error[positive] / self.actual[positive]).mean()) if positive.any() else 0.0,
            pinball_90=pinball[0.9],
            pinball_95=pinball[0.95],
            coverage_90=float(coverage[0.9].mean()),
            coverage_95=float(coverage[0.95].mean()),
            maqe_90=float(np.abs(coverage[0.9] - 0.9).mean()),
            maqe_95=float(np.abs(coverage[0.95] - 0.95).mean()),
            lowest_coverage_95=float(coverage[0.95].min()),
            peak_coverage_95=float(per_series(top <= self.peak).mean()),
            over_reserved_95=relative(np.maximum(self.peak - top, 0.0)),
            train_seconds=self.train_seconds,
            predict_ms=self.predict_ms,
        )


def origins_of_test(history: DemandHistory, horizon: int, split: tuple[float, float, float]) -> range:
    """The hours at which the test part is forecast from: all whose horizon is known to its end."""
    if horizon < 1:
        raise InputError(f"horizon {horizon}: must be at least 1 hour")
    if not all(part >= 0 for part in split) or abs(sum(split) - 1) > 1e-9 or not split[0] or not split[2]:
        parts = ",".join(f"{part:g}" for part in split)
        raise InputError(f"split {parts}: must be three shares that add up to 1, the first and the last above 0")
    start = history.start + int(history.hours * (split[0] + split[1]) + 1e-9)
    origins = range(start, history.end - horizon + 1)
    if start <= history.start or not origins:
        raise InputError(
            f"{history.hours} hours of demand are too few: there must be an hour to learn from,"
            f" and the test part must be as long as the horizon of {horizon} h"
        )
    return origins


def roll(
    estimator: Estimator,
    history: DemandHistory,
    *,
    horizon: int = 4,
    split: tuple[float, float, float] = SPLIT,
    progress: Progress | None = None,
) -> Rolled:
    """Fit once, then forecast from every hour of the test part."""
    origins = origins_of_test(history, horizon, split)
    before = time.process_time()
    predictor: Predictor = estimator.fit(history.until(origins.start))
    train_seconds = time.process_time() - before
    shape = (len(history.keys), len(origins), horizon)
    actual, mean = np.empty(shape), np.empty(shape)
    quantiles = {p: np.empty(shape) for p in BOUNDS}
    peak = np.empty(shape[:2])
    spent = []
    for i, origin in enumerate(origins):
        known = history.until(origin)
        began = time.perf_counter()
        forecast = predictor.predict(known, horizon)
        mean[:, i] = forecast.mean()
        for p in BOUNDS:
            quantiles[p][:, i] = forecast.quantile(p)
        peak[:, i] = forecast.peak_quantile(PEAK_BOUND, horizon)
        spent.append(time.perf_counter() - began)
        column = origin - history.start
        actual[:, i] = history.gpus[:, column : column + horizon]
        if progress:
            progress(i + 1)
    counted = history.first[:, None] < np.asarray(origins)[None, :] - history.start
    return Rolled(origins.start, actual, mean, quantiles, peak, counted, train_seconds, 1000 * float(np.median(spent)))
