"""A forecaster at work: it learns every day from what was seen, and looks ahead whenever it is asked (SPEC 5).

Before there is enough to learn from, a simple and cautious rule takes over, and says so by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from gfs.domain.units import DAY, HOUR
from gfs.forecasting.cautious import CAUTIOUS, cautious_bounds
from gfs.forecasting.forecast import Estimator, Forecast, Predictor, TotalForecast
from gfs.forecasting.history import DemandHistory, Floats
from gfs.forecasting.meter import DemandMeter

NOTHING_KNOWN = "nothing known yet"
"""Named as the forecaster in the first minutes: all cards are kept back."""


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
    totals: Callable[[int, float | None], float]

    def total_peak(self, hours: int, p: float | None = None) -> float:
        """What all organizations together stay at or below over so many hours; `p` in place of its own."""
        return self.totals(hours, p)


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
        least_hours: int = 24,
        retrain: float = DAY,
        hourly: bool = False,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """Bounds at `p` for `hours`; it learns from `least_hours` of history on, every `retrain` seconds.

        `hourly`: the model is asked when an hour begins. Until the next one its forecast is stretched by an hour:
        what begins in the middle of one hour reaches into another.
        """
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
        self._hourly = hourly
        self._hour = -1
        self._outlooks: tuple[DemandOutlook, ...] = ()
        """Of a model that is asked once an hour: from the beginning of `_hour`, and from the midst of it."""

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
            outlook = self._forecast(history, now)
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

    def _forecast(self, history: DemandHistory, now: float) -> DemandOutlook:
        assert self._fitted is not None
        if not self._hourly:
            forecast = self._fitted.predict(history, self._hours)
            return self._outlook(forecast, forecast.mean(), forecast.quantile(self._p), late=0)
        hour, late = int(now // HOUR), int(now % HOUR > 0)
        known = len(self._outlooks[0].organizations) if self._outlooks else 0
        if self._hour != hour or known != len(history.keys):
            forecast = self._fitted.predict(history, self._hours + 1)
            mean, upper = forecast.mean(), forecast.quantile(self._p)
            higher, wider = (np.maximum(bounds[:, :-1], bounds[:, 1:]) for bounds in (mean, upper))
            self._hour = hour
            self._outlooks = (
                self._outlook(forecast, mean[:, :-1], upper[:, :-1], late=0),
                self._outlook(forecast, higher, wider, late=1),
            )
        return self._outlooks[late]

    def _outlook(self, forecast: Forecast, mean: Floats, upper: Floats, late: int) -> DemandOutlook:
        organizations = tuple(key.organization for key in forecast.keys)
        totals = _totals(forecast, self._p, late)
        return DemandOutlook(organizations, self._estimator.name, mean, upper, totals)

    def _cautious(self, history: DemandHistory) -> DemandOutlook:
        if not history.hours:
            everything = np.full((1, self._hours), self._capacity)
            return DemandOutlook(("all",), NOTHING_KNOWN, everything, everything, lambda hours, p: self._capacity)
        bounds = cautious_bounds(history, self._hours, self._p)
        organizations = tuple(key.organization for key in history.keys)
        peaks = np.maximum.accumulate(bounds, axis=1).sum(axis=0)
        return DemandOutlook(organizations, CAUTIOUS, bounds, bounds, lambda hours, p: float(peaks[hours - 1]))


def _totals(forecast: Forecast, usual: float, late: int) -> Callable[[int, float | None], float]:
    """The forecast's own bound of the total; of one that knows none, the sum of its series' peaks."""
    everyone = range(len(forecast.keys))

    @cache  # an outlook may serve for an hour, and be asked the same at every tick
    def total(hours: int, p: float | None) -> float:
        level = usual if p is None else p
        if isinstance(forecast, TotalForecast):
            return forecast.total_peak_quantile(level, hours + late, everyone)
        return float(forecast.peak_quantile(level, hours + late).sum())

    return total
