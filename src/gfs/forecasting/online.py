"""A forecaster at work: it learns every day from what was seen, and looks ahead whenever it is asked (SPEC 5).

Before there is enough to learn from, a simple and cautious rule takes over, and says so by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from gfs.domain.units import DAY
from gfs.forecasting.cautious import CAUTIOUS, cautious_bounds
from gfs.forecasting.forecast import Estimator, Forecast, Predictor, TotalForecast
from gfs.forecasting.history import DemandHistory, Floats
from gfs.forecasting.meter import DemandMeter

NOTHING_KNOWN = "nothing known yet"
"""Named as the forecaster in the first hour: all cards are kept back."""


@runtime_checkable
class Refits(Protocol):
    """An estimator that can start from an earlier fit."""

    def refit(self, history: DemandHistory, earlier: Predictor) -> Predictor:
        """Learn from the history, starting from what was learnt before."""
        ...


class DemandOutlook(NamedTuple):
    """What a forecast says at one probability p."""

    organizations: tuple[str, ...]
    forecaster: str
    mean: Floats
    """Organizations x hours."""
    upper: Floats
    """Organizations x hours."""
    totals: Callable[[int], float]

    def total_peak(self, hours: int) -> float:
        """What all organizations together stay at or below over so many hours."""
        return self.totals(hours)


class Stopwatch:
    """Seconds spent on learning and on looking ahead, by a clock that is given."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.clock = clock
        self.training = 0.0
        self.forecasting = 0.0
        self.fits = 0
        self.forecasts = 0


class OnlineForecaster:
    """Looks ahead in one pool."""

    def __init__(
        self,
        meter: DemandMeter,
        estimator: Estimator,
        *,
        capacity: float,
        p: float,
        hours: int,
        least_hours: int = 72,
        retrain: float = DAY,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """Bounds at `p` for `hours`; it learns from `least_hours` of history on, every `retrain` seconds."""
        self._meter = meter
        self._estimator = estimator
        self._capacity = capacity
        self._p = p
        self._hours = hours
        self._least_hours = least_hours
        self._retrain = retrain
        self._watch = stopwatch or Stopwatch()
        self._fitted: Predictor | None = None
        self._fitted_at = 0.0

    def look(self, now: float) -> DemandOutlook:
        """Demand from now on, by what is known now."""
        watch = self._watch
        began = watch.clock()
        history = self._meter.history(now)
        if history.hours >= self._least_hours and history.keys:
            if self._fitted is None or now - self._fitted_at >= self._retrain:
                self._fit(history, now)
                watch.training += watch.clock() - began
                began = watch.clock()
            outlook = self._forecast(history)
        else:
            outlook = self._cautious(history)
        watch.forecasting += watch.clock() - began
        watch.forecasts += 1
        return outlook

    def _fit(self, history: DemandHistory, now: float) -> None:
        estimator = self._estimator
        if self._fitted is not None and isinstance(estimator, Refits):
            self._fitted = estimator.refit(history, self._fitted)
        else:
            self._fitted = estimator.fit(history)
        self._fitted_at = now
        self._watch.fits += 1

    def _forecast(self, history: DemandHistory) -> DemandOutlook:
        assert self._fitted is not None
        forecast = self._fitted.predict(history, self._hours)
        organizations = tuple(key.organization for key in history.keys)
        totals = _total_of(forecast, self._p)
        return DemandOutlook(
            organizations, self._estimator.name, forecast.mean(), forecast.quantile(self._p), totals
        )

    def _cautious(self, history: DemandHistory) -> DemandOutlook:
        if not history.hours:
            everything = np.full((1, self._hours), self._capacity)
            return DemandOutlook(("all",), NOTHING_KNOWN, everything, everything, lambda hours: self._capacity)
        bounds = cautious_bounds(history, self._hours, self._p)
        organizations = tuple(key.organization for key in history.keys)
        peaks = np.maximum.accumulate(bounds, axis=1).sum(axis=0)
        return DemandOutlook(organizations, CAUTIOUS, bounds, bounds, lambda hours: float(peaks[hours - 1]))


def _total_of(forecast: Forecast, p: float) -> Callable[[int], float]:
    """The forecast's own bound of the total; of one that knows none, the sum of its series' peaks."""
    if isinstance(forecast, TotalForecast):
        everyone = range(len(forecast.keys))
        return lambda hours: forecast.total_peak_quantile(p, hours, everyone)
    return lambda hours: float(forecast.peak_quantile(p, hours).sum())
