"""A forecaster in the scheduler's loop: it is retrained every day on what was seen, and forecasts by what a tick knew.

Before there is enough to learn from, and when the model cannot forecast, a simple and cautious rule is used and named
in the log. No decision fails because a model does: failures are counted, and another fit is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gfs.core.ports import FitRequest, Train, train_at_once
from gfs.domain.text import one_line
from gfs.domain.units import DAY, HOUR
from gfs.forecasting.forecast import Estimator, Forecast, Predictor, TotalForecast
from gfs.forecasting.history import DAY_HOURS, DemandHistory, Floats, SeriesKey
from gfs.forecasting.meter import DemandMeter

GROWN = 1 / 5
"""A fit pays when the history has grown by such a part: every day for five days, then less and less often."""
ASK_AGAIN = HOUR
"""Seconds after which a fit that was asked for and has not come is asked for again."""
CAUTIOUS = "cautious"
"""What the rule of the first day is called in logs."""
NOTHING_KNOWN = "nothing known yet"
"""Named as the forecaster in the first minutes: all GPUs are reserved."""


@runtime_checkable
class Refits(Protocol):
    """An estimator that can start from an earlier fit."""

    def refit(self, history: DemandHistory, earlier: Predictor) -> Predictor:
        """Learn from the history, starting from an earlier fit."""


@runtime_checkable
class Resumes(Protocol):
    """A fitted model that can go on where an earlier one of its pool stopped. That saves time and changes nothing."""

    def resume(self, earlier: Predictor) -> None:
        """Take over what the earlier model remembers."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolForecast:
    """The demand of a pool's organizations in the coming hours, at one probability p."""

    organizations: tuple[str, ...]
    forecaster: str
    mean: Floats
    """Organizations x hours."""
    upper: Floats
    """Organizations x hours."""
    p: float
    forecast: Forecast | None = None
    """What it was made from; None: its bounds are all there is."""
    newcomers: float = 0.0
    """GPUs that organizations may want together that came after the forecast was made; they are the last rows."""
    late: int = 0
    """Hours by which the forecast is stretched: what begins in the middle of one hour reaches into another."""
    problems: list[str] = field(default_factory=list)
    """What went wrong when it was asked for totals."""
    _totals: dict[tuple[int, float], float] = field(default_factory=dict, init=False)
    """Totals computed so far: a forecast may serve for an hour, and be asked the same at every tick."""

    def total_peak(self, hours: int, p: float | None = None) -> float:
        """What all organizations together stay at or below over so many hours; `p` in place of its own."""
        asked = hours, self.p if p is None else p
        if asked not in self._totals:
            self._totals[asked] = self._total_peak(*asked)
        return self._totals[asked]

    def _total_peak(self, hours: int, p: float) -> float:
        """The forecast's bound; where it has none, the sum of its series' bounds."""
        if self.forecast is not None:
            try:
                total = self._of_forecast(self.forecast, hours, p) + self.newcomers
                if isfinite(total):
                    return total
                self.problems.append(f"a bound of {total} on the peak of {hours} h")
            except Exception as error:  # a model may be anybody's
                self.problems.append(one_line(error))
        return float(self.upper[:, :hours].max(axis=1).sum())

    def _of_forecast(self, forecast: Forecast, hours: int, p: float) -> float:
        """The forecast's own bound of the total; of one that knows none, the sum of its series' peaks."""
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
    forecasts: tuple[PoolForecast, ...] = ()
    """Of a model that is asked once an hour: from the beginning of `hour`, and from the midst of it."""
    asked: tuple[str, int, float] = ("", 0, 0.0)
    """Which forecaster was asked, for how many hours and at which probability."""

    def begin(self, forecaster: str, hours: int, p: float) -> None:
        """Forget what another forecaster has learned, and forecasts of other hours or at another probability."""
        if self.asked[0] != forecaster:
            self.fitted, self.fitted_at, self.asked_at = None, 0.0, float("-inf")
        if self.asked != (forecaster, hours, p):
            self.forecasts = ()
        self.asked = forecaster, hours, p


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


@dataclass(slots=True, eq=False)
class Stopwatch:
    """How often a pool was trained and forecast, how often that failed, and how long it took by a given clock."""

    clock: Callable[[], float] = lambda: 0.0
    training: float = 0.0
    forecasting: float = 0.0
    fits: int = 0
    forecasts: int = 0
    failures: int = 0
    """Fits that failed, models that could not forecast and were not taken, forecasts that failed later."""
    problem: str = ""
    """What went wrong the last time."""

    def note_failure(self, problem: str) -> None:
        """Something went wrong; decisions go on without it."""
        self.failures += 1
        self.problem = problem


def cautious_bounds(history: DemandHistory, hours: int, p: float) -> Floats:
    """Series x hours: the p-quantile of the last day's hours (of few hours the highest), at least the last value."""
    day = history.gpus[:, -DAY_HOURS:]
    usual = np.quantile(day, p, axis=1, method="higher")
    return np.repeat(np.maximum(usual, day[:, -1])[:, None], hours, axis=1)


class PoolForecasters:
    """The forecasters of all pools: they learn together, so that a model sees several GPU models."""

    def __init__(self) -> None:
        self._of_pool: dict[str, OnlineForecaster] = {}

    def join(self, forecaster: OnlineForecaster) -> None:
        """A forecaster was built, perhaps in the place of an earlier one of its pool."""
        self._of_pool[forecaster.gpu_model] = forecaster

    def others(self, forecaster: OnlineForecaster) -> list[OnlineForecaster]:
        """Of the other pools that have GPUs, by GPU model. One without any may be gone, and nobody says so."""
        return [
            other
            for model, other in sorted(self._of_pool.items())
            if model != forecaster.gpu_model and other.capacity and other.estimator.name == forecaster.estimator.name
        ]


@dataclass(eq=False)
class OnlineForecaster:
    """Forecasts the HP demand of one pool: bounds at `p` for `hours`. All pools are fitted together."""

    meter: DemandMeter
    estimator: Estimator
    capacity: float
    p: float
    hours: int
    least_hours: int = 24
    """It learns from so many hours of history on."""
    retrain: float = DAY
    """Seconds between two fits."""
    hourly: bool = False
    """Whether the model is asked when an hour begins. Until the next one its forecast is stretched by an hour: what
    begins in the middle of one hour reaches into another."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    memory: ForecastMemory = field(default_factory=ForecastMemory)
    train: Train = train_at_once
    """Who runs a fit, and when."""
    gpu_model: str = ""
    pools: PoolForecasters = field(default_factory=PoolForecasters)

    def __post_init__(self) -> None:
        self.pools.join(self)
        self.memory.begin(self.estimator.name, self.hours, self.p)
        self._last: PoolForecast | None = None
        self._named: tuple[tuple[SeriesKey, ...], tuple[str, ...]] = (), ()

    def forecast(self, now: float) -> PoolForecast:
        """Demand from now on, by what is known now. It never waits for a fit: without one it is cautious."""
        return self.prepare(now)()

    def prepare(self, now: float) -> Callable[[], PoolForecast]:
        """The same, made when it is called: at many ticks nobody asks. What came after `now` makes no difference."""
        self._drop_failed_model()
        if self.hourly and self.memory.fitted is not None and self._is_of_hour(now, self.meter.keys):
            self._last = made = self._timed(lambda: self._later_in_hour(now))
            return lambda: made
        history = self.meter.history(now)
        if self._is_due(history, now):
            watch = self.stopwatch
            began = watch.clock()
            self._ask(history, now)
            watch.training += watch.clock() - began
        model = self.memory.fitted

        def make() -> PoolForecast:
            self._last = self._timed(lambda: self._by_model(model, history, now) or self._cautious(history))
            return self._last

        if self.hourly:  # it serves for the whole hour
            made = make()
            return lambda: made
        return make

    def _timed(self, make: Callable[[], PoolForecast]) -> PoolForecast:
        watch = self.stopwatch
        began = watch.clock()
        made = make()
        watch.forecasting += watch.clock() - began
        watch.forecasts += 1
        return made

    # -- learning ----------------------------------------------------------------------------------

    def _is_due(self, history: DemandHistory, now: float) -> bool:
        """Whether it is time to ask for a fit."""
        memory = self.memory
        if memory.fitted is not None and now - memory.fitted_at < max(self.retrain, GROWN * history.hours * HOUR):
            return False
        if now - memory.asked_at < min(self.retrain, ASK_AGAIN):
            return False
        return history.hours >= self.least_hours and bool(history.keys)

    def _ask(self, history: DemandHistory, now: float) -> None:
        """Ask for a fit on the demand of all pools."""
        others = self.pools.others(self)
        parts = [
            history,
            *(part for part in (other.meter.history(now) for other in others) if part.hours and part.keys),
        ]
        earlier = [one.memory.fitted for one in (self, *others) if one.memory.fitted is not None]
        for one in (self, *others):
            one.memory.asked_at = now
        parts.sort(key=lambda part: part.keys[0].gpu_model)  # the same whoever asks
        fit = Fit(self.estimator, DemandHistory.joined(parts), earlier[0] if earlier else None)
        try:
            model = self.train(FitRequest(self.gpu_model, fit, now))
        except Exception as error:  # a model may be anybody's
            self._note_failure(f"a fit failed ({one_line(error)})")
        else:
            self.trained(model, now)

    def trained(self, model: Any, asked_at: float) -> None:
        """A fit is done, for all pools; None: it will come later."""
        if model is None:
            return
        others = [(other, copy(model)) for other in self.pools.others(self)]  # a model may remember what it was asked
        self.stopwatch.fits += self._take(model, asked_at)
        for other, same in others:
            other._take(same, asked_at)

    def _take(self, model: Any, asked_at: float) -> bool:
        """Use a model from now on, unless there is a later one or it cannot forecast; whether it is used."""
        memory = self.memory
        if memory.fitted is not None and asked_at < memory.fitted_at:
            return False
        try:
            if isinstance(model, Resumes) and memory.fitted is not None:
                model.resume(memory.fitted)
            self._try_out(model)
        except Exception as error:  # a model may be anybody's
            self._note_failure(f"a fitted model cannot forecast ({one_line(error)})")
            return False
        memory.fitted, memory.fitted_at = model, asked_at
        return True

    def _try_out(self, model: Predictor) -> None:
        """Let a model forecast from what is known; it fails as it would later."""
        history = self.meter.known()
        if not history.keys and callable(model.predict):
            return  # there is nothing to try it out on
        forecast = self._of_now(model, history)
        forecast.total_peak(self.hours)
        if forecast.problems:
            raise ValueError(forecast.problems[0])

    def _drop_failed_model(self) -> None:
        """A model whose last forecast could not be used is dropped."""
        if self._last is not None and self._last.problems:
            self._drop_model(self._last.problems[0])
        self._last = None

    def _drop_model(self, problem: str) -> None:
        memory = self.memory
        memory.fitted, memory.forecasts = None, ()
        self._note_failure(f"a forecast failed ({problem})")

    def _note_failure(self, what: str) -> None:
        pool = f" of pool {self.gpu_model}" if self.gpu_model else ""
        self.stopwatch.note_failure(f"{self.estimator.name}{pool}: {what}")

    # -- forecasting -------------------------------------------------------------------------------

    def _by_model(self, model: Predictor | None, history: DemandHistory, now: float) -> PoolForecast | None:
        """By the fitted model; None: there is none that can."""
        if model is None or not history.keys:
            return None
        try:
            return self._of_hour(model, history, now) if self.hourly else self._of_now(model, history)
        except Exception as error:  # a model may be anybody's
            self._drop_model(one_line(error))
            return None

    def _of_now(self, model: Predictor, history: DemandHistory) -> PoolForecast:
        return self._pool_forecast(*self._predicted(model, history, self.hours), late=0)

    def _of_hour(self, model: Predictor, history: DemandHistory, now: float) -> PoolForecast:
        """The forecast of this hour, made when it is first asked for."""
        memory = self.memory
        forecast, mean, upper = self._predicted(model, history, self.hours + 1)
        higher, wider = (np.maximum(bounds[:, :-1], bounds[:, 1:]) for bounds in (mean, upper))
        memory.hour = int(now // HOUR)
        memory.forecasts = (
            self._pool_forecast(forecast, mean[:, :-1], upper[:, :-1], late=0),
            self._pool_forecast(forecast, higher, wider, late=1),
        )
        return memory.forecasts[int(now % HOUR > 0)]

    def _is_of_hour(self, now: float, keys: tuple[SeriesKey, ...]) -> bool:
        """Whether the forecast of this hour is there, for these series or the first of them."""
        memory = self.memory
        made = memory.forecasts[0].forecast if memory.hour == int(now // HOUR) and memory.forecasts else None
        return made is not None and (made.keys == keys or made.keys == keys[: len(made.keys)])

    def _later_in_hour(self, now: float) -> PoolForecast:
        """The forecast of the hour; organizations that came since are cautious until the next hour begins."""
        made = self.memory.forecasts[int(now % HOUR > 0)]
        known = len(made.organizations)
        if len(self.meter.keys) == known:
            return made
        history = self.meter.history(now)
        new = history.only(range(known, len(history.keys)))
        bounds = cautious_bounds(new, self.hours, self.p) if new.hours else np.zeros((len(new.keys), self.hours))
        return replace(
            made,
            organizations=made.organizations + tuple(key.organization for key in new.keys),
            mean=np.concatenate([made.mean, bounds]),
            upper=np.concatenate([made.upper, bounds]),
            newcomers=float(bounds[:, 0].sum()),
            problems=[],
        )

    def _predicted(self, model: Predictor, history: DemandHistory, hours: int) -> tuple[Forecast, Floats, Floats]:
        """A forecast with its middle and its bounds, which are checked to be numbers for every series and hour."""
        forecast = model.predict(history, hours)
        if forecast.keys != history.keys:
            raise ValueError("it is a forecast of other series than were asked for")
        mean, upper = forecast.mean(), forecast.quantile(self.p)
        for numbers in (mean, upper):
            if numbers.shape != (len(history.keys), hours) or not np.isfinite(numbers).all():
                raise ValueError(f"not a finite number for each of {len(history.keys)} series and {hours} hours")
        return forecast, mean, upper

    def _pool_forecast(self, forecast: Forecast, mean: Floats, upper: Floats, late: int) -> PoolForecast:
        if self._named[0] is not forecast.keys:
            self._named = forecast.keys, tuple(key.organization for key in forecast.keys)
        return PoolForecast(self._named[1], self.estimator.name, mean, upper, self.p, forecast, late=late)

    def _cautious(self, history: DemandHistory) -> PoolForecast:
        if not history.hours:
            everything = np.full((1, self.hours), float(self.capacity))
            return PoolForecast(("all",), NOTHING_KNOWN, everything, everything, self.p)
        bounds = cautious_bounds(history, self.hours, self.p)
        organizations = tuple(key.organization for key in history.keys)
        return PoolForecast(organizations, CAUTIOUS, bounds, bounds, self.p)
