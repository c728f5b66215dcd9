"""`orglinear`: OrgLinear fitted on all series together, each in its own scale; a forecast is one matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import csr_array

from gfs.domain.errors import InputError
from gfs.forecasting.adam import Parameters
from gfs.forecasting.forecast import NormalForecast, Predictor
from gfs.forecasting.history import DemandHistory, Floats, Ints, SeriesKey, check_country, holiday_hours, hour_of_day
from gfs.forecasting.orglinear.model import (
    CALENDAR,
    LEAST_SIGMA,
    Batch,
    Cases,
    Schedule,
    Shape,
    context_of,
    initial,
    mean_weights,
    moving_average,
    train,
)
from gfs.forecasting.orglinear.scaling import KnownHours, SeriesScales, window_scales

PRECISION = np.float32
COLD, WARM = Schedule(), Schedule(epochs=1, rate=1.5e-4, most=4_096)
GROWN = 4
"""Weights go on from an earlier fit until there are so many times the cases that they were first fitted on."""
ENOUGH = 8
"""Cases for each hour of the window: weights that were first fitted on so many go on for good."""
BLOCK = 4_096
"""Windows that are measured at once: more would take a lot of memory."""
KEPT = 40_960
"""So many cases are standardised once for all epochs: about 110 MB with the paper's window."""


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

        What was fitted on no case, or on few and a quarter of those there are, is no start. Attributes that are new
        since begin like any at the first fit.
        """
        generator = np.random.default_rng(self.seed)
        lists = tuple(tuple(sorted({key[i] for key in history.keys})) for i in range(len(SeriesKey._fields)))
        shape = Shape(self.window, self.horizon, self.width, tuple(len(values) + 1 for values in lists))
        parameters, schedule = _single(initial(shape, generator)), self.schedule
        origins = history.origins(self.horizon)  # with some history before them and all hours ahead after them
        series = np.repeat(np.arange(len(origins)), [len(columns) for columns in origins])
        origin = np.concatenate([*origins, np.empty(0, np.int64)]).astype(np.int64)
        fitted_on = len(series)
        if start is not None and start.estimator == self and self._goes_on(start.fitted_on, fitted_on):
            parameters, schedule, fitted_on = _continued(parameters, lists, start), self.warm, start.fitted_on
        if len(series) > schedule.most:
            drawn = np.sort(generator.choice(len(series), schedule.most, replace=False))
            series, origin = series[drawn], origin[drawn]
        scales = SeriesScales.learned(history)
        mean, spread = scales.of(history)
        windows = sliding_window_view(history.padded(history.start - self.window), self.window, axis=1)
        scale, ahead = np.empty(len(series)), np.empty((len(series), self.horizon))
        for begin in range(0, len(series), BLOCK):
            some = slice(begin, begin + BLOCK)
            s, t = series[some], origin[some]
            known = KnownHours.of(np.maximum(t - history.first[s], 0), self.window)
            scale[some], ahead[some] = window_scales(windows[s, t], known, (mean[s], spread[s]), self.horizon)
        calendar = _calendar(history, np.arange(history.hours + 1) + history.start, self.country)
        attributes = _codes(history.keys, lists)
        coming = np.arange(self.horizon)

        def cases(positions: Ints) -> Batch:
            s, t = series[positions], origin[positions]
            window = windows[s, t]
            last = window[:, -1:]
            target = (history.gpus[s[:, None], t[:, None] + coming] - last) / ahead[positions]
            window = ((window - last) / scale[positions, None]).astype(PRECISION)
            return Batch(window, calendar[t], attributes, target.astype(PRECISION), s)

        average = _average(self.window, self.kernel)
        again = schedule.epochs > 1 and len(series) <= KEPT
        fitted = train(
            parameters, _kept(cases, len(series)) if again else cases, len(series), average, schedule, generator
        )
        return OrgLinearPredictor(self, fitted, lists, scales, fitted_on)

    def _goes_on(self, fitted_on: int, cases: int) -> bool:
        """Whether weights first fitted on so many cases are a start now that there are `cases`."""
        return cases < GROWN * fitted_on or fitted_on >= ENOUGH * self.window

    def refit(self, history: DemandHistory, earlier: Predictor) -> OrgLinearPredictor:
        """Learn from the history, starting from earlier weights where they are good for that."""
        return self.fit(history, earlier if isinstance(earlier, OrgLinearPredictor) else None)


@dataclass(eq=False)
class OrgLinearPredictor:
    """OrgLinear's weights, and the scale of each series they were fitted on."""

    estimator: OrgLinearEstimator
    parameters: Parameters
    attribute_values: tuple[tuple[str, ...], ...]
    scales: SeriesScales
    fitted_on: int = 0
    """The cases of the fit that began with fresh weights."""

    def __post_init__(self) -> None:
        estimator, parameters = self.estimator, self.parameters
        mean = mean_weights(parameters, _average(estimator.window, estimator.kernel).T)
        weights = np.concatenate([mean, parameters["spread"]], axis=1).astype(np.float64)
        self._weights, self._total = weights, weights.sum(axis=0)
        context = np.concatenate([parameters["context"], parameters["spread_context"]], axis=1)
        attributes = estimator.width * len(self.attribute_values)
        self._context = context[:attributes]
        self._offset = np.concatenate([parameters["offset"], parameters["spread_offset"]])
        # What each hour of the day, weekday and holiday adds to the outcome, as it does so for every series alike.
        self._calendar = [
            parameters[name] @ context[attributes + i * estimator.width :][: estimator.width]
            for i, name in enumerate(CALENDAR)
        ]
        self._hour: tuple[int, date | None] | None = None
        self._added: Floats = np.zeros(0)
        self._keys: tuple[SeriesKey, ...] = ()
        self._known: tuple[Floats, Floats, Floats] | None = None
        self._settled = True
        """Whether all series that it was asked for last were there at the fit."""

    def predict(self, history: DemandHistory, hours: int) -> NormalForecast:
        """A normal distribution for every series and hour; beyond the horizon like its last hour, but wider."""
        own = self.estimator
        mean, spread, base = self._series(history)
        if history.hours - int(np.maximum.reduce(history.first, initial=0)) >= own.window:
            window, known = history.gpus[:, -own.window :], _all_known(own.window)
        else:
            window = history.padded(history.end - own.window) if history.hours else mean[:, None].repeat(own.window, 1)
            known = KnownHours.of(np.minimum(np.maximum(history.hours - history.first, 0), own.window), own.window)
        scale, ahead = window_scales(window, known, (mean, spread), own.horizon)
        last = window[:, -1:]
        # Standardised windows times weights; the standardising is done on the product, which is smaller.
        outcome = (window @ self._weights - last * self._total) / scale[:, None] + base + self._of_hour(history)
        mu, logit = outcome[:, : own.horizon], outcome[:, own.horizon :]
        sigma = np.logaddexp(0.0, logit) + LEAST_SIGMA
        if hours > own.horizon:
            hour = np.minimum(np.arange(hours), own.horizon - 1)
            wider = np.sqrt(np.maximum(np.arange(1, hours + 1) / own.horizon, 1.0))
            mu, sigma, ahead = mu[:, hour], sigma[:, hour] * wider, ahead[:, hour]
        elif hours < own.horizon:
            mu, sigma, ahead = mu[:, :hours], sigma[:, :hours], ahead[:, :hours]
        return NormalForecast(history.keys, last + ahead * mu, ahead * sigma)

    def _of_hour(self, history: DemandHistory) -> Floats:
        """What the calendar adds to the outcome: the same at every tick of an hour."""
        hour = history.end, history.first_day
        if self._hour != hour:
            codes = _calendar(history, np.array([history.end]), self.estimator.country)[0]
            self._added = sum(table[code] for table, code in zip(self._calendar, codes, strict=True))
            self._hour = hour
        return self._added

    def _series(self, history: DemandHistory) -> tuple[Floats, Floats, Floats]:
        """Scale of each series, and what its attributes and the offsets add to the outcome."""
        if self._known is not None and self._keys == history.keys:
            if self._settled:
                return self._known
            return *self.scales.of(history), self._known[2]  # scales of new ones change by the hour
        mean, spread = self.scales.of(history)
        codes = _codes(history.keys, self.attribute_values)
        nothing = np.empty((len(codes), 0))
        midnight = np.zeros((len(codes), len(CALENDAR)), np.int64)  # its part of the context is cut off
        features = context_of(self.parameters, Batch(nothing, midnight, codes, nothing)).features
        base = (features[:, : len(self._context)] @ self._context + self._offset).astype(np.float64)
        self._keys, self._known = history.keys, (mean, spread, base)
        self._settled = all(key in self.scales.of_key for key in history.keys)
        return self._known


def _kept(cases: Cases, count: int) -> Cases:
    """The same cases, worked out once."""
    first = cases(np.arange(0))
    assert first.series is not None
    window, calendar, target, series = (
        np.empty((count, *part.shape[1:]), part.dtype)
        for part in (first.window, first.calendar, first.target, first.series)
    )
    for begin in range(0, count, BLOCK // 4):
        some = slice(begin, min(begin + BLOCK // 4, count))
        window[some], calendar[some], _, target[some], series[some] = cases(np.arange(some.start, some.stop))
    return lambda at: Batch(window[at], calendar[at], first.attributes, target[at], series[at])


def _calendar(history: DemandHistory, hours: Ints, country: str) -> Ints:
    """Hour, weekday and holiday of each of these hours."""
    holiday = holiday_hours(history, hours, country)
    return np.stack([hour_of_day(hours), history.weekday_of(hours), holiday.astype(np.int64)], axis=1)


def _codes(keys: tuple[SeriesKey, ...], lists: tuple[tuple[str, ...], ...]) -> Ints:
    """Each series' attributes as numbers; 0 is one that was not there when the model was fitted."""
    tables = [{value: i + 1 for i, value in enumerate(values)} for values in lists]
    codes = [[table.get(key[i], 0) for i, table in enumerate(tables)] for key in keys]
    return np.array(codes, dtype=np.int64).reshape(len(keys), len(lists))


def _continued(fresh: Parameters, lists: tuple[tuple[str, ...], ...], start: OrgLinearPredictor) -> Parameters:
    """The weights of an earlier fit; in the tables of attributes, values that are new keep their fresh rows."""
    parameters = dict(start.parameters)
    for i, values in enumerate(lists):
        name = f"attribute{i}"
        table, earlier = fresh[name].copy(), start.parameters[name]
        table[0] = earlier[0]
        rows = {value: row for row, value in enumerate(start.attribute_values[i], start=1)}
        for row, value in enumerate(values, start=1):
            if value in rows:
                table[row] = earlier[rows[value]]
        parameters[name] = table
    return parameters


def _single(parameters: Parameters) -> Parameters:
    return {name: value.astype(PRECISION) for name, value in parameters.items()}


@cache
def _all_known(window: int) -> KnownHours:
    """Of windows without a gap."""
    return KnownHours.of(np.array([window]), window)


@cache
def _average(window: int, kernel: int) -> Any:
    """Sparse: a row has as many numbers as the kernel, not as the window."""
    return csr_array(moving_average(window, kernel).astype(PRECISION))
