"""Series as a network sees them: by mean and deviation, in windows of one length, with the calendar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats, Ints, SeriesKey, hour_of_day
from gfs.forecasting.orglinear.estimator import YOUNG
from gfs.forecasting.orglinear.units import scale_of

Singles = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

CALENDAR = ("day_sin", "day_cos", "week_sin", "week_cos")
"""What a network is told of every hour, those to forecast too."""


def changes(history: DemandHistory) -> Bools:
    """Which series have ever changed since their first record. One that has not has no scale."""
    known = np.arange(history.hours)[None, :] >= history.first[:, None]
    top = np.where(known, history.gpus, -np.inf).max(axis=1, initial=-np.inf)
    bottom = np.where(known, history.gpus, np.inf).min(axis=1, initial=np.inf)
    changed: Bools = top > bottom
    return changed


def last_values(history: DemandHistory) -> Floats:
    """The last value of each series; 0 without any."""
    return history.gpus[:, -1] if history.hours else np.zeros(len(history.keys))


@dataclass(frozen=True, slots=True, eq=False)
class Scales:
    """Mean and standard deviation of each series that the network was trained on."""

    of_key: dict[SeriesKey, tuple[float, float]]

    @classmethod
    def learnt(cls, history: DemandHistory) -> Scales:
        """Of the series that have changed."""
        mean, spread = scale_of(history)
        rows = np.flatnonzero(changes(history))
        return cls({history.keys[row]: (float(mean[row]), float(spread[row])) for row in rows})

    def of(self, history: DemandHistory) -> tuple[Floats, Floats, Bools]:
        """Mean, spread, and whether there is any: a series that is new has the scale of its own hours so far."""
        mean, spread = scale_of(history)
        scaled = changes(history)
        for row, key in enumerate(history.keys):
            if key in self.of_key:
                mean[row], spread[row] = self.of_key[key]
                scaled[row] = True
        return mean, spread, scaled


def calendar_of(history: DemandHistory, hours: Ints) -> Singles:
    """Where these hours are in the day and in the week, as waves: hours x CALENDAR."""
    of_day = hour_of_day(hours)
    day = 2 * np.pi * of_day / DAY_HOURS
    week = 2 * np.pi * (history.weekday_of(hours) * DAY_HOURS + of_day) / WEEK_HOURS
    return np.stack([np.sin(day), np.cos(day), np.sin(week), np.cos(week)], axis=1).astype(np.float32)


def window_of(history: DemandHistory, mean: Floats, spread: Floats, window: int) -> Singles:
    """The last hours of each series, standardised; before its first record a series has that value."""
    known = history.padded(history.end - window)
    scaled: Singles = ((known - mean[:, None]) / spread[:, None]).astype(np.float32)
    return scaled


class Cases:
    """All windows to learn from, each with the hours that came after it."""

    def __init__(self, history: DemandHistory, scales: Scales, window: int, horizon: int) -> None:
        mean, spread, _ = scales.of(history)
        since = history.start - window
        scaled = ((history.padded(since) - mean[:, None]) / spread[:, None]).astype(np.float32)
        self._values = sliding_window_view(scaled, window + horizon, axis=1)
        hours = np.arange(since, history.end)
        self._calendar = sliding_window_view(calendar_of(history, hours), window + horizon, axis=0)
        last = history.hours - horizon
        learnt = [row for row, key in enumerate(history.keys) if key in scales.of_key]
        origins = [np.arange(max(int(history.first[row]) + YOUNG, 1), last + 1) for row in learnt]
        self._series = np.repeat(np.array(learnt, dtype=np.int64), [len(columns) for columns in origins])
        self._origin = np.concatenate([*origins, np.empty(0, np.int64)]).astype(np.int64)

    def __len__(self) -> int:
        return len(self._series)

    def take(self, places: Ints) -> tuple[Singles, Singles]:
        """Values (cases x hours) and calendar (cases x hours x CALENDAR) of windows and what came after them."""
        series, origin = self._series[places], self._origin[places]
        return self._values[series, origin], self._calendar[origin].swapaxes(1, 2)
