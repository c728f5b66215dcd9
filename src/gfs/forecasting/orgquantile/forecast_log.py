"""Past forecasts and their scores, updated hour by hour.

At every origin (an hour that begins) the bands of the next hours are recorded. When an hour is over, the forecasts
made for it are scored. Only the last `SCORED_HOURS` count, in forecasts whose experts were weighted by the
`COMPARED_HOURS` before them, with widths stretched by the week before them; so a log that begins `replay_hours` back
is, by now, the same to the last bit as an older one.
"""

from __future__ import annotations

from collections import deque
from copy import copy, deepcopy
from dataclasses import dataclass, field

import numpy as np

from gfs.forecasting.history import WEEK_HOURS, Bools, DemandHistory, Floats
from gfs.forecasting.orgquantile.calibration import NORMAL_CURVE, SCORE, ConformalScores, RecencyWeighted, Volatility
from gfs.forecasting.orgquantile.mixture import EXPERTS, Bands, Known, Mixture, fixed_point

SCORED_HOURS = 3 * WEEK_HOURS
"""Hours whose scores calibrate."""
COMPARED_HOURS = 2 * WEEK_HOURS
"""Hours over which experts are compared."""
RECENT_HOURS = WEEK_HOURS
"""Hours whose scores count once more on their own."""
CALIBRATED_EVERY = 6
"""Hours between two calibrations."""
ALARM_HOURS, ALARM_MISSES, ALARM_BOUND = 6, 3, 0.95
"""A series whose next-hour bound was exceeded so often within such a span may have shifted its level."""
ALARM_LASTS = 24
"""Hours for which that is remembered; by then the daily profile begins to know the new level."""
CAPPED_SCORES = 72
"""From so many scores on no bound lies further above the middle than demand has been."""


def replay_hours(horizon: int) -> int:
    """How far back a log must begin."""
    return COMPARED_HOURS + SCORED_HOURS + WEEK_HOURS + 2 * horizon + ALARM_HOURS + ALARM_LASTS + CALIBRATED_EVERY


@dataclass(frozen=True, slots=True, eq=False)
class PastForecasts:
    """Forecasts of consecutive origins and actual demand in those hours; that of the last origin is not known yet."""

    bands: tuple[Bands, ...]
    actual: tuple[Floats, ...]
    totals: dict[tuple[tuple[int, ...], int], ConformalScores] = field(default_factory=dict, init=False)
    """Scores of sums computed so far: one forecast may be asked for many probabilities."""

    def peak_scores(self, hours: int) -> ConformalScores:
        """Of the highest demand of so many hours, per series."""
        done = self._done(hours)
        if not len(done):
            return ConformalScores.empty(self.bands[0].sheet.shape[2])
        bands = Bands(np.stack([self.bands[i].sheet[:, :hours] for i in done], axis=1))
        return ConformalScores.collected(peak_score(bands, _highest(self._actual(done, hours), hours), hours).T)

    def total_peak_scores(self, series: list[int], hours: int) -> ConformalScores:
        """Of the highest sum of these series in so many hours: one target. Series that do not exist yet count 0."""
        asked = (tuple(series), hours)
        if asked not in self.totals:
            self.totals[asked] = self._total_peak_scores(series, hours)
        return self.totals[asked]

    def _total_peak_scores(self, series: list[int], hours: int) -> ConformalScores:
        done = self._done(hours)
        if not len(done):
            return ConformalScores.empty(1)
        middle, width = total_peak(Bands(np.stack([self.bands[i].sheet[:, :hours, series] for i in done], axis=1)))
        top = _highest(self._actual(done, hours)[:, series].sum(axis=1), hours)
        scores = np.full((1, len(done)), np.inf)
        np.divide(top - middle, width, out=scores[0], where=width > 0)
        return ConformalScores.collected(scores)

    def _actual(self, done: range, hours: int) -> Floats:
        """Demand in the hours that these origins forecast: hours x series."""
        return np.stack(self.actual[done[0] : done[-1] + hours])

    def _done(self, hours: int) -> range:
        """The origins, by place, whose next hours are over."""
        end = len(self.bands) - hours
        return range(max(end - SCORED_HOURS, 0), max(end, 0))


def _highest(actual: Floats, hours: int) -> Floats:
    """The highest of so many hours from each one on."""
    count = len(actual) - hours + 1
    highest: Floats = np.maximum.reduce([actual[ahead : ahead + count] for ahead in range(hours)])
    return highest


def peak(bands: Bands, hours: int) -> tuple[Floats, Floats]:
    """Middle and width of the highest demand: the highest middle, and from there to the highest bound."""
    middles = bands.middle[..., :hours, :]
    middle = np.maximum.reduce(middles, axis=-2)
    return middle, np.maximum.reduce(middles + bands.width[..., :hours, :], axis=-2) - middle


def peak_score(bands: Bands, top: Floats, hours: int) -> Floats:
    """How many widths the highest demand was above its middle."""
    middle, width = peak(bands, hours)
    score: Floats = (top - middle) / width + bands.unscored[..., 0, :]
    return score


def total_peak(bands: Bands) -> tuple[Floats, Floats]:
    """Middle and width of the highest sum of the hours, as if errors of the series were independent.

    Series that had no record by then count 0. Of forecasts of several origins: for each of them.
    """
    middle: Floats = (bands.middle * bands.exists).sum(axis=-1).max(axis=-1)
    width: Floats = np.sqrt(((bands.width * bands.exists).max(axis=-2) ** 2).sum(axis=-1))
    return middle, width


class ForecastLog:
    """The forecasts of some series up to an origin, their scores and the losses of the experts.

    Scores and losses of an hour stand at its place in a ring, so those that no longer count are overwritten.
    """

    made: Bands | None = None
    """The forecast at the last origin, of all hours that it was asked for."""

    def __init__(self, series: int, horizon: int) -> None:
        self.horizon = horizon
        self.scores: ConformalScores | RecencyWeighted = ConformalScores.empty(series)
        self.peaks = ConformalScores.empty(series)
        self.cap = np.full(series, np.inf)
        """Per series: GPUs above the middle that no bound lies beyond."""
        self.losses = np.zeros((EXPERTS, horizon, series), dtype=np.int64)
        self.alarmed = np.zeros(series, dtype=bool)
        """Per series: whether bounds were exceeded often in the last day."""
        self._stretch = np.ones(series)
        self._bands: deque[Bands] = deque(maxlen=SCORED_HOURS + horizon)
        self._actual: deque[Floats] = deque(maxlen=SCORED_HOURS + horizon - 1)
        self._ring_scores = np.full((series, SCORED_HOURS, horizon), np.inf, dtype=SCORE)
        self._ring_excess = np.full((series, SCORED_HOURS, horizon), -np.inf, dtype=SCORE)
        self._ring_peaks = np.full((series, SCORED_HOURS), np.inf, dtype=SCORE)
        self._ring_losses = np.zeros((COMPARED_HOURS, *self.losses.shape), dtype=np.int64)
        self._volatility = Volatility(series)
        self._alarm_multiplier = self.scores.multiplier(ALARM_BOUND, NORMAL_CURVE)
        self._next_bound: Floats = np.zeros(series)
        self._misses: deque[Bools] = deque(maxlen=ALARM_HOURS)
        self._last_alarm = np.full(series, -np.inf)

    def advance(
        self, mixture: Mixture, window: Floats, value: Floats, hour: int, history: DemandHistory, hours: int
    ) -> None:
        """The hour begins: score what was forecast for the one before, which had this value; then forecast.

        At least as many hours as are scored, and `hours`: each is what it would be by itself.
        """
        if self._bands:
            self._actual.append(value)
            self._watch(value, hour)
            self._score(value, hour)
        if hour % CALIBRATED_EVERY == 0:
            self._calibrate(hour)
        self.made = bands = mixture.bands(self.known(window), hour, history, max(hours, self.horizon))
        if hours > self.horizon:
            bands = Bands(bands.sheet[:, : self.horizon].copy())
        self._bands.append(bands)
        self._next_bound = bands.middle[0] + bands.width[0] * self._alarm_multiplier

    def add_series(self, count: int) -> None:
        """So many series more, last, that did not exist until now."""
        self.scores, self.peaks = self.scores.with_more(count), self.peaks.with_more(count)
        self._alarm_multiplier = self.scores.multiplier(ALARM_BOUND, NORMAL_CURVE)
        self._volatility.add_series(count)
        self._bands = deque((bands.with_more(count) for bands in self._bands), self._bands.maxlen)
        for name in ("_actual", "_misses"):
            rows = getattr(self, name)
            setattr(self, name, deque((np.pad(row, (0, count)) for row in rows), rows.maxlen))
        for name, empty in (("cap", np.inf), ("_stretch", 1.0), ("_last_alarm", -np.inf), ("_next_bound", 0.0)):
            setattr(self, name, np.pad(getattr(self, name), (0, count), constant_values=empty))
        self.alarmed = np.pad(self.alarmed, (0, count))
        for name in ("losses", "_ring_losses"):
            losses = getattr(self, name)
            setattr(self, name, np.pad(losses, [(0, 0)] * (losses.ndim - 1) + [(0, count)]))
        for name, none in (("_ring_scores", np.inf), ("_ring_excess", -np.inf), ("_ring_peaks", np.inf)):
            ring = getattr(self, name)
            setattr(self, name, np.pad(ring, [(0, count)] + [(0, 0)] * (ring.ndim - 1), constant_values=none))

    def copied(self) -> ForecastLog:
        """A log that goes on by itself from here. Bands are never changed, so both may hold the same."""
        other = copy(self)
        other._volatility = deepcopy(self._volatility)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray | deque):
                setattr(other, name, value.copy())
        return other

    def known(self, window: Floats) -> Known:
        """What the forecast of now rests on, with the window before it."""
        return Known(window, self.losses, self._stretch)

    def past(self) -> PastForecasts:
        """A view that later hours do not change."""
        return PastForecasts(tuple(self._bands), tuple(self._actual))

    def _calibrate(self, hour: int) -> None:
        """Take the scores so far into account."""
        series = len(self.cap)
        recent = self._ring_scores[:, (hour - np.arange(RECENT_HOURS)) % SCORED_HOURS]
        every = ConformalScores.collected(self._ring_scores.reshape(series, -1))
        self.scores = RecencyWeighted(every, ConformalScores.collected(recent.reshape(series, -1)))
        self.peaks = ConformalScores.collected(self._ring_peaks)
        self._alarm_multiplier = self.scores.multiplier(ALARM_BOUND, NORMAL_CURVE)
        self._stretch = self._volatility.stretch(hour)
        highest = self._ring_excess.max(axis=(1, 2), initial=0.0).astype(np.float64)
        self.cap = np.where(every.known >= CAPPED_SCORES, highest, np.inf)

    def _watch(self, value: Floats, hour: int) -> None:
        """Alarm for series whose bounds are exceeded again and again."""
        self._misses.append(value > self._next_bound + self._bands[-1].unscored[0])
        often = np.add.reduce(self._misses, dtype=np.int64) >= ALARM_MISSES
        self._last_alarm[often] = hour
        self.alarmed = self._last_alarm >= hour - ALARM_LASTS

    def _score(self, value: Floats, hour: int) -> None:
        """Score the forecasts of the hour that is over."""
        made = [self._bands[-1 - ahead] for ahead in range(min(self.horizon, len(self._bands)))]
        due = Bands(np.stack([bands.sheet[:, ahead] for ahead, bands in enumerate(made)], axis=1))
        excess = value - due.middle
        score = excess / due.width + due.unscored
        self._ring_scores[:, hour % SCORED_HOURS, : len(made)] = score.T
        self._ring_excess[:, hour % SCORED_HOURS, : len(made)] = (excess - due.unscored).T
        self._volatility.note(hour, excess / due.fitted + due.unscored)
        error = np.abs((value - due.last) / due.scale - due.experts)
        losses = self._ring_losses[hour % COMPARED_HOURS]
        self.losses = self.losses - losses
        losses[:, : len(made)] = np.where(due.exists > 0, fixed_point(error), 0)
        self.losses += losses
        if len(made) == self.horizon:
            top = np.maximum.reduce([self._actual[-1 - ahead] for ahead in range(self.horizon)])
            self._ring_peaks[:, hour % SCORED_HOURS] = peak_score(made[-1], top, self.horizon)
