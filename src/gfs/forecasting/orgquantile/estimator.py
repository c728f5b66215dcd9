"""`orgquantile`: fit, then forecast from any history, cheaply when it is the last one grown by an hour."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gfs.forecasting.forecast import BaseForecast, Predictor
from gfs.forecasting.history import WEEK_HOURS, Bools, DemandHistory, Floats, SeriesKey
from gfs.forecasting.orgquantile.calibration import (
    ConformalScores,
    GrowthRatios,
    LastValueBounds,
    RecencyWeighted,
    curve_at,
    curve_of,
    level_shifted,
)
from gfs.forecasting.orgquantile.features import LOOK_BACK, RollingWindow
from gfs.forecasting.orgquantile.forecast_log import (
    COMPARED_HOURS,
    SCORED_HOURS,
    ForecastLog,
    PastForecasts,
    peak,
    replay_hours,
    total_peak,
)
from gfs.forecasting.orgquantile.mixture import Bands, ExpertWeights, Mixture, held_out_scores
from gfs.forecasting.orgquantile.training import Coefficients, TrainingSet, TrainingSettings, fit_coefficients

LARGEST_HELD_OUT = 0.3
"""Share of the history: so much at most is held out to judge the fitting itself."""
GROWN = 4
"""A fit goes on from an earlier one until there are so many times the hours that it knew."""
YOUNG_HOURS = WEEK_HOURS
"""A series with fewer hours is new."""


@dataclass(frozen=True, slots=True)
class OrgQuantileEstimator:
    """Fits twice at first: on everything, for the hours to come; and without the last weeks, to know how such a fit
    does on hours it has not seen. Bounds of the first hours after fitting are calibrated on the second. A fit that goes
    on from an earlier one needs no second: the earlier ones have not seen the hours since."""

    horizon: int = 4
    """Hours ahead that are fitted; a forecast may ask for more."""
    training: TrainingSettings = field(default_factory=TrainingSettings)
    expert_weights: ExpertWeights = field(default_factory=ExpertWeights)
    name: str = "orgquantile"

    def fit(self, history: DemandHistory) -> OrgQuantilePredictor:
        """Learn from the history."""
        rows, cut = self._rows(history), history.end - _held_out(history)
        earlier, final = fit_coefficients(rows, [cut, history.end], self.training)
        return self._predictor(history, rows, ((cut, earlier), (history.end, final)))

    def refit(self, history: DemandHistory, earlier: Predictor) -> OrgQuantilePredictor:
        """Learn from the history, starting from an earlier fit on the hours before."""
        if not isinstance(earlier, OrgQuantilePredictor) or earlier.estimator != self:
            return self.fit(history)
        rows, (until, last) = self._rows(history), earlier.fits[-1]
        start = last if history.hours < GROWN * (until - history.start) else None
        (final,) = fit_coefficients(rows, [history.end], self.training, start)
        before = [fit for fit in earlier.fits if fit[0] < history.end]
        while len(before) > 1 and before[1][0] <= history.end - replay_hours(self.horizon):
            del before[0]  # no forecast that still counts was made by it
        if not before:
            return self.fit(history)
        return self._predictor(history, rows, (*before, (history.end, final)))

    def _rows(self, history: DemandHistory) -> TrainingSet:
        return TrainingSet(history, self.horizon, self.training.rows_of_each(len(history.keys)))

    def _predictor(self, history: DemandHistory, rows: TrainingSet, fits: tuple[Fit, ...]) -> OrgQuantilePredictor:
        hours, peaks = held_out_scores(rows, fits[:-1], history.end - _held_out(history))
        curves = Curves(curve_of(hours), curve_of(peaks))
        growth, simple = GrowthRatios.learned(history, self.horizon), LastValueBounds.learned(history, self.horizon)
        return OrgQuantilePredictor(self, fits, curves, growth, simple)


def _held_out(history: DemandHistory) -> int:
    """The last hours of a history, by which fits that do not know them are judged."""
    return min(SCORED_HOURS + COMPARED_HOURS, 1 + int(LARGEST_HELD_OUT * history.hours))


Fit = tuple[int, Coefficients]
"""Coefficients, and the number of the hour until which they know demand."""


@dataclass(eq=False)
class OrgQuantilePredictor:
    """The fitted coefficients, and a log of past forecasts that is kept while histories continue one another.

    The forecast of any hour, also of a past one needed for its score, is made by the last fit that did not see the
    hour. What was asked before changes how long a forecast takes, never the forecast.
    """

    estimator: OrgQuantileEstimator
    fits: tuple[Fit, ...]
    """In the order of their hours; the last one knows everything."""
    curves: Curves
    growth: GrowthRatios
    simple: LastValueBounds

    def __post_init__(self) -> None:
        self._seen: DemandHistory | None = None
        self._window: RollingWindow
        self._log: ForecastLog
        self._mixtures: dict[int, Mixture] = {}
        """Of the fits, as far as they were asked for."""
        self._reach = LOOK_BACK + replay_hours(self.estimator.horizon)

    def resume(self, earlier: Predictor) -> None:
        """Take over the log of the model that this one went on from, instead of making its forecasts once more."""
        if not isinstance(earlier, OrgQuantilePredictor) or earlier._seen is None or len(self.fits) < 2:
            return
        (until, fit), (last, same) = self.fits[-2], earlier.fits[-1]
        if until == last and earlier._seen.end < self.fits[-1][0] and np.array_equal(fit.hourly, same.hourly):
            self._seen, self._window, self._log = earlier._seen, deepcopy(earlier._window), earlier._log.copied()
            self._lay_out(self._seen.keys)

    def predict(self, history: DemandHistory, hours: int) -> OrgQuantileForecast:
        """Forecast the hours after the history."""
        self._follow(history, hours)
        log, window = self._log, self._window.hours
        made = log.made
        if made is None or hours > made.sheet.shape[1]:  # asked before, for fewer hours
            made = self._mixture(history.end, history.keys).bands(log.known(window), history.end, history, hours)
        bands = Bands(made.sheet[:, :hours])
        unsettled = (history.hours - history.first < YOUNG_HOURS) | level_shifted(window, log.alarmed)
        past = log.past()
        return OrgQuantileForecast(
            history.keys,
            bands,
            log.scores,
            log.peaks,
            log.cap,
            past,
            self.curves,
            self._growth_of_series,
            unsettled,
            self._simple_of_series,
        )

    def _lay_out(self, keys: tuple[SeriesKey, ...]) -> None:
        """Look up what was learnt of these series."""
        self._mixtures = {}
        self._growth_of_series, self._simple_of_series = self.growth.of(keys), self.simple.of(keys)

    def _mixture(self, hour: int, keys: tuple[SeriesKey, ...]) -> Mixture:
        """The last fit that does not know the hour, laid out for the series."""
        place = max(bisect_right(self.fits, hour, key=lambda fit: fit[0]) - 1, 0)
        if place not in self._mixtures:
            self._mixtures[place] = Mixture.of(self.fits[place][1], keys, self.estimator.expert_weights)
        return self._mixtures[place]

    def _follow(self, history: DemandHistory, hours: int) -> None:
        """Bring the log to the end of the history, from where it stands if that is part of it.

        There it forecasts so many hours at once.
        """
        horizon = self.estimator.horizon
        seen = self._seen
        if seen is not None and _adds_series(seen, history, self._reach):
            self._lay_out(history.keys)
            self._log.add_series(len(history.keys) - len(seen.keys))
            self._replay(history, hours, seen.end + 1)
        elif seen is not None and _continues(seen, history, self._reach):
            if (history.start + history.first >= seen.end).any():  # a first record fills the hours before it
                self._replay(history, hours, seen.end + 1)
            else:
                for hour in range(seen.end + 1, history.end + 1):
                    self._window.append(history.gpus[:, hour - 1 - history.start])
                    self._advance(history, hours, hour)
        else:
            self._lay_out(history.keys)
            self._log = ForecastLog(len(history.keys), horizon)
            begin = min(max(history.start + 1, history.end - replay_hours(horizon)), history.end)
            self._replay(history, hours, begin)
        self._seen = history

    def _replay(self, history: DemandHistory, hours: int, begin: int) -> None:
        """One origin after the other, from the hour `begin` on."""
        if begin > history.end:
            return
        known = history.padded(begin - LOOK_BACK).T
        self._window = RollingWindow(known[:LOOK_BACK])
        self._advance(history, hours, begin)
        for hour in range(begin + 1, history.end + 1):
            self._window.append(known[hour - begin + LOOK_BACK - 1])
            self._advance(history, hours, hour)

    def _advance(self, history: DemandHistory, hours: int, hour: int) -> None:
        """To the origin at this hour, with the hours before it; at the last one, so many hours ahead."""
        column = hour - 1 - history.start
        value = history.gpus[:, column] if column >= 0 else np.zeros(len(history.keys))
        ahead = hours if hour == history.end else 0
        self._log.advance(self._mixture(hour, history.keys), self._window.hours, value, hour, history, ahead)


def _continues(seen: DemandHistory, history: DemandHistory, reach: int) -> bool:
    """Whether the history is what was seen, with as many hours or more: the same in all that can still count."""
    since = max(seen.end - reach, seen.start)
    if seen.keys != history.keys or seen.first_day != history.first_day:
        return False
    if not since <= seen.end <= history.end <= seen.end + reach:
        return False
    if seen.start != history.start and max(seen.start, history.start) > seen.end - reach:
        return False
    if not np.array_equal(np.maximum(seen.first + seen.start, since), np.maximum(history.first + history.start, since)):
        return False
    before = seen.gpus[:, since - seen.start :]
    now = history.gpus[:, since - history.start : seen.end - history.start]
    return _same_memory(before, now) or np.array_equal(before, now)


def _adds_series(seen: DemandHistory, history: DemandHistory, reach: int) -> bool:
    """Whether the history goes on from what was seen, with further series, last, that were not there by then."""
    old = len(seen.keys)
    if len(history.keys) <= old or history.end <= seen.end or (history.first[old:] + history.start < seen.end).any():
        return False
    keys, gpus, first = history.keys[:old], history.gpus[:old], history.first[:old]
    return _continues(seen, history.trusted(keys, gpus, first, history.start, history.first_day), reach)


def _same_memory(one: Floats, other: Floats) -> bool:
    """Whether both are views of the same numbers, as the parts of one history are."""
    where, there = one.__array_interface__, other.__array_interface__
    return bool(where["data"] == there["data"] and one.strides == other.strides and one.shape == other.shape)


class Curves(NamedTuple):
    """How far demand went in general, known from fitting: for organizations with few scores of their own."""

    hours: Floats
    peak: Floats


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OrgQuantileForecast(BaseForecast):
    """Bounds of the coming hours, of their peak, and of the peak of a sum, each calibrated on its own past."""

    keys: tuple[SeriesKey, ...]
    bands: Bands
    scores: ConformalScores | RecencyWeighted
    peaks: ConformalScores
    cap: Floats
    """Per series: GPUs above the middle beyond which demand has not been of late, and no bound lies."""
    past: PastForecasts
    curves: Curves
    growth: Floats
    """Series x hours ahead and, last, their peak, x probabilities: demand relative to the last value."""
    unsettled: Bools
    """Per series: new, or its level has shifted, so that its bounds have a floor."""
    simple: tuple[Floats, Floats] | None = None
    """Of young series: changes from the last value (series x hours ahead x probabilities), and the share of bounds."""

    @property
    def fitted(self) -> int:
        """How many hours ahead were fitted."""
        return int(self.growth.shape[1]) - 1

    def mean(self) -> Floats:
        """The middle of the bands."""
        middle: Floats = self.bands.middle.T
        return middle

    def quantile(self, p: float) -> Floats:
        """What demand stays at or below with probability p: series x hours."""
        later = np.sqrt(np.maximum((np.arange(self.hours) + 1) / self.fitted, 1.0))[:, None]
        above = np.minimum(self.bands.width * self.scores.multiplier(p, self.curves.hours), later * self.cap)
        bound: Floats = np.maximum((self.bands.middle + above).T, 0.0)
        ahead = np.minimum(np.arange(self.hours), self.fitted - 1)
        if p > 0.5 and self.unsettled.any():
            bound = np.maximum(bound, self._level_shift_floor(p)[:, ahead])
        if self.simple is None:
            return bound
        changes, share = self.simple[0], self.simple[1][:, None]
        simple = np.maximum(self.bands.last[0][:, None] + curve_at(changes, p)[:, ahead] * later.T, 0.0)
        mixed: Floats = (1 - share) * bound + share * simple
        return mixed

    def peak_quantile(self, p: float, hours: int) -> Floats:
        """What the highest demand of the next hours stays at or below with probability p: per series."""
        middle, width = peak(self.bands, hours)
        scores = self.peaks if hours >= self.fitted else self.past.peak_scores(hours)
        cap = self.cap * np.sqrt(max(hours / self.fitted, 1.0))
        bound: Floats = middle + np.minimum(width * scores.multiplier(p, self.curves.peak), cap)
        if p <= 0.5 or not self.unsettled.any():
            return np.maximum(bound, 0.0)
        floor = self._level_shift_floor(p)
        return np.maximum(bound, floor[:, -1] if hours >= self.fitted else floor[:, :hours].max(axis=1))

    def total_peak_quantile(self, p: float, hours: int, rows: Sequence[int]) -> float:
        """What the highest sum of these series in the next hours stays at or below with probability p."""
        chosen = list(rows)
        if not chosen:
            return 0.0
        middle, width = total_peak(Bands(self.bands.sheet[:, :hours, chosen]))
        scores = self.past.total_peak_scores(chosen, min(hours, self.fitted))
        floor = np.where(self.unsettled, self.bands.last[0], 0.0)[chosen].sum() if p > 0.5 else 0.0
        return max(float(middle + width * scores.multiplier(p, self.curves.peak)[0]), float(floor))

    def _level_shift_floor(self, p: float) -> Floats:
        """Series x hours ahead and, last, their peak: below it no bound of an unsettled series lies."""
        growth = np.maximum(curve_at(self.growth, p), 1.0)
        return np.where(self.unsettled[:, None], self.bands.last[0][:, None] * growth, 0.0)
