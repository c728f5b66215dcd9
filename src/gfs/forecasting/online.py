"""A forecaster at work: it learns every day from what was seen, and looks ahead whenever it is asked.

Before there is enough to learn from, a simple and cautious rule takes over, and says so by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gfs.core.ports import Train, Training, train_at_once
from gfs.domain.units import DAY, HOUR
from gfs.forecasting.cautious import CAUTIOUS, cautious_bounds
from gfs.forecasting.forecast import Estimator, Forecast, Predictor, TotalForecast
from gfs.forecasting.history import DemandHistory, Floats
from gfs.forecasting.meter import DemandMeter

ASK_AGAIN = HOUR
"""Seconds after which a fit that was asked for and has not come is asked for again."""
NOTHING_KNOWN = "nothing known yet"
"""Named as the forecaster in the first minutes: all cards are kept back."""


@runtime_checkable
class Refits(Protocol):
    """An estimator that can start from an earlier fit."""

    def refit(self, history: DemandHistory, earlier: Predictor) -> Predictor:
        """Learn from the history, starting from what was learnt before."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DemandOutlook:
    """What a forecast says at one probability p."""

    organizations: tuple[str, ...]
    forecaster: str
    mean: Floats
    """Organizations x hours."""
    upper: Floats
    """Organizations x hours."""
    p: float
    forecast: Forecast | None = None
    """What it was made from; None: its bounds are all there is."""
    late: int = 0
    """Hours by which the forecast is stretched: what begins in the middle of one hour reaches into another."""
    _totals: dict[tuple[int, float], float] = field(default_factory=dict)
    """What has been asked: an outlook may serve for an hour, and be asked the same at every tick."""

    def total_peak(self, hours: int, p: float | None = None) -> float:
        """What all organizations together stay at or below over so many hours; `p` in place of its own."""
        asked = hours, self.p if p is None else p
        if asked not in self._totals:
            self._totals[asked] = self._total_peak(*asked)
        return self._totals[asked]

    def _total_peak(self, hours: int, p: float) -> float:
        """The forecast's own bound of the total; of one that knows none, the sum of its series' peaks."""
        forecast = self.forecast
        if forecast is None:
            return float(self.upper[:, :hours].max(axis=1).sum())
        if isinstance(forecast, TotalForecast):
            return forecast.total_peak_quantile(p, hours + self.late, range(len(forecast.keys)))
        return float(forecast.peak_quantile(p, hours + self.late).sum())


@dataclass(slots=True)
class ForecastMemory:
    """What a forecaster at work remembers: the fitted model, and the forecast of the hour."""

    fitted: Predictor | None = None
    fitted_at: float = 0.0
    asked_at: float = float("-inf")
    """When a fit was last asked for: it may be under way somewhere."""
    hour: int = -1
    outlooks: tuple[DemandOutlook, ...] = ()
    """Of a model that is asked once an hour: from the beginning of `hour`, and from the midst of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The work of learning from a history, perhaps starting from an earlier fit."""

    estimator: Estimator
    history: DemandHistory
    earlier: Predictor | None

    def __call__(self) -> Predictor:
        """Learn."""
        if self.earlier is not None and isinstance(self.estimator, Refits):
            return self.estimator.refit(self.history, self.earlier)
        return self.estimator.fit(self.history)


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
        memory: ForecastMemory | None = None,
        train: Train = train_at_once,
        gpu_model: str = "",
    ) -> None:
        """Bounds at `p` for `hours`; it learns from `least_hours` of history on, every `retrain` seconds.

        `hourly`: the model is asked when an hour begins. Until the next one its forecast is stretched by an hour:
        what begins in the middle of one hour reaches into another. `train`: who runs a fit, and when.
        """
        self._meter = meter
        self._estimator = estimator
        self._capacity = capacity
        self._p = p
        self._hours = hours
        self._least_hours = least_hours
        self._retrain = retrain
        self._hourly = hourly
        self._watch = stopwatch or Stopwatch()
        self._memory = memory or ForecastMemory()
        self._train = train
        self._gpu_model = gpu_model

    def look(self, now: float) -> DemandOutlook:
        """Demand from now on, by what is known now. It never waits for a fit: without one it is cautious."""
        watch, memory = self._watch, self._memory
        began = watch.clock()
        history = self._meter.history(now)
        due = memory.fitted is None or now - memory.fitted_at >= self._retrain
        due = due and now - memory.asked_at >= min(self._retrain, ASK_AGAIN)
        if due and history.hours >= self._least_hours and history.keys:
            memory.asked_at = now
            fit = Fit(self._estimator, history, memory.fitted)
            self.trained(self._train(Training(self._gpu_model, fit, now)), now)
            watch.training += watch.clock() - began
            began = watch.clock()
        outlook = self._forecast(history, now) if memory.fitted is not None else self._cautious(history)
        watch.forecasting += watch.clock() - began
        watch.forecasts += 1
        return outlook

    def trained(self, model: Any, asked_at: float) -> None:
        """A fit is done; None: it will come later."""
        if model is not None and (self._memory.fitted is None or asked_at >= self._memory.fitted_at):
            self._memory.fitted, self._memory.fitted_at = model, asked_at
            self._watch.fits += 1

    def _forecast(self, history: DemandHistory, now: float) -> DemandOutlook:
        memory = self._memory
        assert memory.fitted is not None
        if not self._hourly:
            forecast = memory.fitted.predict(history, self._hours)
            return self._outlook(forecast, forecast.mean(), forecast.quantile(self._p), late=0)
        hour, late = int(now // HOUR), int(now % HOUR > 0)
        known = len(memory.outlooks[0].organizations) if memory.outlooks else 0
        if memory.hour != hour or known != len(history.keys):
            forecast = memory.fitted.predict(history, self._hours + 1)
            mean, upper = forecast.mean(), forecast.quantile(self._p)
            higher, wider = (np.maximum(bounds[:, :-1], bounds[:, 1:]) for bounds in (mean, upper))
            memory.hour = hour
            memory.outlooks = (
                self._outlook(forecast, mean[:, :-1], upper[:, :-1], late=0),
                self._outlook(forecast, higher, wider, late=1),
            )
        return memory.outlooks[late]

    def _outlook(self, forecast: Forecast, mean: Floats, upper: Floats, late: int) -> DemandOutlook:
        organizations = tuple(key.organization for key in forecast.keys)
        return DemandOutlook(organizations, self._estimator.name, mean, upper, self._p, forecast, late)

    def _cautious(self, history: DemandHistory) -> DemandOutlook:
        if not history.hours:
            everything = np.full((1, self._hours), float(self._capacity))
            return DemandOutlook(("all",), NOTHING_KNOWN, everything, everything, self._p)
        bounds = cautious_bounds(history, self._hours, self._p)
        organizations = tuple(key.organization for key in history.keys)
        return DemandOutlook(organizations, CAUTIOUS, bounds, bounds, self._p)
