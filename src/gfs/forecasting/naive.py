"""Forecasts that need no training: what every model has to beat (docs/concepts/demand-forecast.md).

`persistence` forecasts the last value, `seasonal-24` and `seasonal-168` the value a day or a week ago, each with the
errors that this made on the history it was fitted on. `weekly-peak`, the rule of production before GFS (GFS-e),
forecasts the highest value of the previous week for every hour and every probability.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gfs.forecasting.forecast import BaseForecast, Forecast
from gfs.forecasting.history import WEEK_HOURS, DemandHistory, Floats, Ints, SeriesKey


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NaiveForecast(BaseForecast):
    """A value for every series and hour, with the errors that such values had before (None: its bound is itself)."""

    keys: tuple[SeriesKey, ...]
    values: Floats
    errors: PastErrors | None = None
    back: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Per hour ahead: how many hours before it the value is from."""

    def mean(self) -> Floats:
        """The values."""
        return self.values

    def quantile(self, p: float) -> Floats:
        """The values and the quantile of past errors, not below 0."""
        spread = 0.0 if self.errors is None else self.errors.quantile(p, self.back, self.errors.rows_of(self.keys))
        quantile: Floats = np.maximum(self.values + spread, 0.0)
        return quantile


@dataclass(frozen=True, slots=True)
class SeasonalEstimator:
    """The value one season ago; a season of one hour is persistence."""

    name: str
    season: int

    def fit(self, history: DemandHistory) -> SeasonalPredictor:
        """Remember the history: its errors are looked at when they are asked for."""
        return SeasonalPredictor(self.season, PastErrors(history))


@dataclass(frozen=True, slots=True, eq=False)
class SeasonalPredictor:
    """The value one season ago, with the errors that this made before."""

    season: int
    errors: PastErrors

    def predict(self, history: DemandHistory, hours: int) -> Forecast:
        """Look one season back; where a series is younger, its last value; without any, 0."""
        ahead = np.arange(hours)
        back = (ahead // self.season + 1) * self.season  # whole seasons, and known already
        values = np.zeros((len(history.keys), hours))
        if history.hours:
            source = (history.hours + ahead - back)[None, :]
            source = np.where(source < history.first[:, None], history.hours - 1, source)
            values = np.take_along_axis(history.gpus, source, axis=1)
        return NaiveForecast(history.keys, values, self.errors, back)


@dataclass(frozen=True, slots=True, eq=False)
class PastErrors:
    """What demand changed by over so many hours, sorted once and then only looked up."""

    history: DemandHistory
    _sorted: dict[int, tuple[Floats, Ints]] = field(default_factory=dict, init=False)
    _quantiles: dict[tuple[float, int], Floats] = field(default_factory=dict, init=False)

    def rows_of(self, keys: tuple[SeriesKey, ...]) -> Ints:
        """Where these series are; one past the end for those that are not there."""
        if keys == self.history.keys:
            return np.arange(len(keys))
        row = {key: i for i, key in enumerate(self.history.keys)}
        return np.asarray([row.get(key, len(row)) for key in keys], dtype=np.int64)

    def quantile(self, p: float, back: Ints, rows: Ints) -> Floats:
        """The p-quantile of the changes over `back` hours, each column one of `back`; 0 where none is known."""
        distinct, column = np.unique(back, return_inverse=True)
        table = np.stack([self._quantile(p, int(hours)) for hours in distinct], axis=1)
        picked: Floats = table[rows][:, column]
        return picked

    def _quantile(self, p: float, back: int) -> Floats:
        """Of every series, and 0 for those that are not there."""
        if (p, back) not in self._quantiles:
            errors, counts = self._errors(back)
            result = np.zeros(len(counts) + 1)
            known = np.flatnonzero(counts)
            place = p * (counts[known] - 1)
            low = np.floor(place).astype(np.int64)
            high = np.minimum(low + 1, counts[known] - 1)
            part = place - low
            below = errors[known, low]
            result[known] = below + part * (errors[known, high] - below)
            self._quantiles[p, back] = result
        return self._quantiles[p, back]

    def _errors(self, back: int) -> tuple[Floats, Ints]:
        """Sorted changes over so many hours per series, and how many there are; padded with NaN at the end."""
        if back not in self._sorted:
            gpus, first = self.history.gpus, self.history.first
            errors = gpus[:, back:] - gpus[:, :-back]
            before = np.arange(errors.shape[1])[None, :] < first[:, None]
            errors[before] = np.nan
            errors.sort(axis=1)
            self._sorted[back] = errors, np.maximum(errors.shape[1] - first, 0)
        return self._sorted[back]


@dataclass(frozen=True, slots=True)
class WeeklyPeakEstimator:
    """The highest value of the previous week: needs no fitting."""

    name: str = "weekly-peak"

    def fit(self, history: DemandHistory) -> WeeklyPeakPredictor:
        """Nothing to learn."""
        return WeeklyPeakPredictor()


@dataclass(frozen=True, slots=True)
class WeeklyPeakPredictor:
    """The highest value of the previous week, for every hour ahead."""

    def predict(self, history: DemandHistory, hours: int) -> Forecast:
        """The same number for all hours; 0 without history."""
        peak = history.gpus[:, -WEEK_HOURS:].max(axis=1, initial=0.0)
        values = np.repeat(peak[:, None], hours, axis=1)
        return NaiveForecast(history.keys, values)


PERSISTENCE = SeasonalEstimator("persistence", 1)
SEASONAL_DAY = SeasonalEstimator("seasonal-24", 24)
SEASONAL_WEEK = SeasonalEstimator("seasonal-168", WEEK_HOURS)
WEEKLY_PEAK = WeeklyPeakEstimator()
