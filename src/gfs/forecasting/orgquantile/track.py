"""Past forecasts and how they turned out, kept up hour by hour.

At every origin (an hour that begins) the bands of the next hours are written down. When an hour is over, the
forecasts made for it are scored. Only the last `KEPT` hours count, in forecasts that the gate made from the
`COMPARED` hours before them, with widths stretched by the week before them; so a track that begins `replay_hours`
back is, by now, the same to the last bit as an older one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from gfs.forecasting.history import WEEK_HOURS, DemandHistory, Floats
from gfs.forecasting.orgquantile.bands import Bands, Known, Mixture
from gfs.forecasting.orgquantile.calibration import NORMAL_CURVE, SCORE, Calibration, Scores, Weighed
from gfs.forecasting.orgquantile.gate import OPINIONS, counted
from gfs.forecasting.orgquantile.liveliness import Liveliness
from gfs.forecasting.orgquantile.rise import Booleans

KEPT = 3 * WEEK_HOURS
"""Hours whose scores calibrate."""
COMPARED = 2 * WEEK_HOURS
"""Hours over which the gate compares opinions."""
RECENT = WEEK_HOURS
"""Hours whose scores count once more on their own."""
RENEWED = 6
"""Calibration is renewed at every hour that is a multiple of this."""
ALARM_HOURS, ALARM_MISSES, ALARM_BOUND = 6, 3, 0.95
"""A series whose next-hour bound was exceeded so often within such a span may have shifted its level."""
CAPPED_SCORES = 72
"""From so many scores on no bound lies further above the middle than demand has been."""
ALARM_LASTS = 24
"""Hours for which that is remembered; by then the profile of the day begins to know the new level."""


def replay_hours(horizon: int) -> int:
    """How far back a track must begin."""
    return COMPARED + KEPT + WEEK_HOURS + 2 * horizon + ALARM_HOURS + ALARM_LASTS + RENEWED


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Forecasts of consecutive origins and what came in those hours; the last origin has not come yet."""

    made: tuple[Bands, ...]
    came: tuple[Floats, ...]
    totals: dict[tuple[tuple[int, ...], int], Scores] = field(default_factory=dict)
    """Scores of sums that were asked for already: one forecast may be asked for many probabilities."""

    def peak_scores(self, hours: int) -> Scores:
        """Of the highest demand of so many hours, per series."""
        done = self._done(hours)
        if not len(done):
            return Scores.empty(self.made[0].sheet.shape[2])
        made = Bands(np.stack([self.made[i].sheet[:, :hours] for i in done], axis=1))
        return Scores.collected(peak_score(made, _highest(self._came(done, hours), hours), hours).T)

    def total_peak_scores(self, series: list[int], hours: int) -> Scores:
        """Of the highest sum of these series in so many hours: one target. Series not yet there count 0."""
        asked = (tuple(series), hours)
        if asked not in self.totals:
            self.totals[asked] = self._total_peak_scores(series, hours)
        return self.totals[asked]

    def _total_peak_scores(self, series: list[int], hours: int) -> Scores:
        done = self._done(hours)
        if not len(done):
            return Scores.empty(1)
        made = Bands(np.stack([self.made[i].sheet[:, :hours, series] for i in done], axis=1))
        middle, width = total_peak(made)
        top = _highest(self._came(done, hours)[:, series].sum(axis=1), hours)
        scores = np.full((1, len(done)), np.inf)
        np.divide(top - middle, width, out=scores[0], where=width > 0)
        return Scores.collected(scores)

    def _came(self, done: range, hours: int) -> Floats:
        """What came in the hours that these origins spoke of: hours x series."""
        return np.stack(self.came[done[0] : done[-1] + hours])

    def _done(self, hours: int) -> range:
        """The origins, by place, whose next hours are over."""
        end = len(self.made) - hours
        return range(max(end - KEPT, 0), max(end, 0))


def _highest(came: Floats, hours: int) -> Floats:
    """The highest of so many hours from each one on."""
    count = len(came) - hours + 1
    highest: Floats = np.maximum.reduce([came[ahead : ahead + count] for ahead in range(hours)])
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
    middle: Floats = (bands.middle * bands.there).sum(axis=-1).max(axis=-1)
    width: Floats = np.sqrt(((bands.width * bands.there).max(axis=-2) ** 2).sum(axis=-1))
    return middle, width


class Track:
    """The forecasts of some series up to an origin, their scores and the losses of the opinions.

    Scores and losses of an hour stand at its place in a ring, so those that no longer count are overwritten.
    """

    def __init__(self, series: int, horizon: int) -> None:
        self.horizon = horizon
        self.scores: Calibration = Scores.empty(series)
        self.peaks = Scores.empty(series)
        self.furthest = np.full(series, np.inf)
        """Per series: GPUs above the middle that no bound lies beyond."""
        self._stretch = np.ones(series)
        self.losses = np.zeros((OPINIONS, horizon, series), dtype=np.int64)
        self.alarmed = np.zeros(series, dtype=bool)
        """Per series: whether bounds were exceeded often in the last day."""
        self._made: deque[Bands] = deque(maxlen=KEPT + horizon)
        self._came: deque[Floats] = deque(maxlen=KEPT + horizon - 1)
        self._kept_scores = np.full((series, KEPT, horizon), np.inf, dtype=SCORE)
        self._kept_excess = np.full((series, KEPT, horizon), -np.inf, dtype=SCORE)
        self._kept_peaks = np.full((series, KEPT), np.inf, dtype=SCORE)
        self._liveliness = Liveliness(series)
        self._kept_losses = np.zeros((COMPARED, *self.losses.shape), dtype=np.int64)
        self._alarm_reach = self.scores.reach(ALARM_BOUND, NORMAL_CURVE)
        self._next_bound: Floats = np.zeros(series)
        self._misses: deque[Booleans] = deque(maxlen=ALARM_HOURS)
        self._last_alarm = np.full(series, -np.inf)

    def advance(self, mixture: Mixture, window: Floats, value: Floats, hour: int, history: DemandHistory) -> None:
        """The hour begins: score what was forecast for the one before, which had this value; then forecast."""
        if self._made:
            self._came.append(value)
            self._watch(value, hour)
            self._score(value, hour)
        if hour % RENEWED == 0:
            self._renew(hour)
        bands = mixture.bands(self.known(window), hour, history, self.horizon)
        self._made.append(bands)
        self._next_bound = bands.middle[0] + bands.width[0] * self._alarm_reach

    def _renew(self, hour: int) -> None:
        """What the scores so far say, for the next hours."""
        series = len(self.furthest)
        recent = self._kept_scores[:, (hour - np.arange(RECENT)) % KEPT]
        long = Scores.collected(self._kept_scores.reshape(series, -1))
        self.scores = Weighed(long, Scores.collected(recent.reshape(series, -1)))
        self.peaks = Scores.collected(self._kept_peaks)
        self._alarm_reach = self.scores.reach(ALARM_BOUND, NORMAL_CURVE)
        furthest = self._kept_excess.max(axis=(1, 2), initial=0.0).astype(np.float64)
        self._stretch = self._liveliness.stretch(hour)
        self.furthest = np.where(long.known >= CAPPED_SCORES, furthest, np.inf)

    def known(self, window: Floats) -> Known:
        """What the forecast of now rests on, with the window before it."""
        return Known(window, self.losses, self._stretch)

    def bands(self) -> Bands:
        """Of the hours from the one that begins."""
        return self._made[-1]

    def past(self) -> Past:
        """A view of what is written down, which does not change any more."""
        return Past(tuple(self._made), tuple(self._came))

    def _watch(self, value: Floats, hour: int) -> None:
        self._misses.append(value > self._next_bound + self._made[-1].unscored[0])
        often = np.add.reduce(self._misses, dtype=np.int64) >= ALARM_MISSES
        self._last_alarm[often] = hour
        self.alarmed = self._last_alarm >= hour - ALARM_LASTS

    def _score(self, value: Floats, hour: int) -> None:
        made = [self._made[-1 - ahead] for ahead in range(min(self.horizon, len(self._made)))]
        due = Bands(np.stack([bands.sheet[:, ahead] for ahead, bands in enumerate(made)], axis=1))
        excess = value - due.middle
        score = excess / due.width + due.unscored
        self._kept_scores[:, hour % KEPT, : len(made)] = score.T
        self._kept_excess[:, hour % KEPT, : len(made)] = (excess - due.unscored).T
        self._liveliness.note(hour, excess / due.fitted + due.unscored)
        error = np.abs((value - due.anchor) / due.unit - due.opinions)
        losses = self._kept_losses[hour % COMPARED]
        self.losses = self.losses - losses
        losses[:, : len(made)] = np.where(due.there > 0, counted(error), 0)
        self.losses += losses
        if len(made) == self.horizon:
            top = np.maximum.reduce([self._came[-1 - ahead] for ahead in range(self.horizon)])
            self._kept_peaks[:, hour % KEPT] = peak_score(made[-1], top, self.horizon)
