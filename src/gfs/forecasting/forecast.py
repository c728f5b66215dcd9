"""What an estimator gives: a distribution of demand for each series and each of the next hours.

    Estimator.fit(history) -> Predictor;  Predictor.predict(history, hours) -> Forecast;  Forecast.quantile(p)

An estimator that has not been fitted cannot predict. A predictor may be given longer histories than it was
fitted on: it is fitted daily and asked every tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import ndtri

from gfs.forecasting.history import DemandHistory, Floats, SeriesKey


class Forecast(Protocol):
    """Demand of the coming hours, hour 1 being the one that begins now."""

    @property
    def keys(self) -> tuple[SeriesKey, ...]:
        """Whose demand."""

    @property
    def hours(self) -> int:
        """How many hours ahead."""

    def mean(self) -> Floats:
        """The middle of what is expected: series x hours."""

    def quantile(self, p: float) -> Floats:
        """What demand stays at or below with probability p: series x hours."""

    def peak_quantile(self, p: float, hours: int) -> Floats:
        """What the highest demand of the next hours stays at or below with probability p: per series."""


@runtime_checkable
class TotalForecast(Protocol):
    """A forecast that also bounds sums of series, whose peaks do not coincide."""

    def total_peak_quantile(self, p: float, hours: int, rows: Sequence[int]) -> float:
        """What the highest sum of these series in the next hours stays at or below with probability p."""


class Predictor(Protocol):
    """A fitted model."""

    def predict(self, history: DemandHistory, hours: int) -> Forecast:
        """Forecast the hours after the history. Only the history may count."""


class Estimator(Protocol):
    """A model that can be fitted."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    def fit(self, history: DemandHistory) -> Predictor:
        """Learn from the history."""


class BaseForecast:
    """What forecasts have in common: a short `repr`, and the paper's rule for peaks."""

    __slots__ = ()

    def __repr__(self: Forecast) -> str:
        return f"<{type(self).__name__}: {len(self.keys):,} series, {self.hours} hours ahead>"

    @property
    def hours(self: Forecast) -> int:
        """How many hours ahead."""
        return int(self.mean().shape[1])

    def peak_quantile(self: Forecast, p: float, hours: int) -> Floats:
        """The highest of the hours' quantiles."""
        peaks: Floats = self.quantile(p)[:, :hours].max(axis=1)
        return peaks


_normal = cache(ndtri)
"""The quantile of the standard normal distribution at p: the same p is asked for at every tick."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NormalForecast(BaseForecast):
    """A normal distribution for every series and hour: q = mu + z_p * sigma (docs/concepts/spot-quota.md)."""

    keys: tuple[SeriesKey, ...]
    mu: Floats
    sigma: Floats

    def mean(self) -> Floats:
        """mu, not below 0."""
        return np.maximum(self.mu, 0.0)

    def quantile(self, p: float) -> Floats:
        """mu + z_p * sigma, not below 0."""
        quantile: Floats = np.maximum(self.mu + _normal(p) * self.sigma, 0.0)
        return quantile
