"""Past forecasts and how they turned out, kept up hour by hour.

At every origin (an hour that begins) the bands of the next hours are written down. When an hour is over, the
forecasts made for it are scored. Only the last `KEPT` hours count, in forecasts that the gate made from the
`COMPARED` hours before them; so a track that begins `replay_hours` back is, by now, the same to the last bit as an
older one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gfs.forecasting.history import WEEK_HOURS, DemandHistory, Floats, Ints
from gfs.forecasting.orgquantile.bands import Bands, Mixture
from gfs.forecasting.orgquantile.calibration import NORMAL_CURVE, SCORE, Scores, Single
from gfs.forecasting.orgquantile.gate import OPINIONS, counted

Booleans = npt.NDArray[np.bool_]

KEPT = 3 * WEEK_HOURS
"""Hours whose scores calibrate."""
COMPARED = 2 * WEEK_HOURS
"""Hours over which the gate compares opinions."""
RENEWED = 6
"""Calibration is renewed at every hour that is a multiple of this."""
ALARM_HOURS, ALARM_MISSES, ALARM_BOUND = 6, 3, 0.95
"""A series whose next-hour bound was exceeded so often within such a span may have shifted its level."""
ALARM_LASTS = 24
"""Hours for which that is remembered; by then the profile of the day begins to know the new level."""


def replay_hours(horizon: int) -> int:
    """How far back a track must begin."""
    return COMPARED + KEPT + 2 * horizon + ALARM_HOURS + ALARM_LASTS + RENEWED


class Record(NamedTuple):
    """What was forecast at one origin, and for which series: those that had a first record by then."""

    bands: Bands
    exists: Floats
    """0 for a series known by then, infinity for others: added to a score, it makes it no score."""


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Forecasts of consecutive origins and what came in those hours; the last origin has not come yet."""

    records: tuple[Record, ...]
    came: tuple[Floats, ...]

    def peak_scores(self, hours: int) -> Scores:
        """Of the highest demand of so many hours, per series."""
        done = self._done(hours)
        if not len(done):
            return Scores.empty(self.records[0].exists.shape)
        rows = [peak_score(self.records[i], np.max(self.came[i : i + hours], axis=0), hours) for i in done]
        return Scores.collected(np.stack(rows, axis=1))

    def total_peak_scores(self, rows: list[int], hours: int) -> Scores:
        """Of the highest sum of these series in so many hours: one target. Series not yet there count 0."""
        done = self._done(hours)
        if not len(done):
            return Scores.empty(())
        there = np.stack([self.records[i].exists[rows] == 0 for i in done])[:, :, None]
        middles = np.stack([self.records[i].bands.middle[rows, :hours] for i in done]) * there
        widths = np.stack([self.records[i].bands.width[rows, :hours] for i in done]) * there
        sums = np.array([self.came[i][rows].sum() for i in range(done[0], done[-1] + hours)])
        tops = np.max([sums[k : k + len(done)] for k in range(hours)], axis=0)
        middle, width = middles.sum(axis=1).max(axis=1), np.sqrt((widths.max(axis=2) ** 2).sum(axis=1))
        known = width > 0
        return Scores.collected((tops[known] - middle[known]) / width[known]) if known.any() else Scores.empty(())

    def _done(self, hours: int) -> range:
        """The origins, by place, whose next hours are over."""
        end = len(self.records) - hours
        return range(max(end - KEPT, 0), max(end, 0))


def peak(bands: Bands, hours: int) -> tuple[Floats, Floats]:
    """Middle and width of the highest demand: the highest middle, and from there to the highest bound."""
    middle = bands.middle[:, :hours].max(axis=1)
    return middle, (bands.middle + bands.width)[:, :hours].max(axis=1) - middle


def peak_score(record: Record, top: Floats, hours: int) -> Floats:
    """How many widths the highest demand was above its middle."""
    middle, width = peak(record.bands, hours)
    score: Floats = (top - middle) / width + record.exists
    return score


def total_peak(bands: Bands, rows: list[int], hours: int) -> tuple[float, float]:
    """Middle and width of the highest sum of the hours, as if errors of the series were independent."""
    middle = float(bands.middle[rows, :hours].sum(axis=0).max())
    width = float(np.sqrt((bands.width[rows, :hours].max(axis=1) ** 2).sum()))
    return middle, width


class Track:
    """The forecasts of some series up to an origin, their scores and the losses of the opinions."""

    def __init__(self, series: int, horizon: int) -> None:
        self.horizon = horizon
        self.scores = Scores.empty((series, horizon))
        self.peaks = Scores.empty((series,))
        self.losses = np.zeros((OPINIONS, series, horizon), dtype=np.int64)
        self._records: deque[Record] = deque(maxlen=KEPT + horizon)
        self._came: deque[Floats] = deque(maxlen=KEPT + horizon - 1)
        self._kept_scores: deque[Single] = deque(maxlen=KEPT)
        self._kept_peaks: deque[Single] = deque(maxlen=KEPT)
        self._kept_losses: deque[Ints] = deque(maxlen=COMPARED)
        self._alarm_reach = self._nearest_reach()
        self._next_bound: Floats = np.zeros(series)
        self._misses: deque[Booleans] = deque(maxlen=ALARM_HOURS + ALARM_LASTS)

    def advance(self, mixture: Mixture, window: Floats, value: Floats, hour: int, history: DemandHistory) -> None:
        """The hour begins: score what was forecast for the one before, which had this value; then forecast."""
        if self._records:
            self._score(value)
        bands = mixture.bands(window, self.losses, hour, history, self.horizon)
        exists = np.where(history.start + history.first < hour, 0.0, np.inf)
        self._records.append(Record(bands, exists))
        if hour % RENEWED == 0 and self._kept_scores:
            self.scores = Scores.collected(np.stack(self._kept_scores, axis=-1))
            self.peaks = Scores.collected(np.stack(self._kept_peaks, axis=-1))
            self._alarm_reach = self._nearest_reach()
        self._next_bound = bands.middle[:, 0] + bands.width[:, 0] * self._alarm_reach

    def _nearest_reach(self) -> Floats:
        return Scores(self.scores.ordered[:, 0], self.scores.known[:, 0]).reach(ALARM_BOUND, NORMAL_CURVE)

    def alarmed(self) -> Booleans:
        """Per series: whether bounds were exceeded that often in the last day."""
        if not self._misses:
            return np.zeros(len(self.peaks.known), dtype=bool)
        until = np.cumsum([np.zeros(len(self.peaks.known)), *self._misses], axis=0)
        span = min(ALARM_HOURS, len(self._misses))
        alarmed: Booleans = (until[span:] - until[:-span]).max(axis=0) >= ALARM_MISSES
        return alarmed

    def bands(self) -> Bands:
        """Of the hours from the one that begins."""
        return self._records[-1].bands

    def past(self) -> Past:
        """A view of what is written down, which does not change any more."""
        return Past(tuple(self._records), tuple(self._came))

    def _score(self, value: Floats) -> None:
        self._came.append(value)
        self._misses.append(value > self._next_bound + self._records[-1].exists)
        score = np.full((len(value), self.horizon), np.inf, dtype=SCORE)
        losses = np.zeros_like(self.losses)
        for ahead in range(min(self.horizon, len(self._records))):
            bands, exists = self._records[-1 - ahead]
            score[:, ahead] = (value - bands.middle[:, ahead]) / bands.width[:, ahead] + exists
            error = np.abs((value - bands.anchor) / bands.unit - bands.opinions[:, :, ahead])
            losses[:, :, ahead] = np.where(exists == 0, counted(error), 0)
        top = np.full(len(value), np.inf, dtype=SCORE)
        if len(self._records) >= self.horizon:
            highest = np.max([self._came[-1 - ahead] for ahead in range(self.horizon)], axis=0)
            top = peak_score(self._records[-self.horizon], highest, self.horizon).astype(SCORE)
        self._kept_scores.append(score)
        self._kept_peaks.append(top)
        self.losses = self.losses + losses
        if len(self._kept_losses) == COMPARED:
            self.losses -= self._kept_losses[0]
        self._kept_losses.append(losses)
