"""`orglinear`: OrgLinear fitted on all series together, each standardised; a forecast is one matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import csr_array

from gfs.domain.errors import InputError
from gfs.forecasting.calendar import check_country, holiday_hours
from gfs.forecasting.forecast import NormalForecast
from gfs.forecasting.history import DemandHistory, Floats, Ints, SeriesKey, hour_of_day
from gfs.forecasting.orglinear.model import (
    LEAST_SIGMA,
    Batch,
    Parameters,
    Reals,
    Shape,
    context_of,
    initial,
    mean_weights,
    moving_average,
)
from gfs.forecasting.orglinear.training import Schedule, train

PRECISION = np.float32
YOUNG = 24
"""Hours of records before a series is learnt from."""
SMALL = 0.01
"""A series varies by at least this share of its mean, and by this many GPUs."""


COLD, WARM = Schedule(), Schedule(epochs=2, rate=2e-4)


@dataclass(frozen=True, slots=True)
class OrgLinearEstimator:
    """The paper's model with the paper's window."""

    window: int = 672
    horizon: int = 4
    kernel: int = 25
    width: int = 4
    seed: int = 0
    country: str = ""
    """Whose public holidays count, such as CN; none without it."""
    schedule: Schedule = COLD
    warm: Schedule = WARM
    """When it starts from yesterday's weights."""
    name: str = "orglinear"

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0 or self.kernel < 1:
            raise InputError(f"kernel = {self.kernel}: a centred moving average needs an odd number of hours")
        if min(self.window, self.horizon, self.width) < 1:
            raise InputError("window, horizon and width of orglinear must be at least 1")
        check_country(self.country)

    def fit(self, history: DemandHistory, start: OrgLinearPredictor | None = None) -> OrgLinearPredictor:
        """Learn from all series together; with `start`, go on from an earlier fit with the same settings.

        Organizations and GPU models that are new since begin like any at the first fit.
        """
        generator = np.random.default_rng(self.seed)
        lists = tuple(tuple(sorted({key[i] for key in history.keys})) for i in range(len(SeriesKey._fields)))
        shape = Shape(self.window, self.horizon, self.width, tuple(len(values) + 1 for values in lists))
        parameters, schedule = _precise(initial(shape, generator)), self.schedule
        if start is not None and start.estimator == self:
            parameters, schedule = _taken_over(parameters, lists, start), self.warm
        mean, spread = scale_of(history)
        scaled = ((history.gpus - mean[:, None]) / spread[:, None]).astype(PRECISION)
        windows = sliding_window_view(_padded(scaled, history.first, self.window), self.window, axis=1)
        series, origin = self._cases(history)
        calendar = _calendar(history, np.arange(history.hours + 1) + history.start, self.country)
        attributes = _codes(history.keys, lists)
        ahead = np.arange(self.horizon)

        def cases(positions: Ints) -> Batch:
            s, t = series[positions], origin[positions]
            return Batch(windows[s, t], calendar[t], attributes[s], scaled[s[:, None], t[:, None] + ahead])

        average = _average(self.window, self.kernel)
        fitted = train(parameters, cases, len(series), average, schedule, generator)
        scales = {key: (float(m), float(d)) for key, m, d in zip(history.keys, mean, spread, strict=True)}
        return OrgLinearPredictor(self, fitted, lists, scales)

    def _cases(self, history: DemandHistory) -> tuple[Ints, Ints]:
        """Series and column of every origin that has some history before it and all hours ahead after it."""
        last = history.hours - self.horizon
        found = [np.arange(max(int(first) + YOUNG, 1), last + 1) for first in history.first]
        series = np.repeat(np.arange(len(found)), [len(columns) for columns in found])
        return series, np.concatenate([*found, np.empty(0, np.int64)]).astype(np.int64)


class OrgLinearPredictor:
    """OrgLinear's weights, and the scale of each series they were fitted on."""

    def __init__(
        self,
        estimator: OrgLinearEstimator,
        parameters: Parameters,
        lists: tuple[tuple[str, ...], ...],
        scales: dict[SeriesKey, tuple[float, float]],
    ) -> None:
        self.estimator = estimator
        self.parameters = parameters
        self.lists = lists
        self._scales = scales
        mean = mean_weights(parameters, _average(estimator.window, estimator.kernel))
        self._weights = np.concatenate([mean, parameters["spread"]], axis=1)
        self._context = np.concatenate([parameters["context"], parameters["spread_context"]], axis=1)
        self._offset = np.concatenate([parameters["offset"], parameters["spread_offset"]])

    def predict(self, history: DemandHistory, hours: int) -> NormalForecast:
        """A normal distribution for every series and hour; beyond the horizon like its last hour, but wider."""
        own = self.estimator
        mean, spread = self._scale(history)
        recent = history.since(history.end - own.window)
        scaled = ((recent.gpus - mean[:, None]) / spread[:, None]).astype(PRECISION)
        window = _padded(scaled, recent.first, own.window)[:, -own.window :]
        now = np.array([history.end])
        calendar = np.repeat(_calendar(history, now, own.country), len(history.keys), axis=0)
        batch = Batch(window, calendar, _codes(history.keys, self.lists), window[:, :0])
        features = context_of(self.parameters, batch).features
        outcome = window @ self._weights + features @ self._context + self._offset
        mu, logit = outcome[:, : own.horizon].astype(np.float64), outcome[:, own.horizon :].astype(np.float64)
        sigma = np.logaddexp(0.0, logit) + LEAST_SIGMA
        ahead = np.minimum(np.arange(hours), own.horizon - 1)
        wider = np.sqrt(np.maximum(np.arange(1, hours + 1) / own.horizon, 1.0))
        return NormalForecast(
            history.keys,
            mean[:, None] + spread[:, None] * mu[:, ahead],
            spread[:, None] * sigma[:, ahead] * wider,
        )

    def _scale(self, history: DemandHistory) -> tuple[Floats, Floats]:
        """The scale of the fitting; for a series that is new since, its own so far."""
        mean, spread = np.empty(len(history.keys)), np.empty(len(history.keys))
        new = []
        for row, key in enumerate(history.keys):
            known = self._scales.get(key)
            if known is None:
                new.append(row)
            else:
                mean[row], spread[row] = known
        if new:
            mean[new], spread[new] = scale_of(history.only(new))
        return mean, spread


def scale_of(history: DemandHistory) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each series since its first record."""
    known = np.arange(history.hours)[None, :] >= history.first[:, None]
    count = np.maximum(known.sum(axis=1), 1)
    mean = np.where(known, history.gpus, 0.0).sum(axis=1) / count
    variance = np.where(known, (history.gpus - mean[:, None]) ** 2, 0.0).sum(axis=1) / count
    return mean, np.maximum(np.sqrt(variance), SMALL * np.maximum(mean, 1.0))


def _padded(scaled: Reals, first: Ints, window: int) -> Reals:
    """The series with a window's length before them, filled with their first record."""
    hours = scaled.shape[1]
    if not hours:
        return np.zeros((len(scaled), window), PRECISION)
    column = np.minimum(first, hours - 1)
    begin = scaled[np.arange(len(scaled)), column][:, None]
    known = np.where(np.arange(hours)[None, :] >= first[:, None], scaled, begin)
    return np.concatenate([np.repeat(begin, window, axis=1), known], axis=1)


def _calendar(history: DemandHistory, hours: Ints, country: str) -> Ints:
    """Hour, weekday and holiday of each of these hours."""
    holiday = holiday_hours(history, hours, country)
    return np.stack([hour_of_day(hours), history.weekday_of(hours), holiday.astype(np.int64)], axis=1)


def _codes(keys: tuple[SeriesKey, ...], lists: tuple[tuple[str, ...], ...]) -> Ints:
    """Each series' attributes as numbers; 0 is one that was not there when the model was fitted."""
    tables = [{value: i + 1 for i, value in enumerate(values)} for values in lists]
    codes = [[table.get(key[i], 0) for i, table in enumerate(tables)] for key in keys]
    return np.array(codes, dtype=np.int64).reshape(len(keys), len(lists))


def _taken_over(fresh: Parameters, lists: tuple[tuple[str, ...], ...], start: OrgLinearPredictor) -> Parameters:
    """The weights of an earlier fit; in the tables of attributes, values that are new keep their fresh rows."""
    parameters = dict(start.parameters)
    for i, values in enumerate(lists):
        name = f"attribute{i}"
        table, earlier = fresh[name].copy(), start.parameters[name]
        table[0] = earlier[0]
        rows = {value: row for row, value in enumerate(start.lists[i], start=1)}
        for row, value in enumerate(values, start=1):
            if value in rows:
                table[row] = earlier[rows[value]]
        parameters[name] = table
    return parameters


def _precise(parameters: Parameters) -> Parameters:
    return {name: value.astype(PRECISION) for name, value in parameters.items()}


@cache
def _average(window: int, kernel: int) -> Any:
    """Sparse: a row has as many numbers as the kernel, not as the window."""
    return csr_array(moving_average(window, kernel).astype(PRECISION))
