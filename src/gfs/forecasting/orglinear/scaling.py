"""How windows are standardised: as differences from their last value, divided by a scale of their own.

    scale of the window     s = sqrt(standard deviation of the series x rms change from hour to hour, last week)
    scale of an hour ahead  sqrt(s x rms change to that hour from the last value, at this time of the day before)

So a series at another level than in training, or more volatile, looks like any other to the linear maps; at a time of
the day when little changes they forecast little change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats, Ints, SeriesKey

SMALL = 0.01
"""A series is taken to vary by at least this share of its mean, and by this many GPUs."""


def series_scale(history: DemandHistory) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each series since its first record."""
    known = np.arange(history.hours)[None, :] >= history.first[:, None]
    count = np.maximum(known.sum(axis=1), 1)
    mean = np.where(known, history.gpus, 0.0).sum(axis=1) / count
    variance = np.where(known, (history.gpus - mean[:, None]) ** 2, 0.0).sum(axis=1) / count
    return mean, np.maximum(np.sqrt(variance), SMALL * np.maximum(mean, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class SeriesScales:
    """Mean and standard deviation of each series that a model was fitted on."""

    of_key: dict[SeriesKey, tuple[float, float]]

    @classmethod
    def learned(cls, history: DemandHistory) -> SeriesScales:
        """From the history of the fit."""
        mean, spread = series_scale(history)
        return cls(dict(zip(history.keys, zip(mean.tolist(), spread.tolist(), strict=True), strict=True)))

    def of(self, history: DemandHistory) -> tuple[Floats, Floats]:
        """The scale of the fit; for a series that is new since, its own so far."""
        mean, spread = np.array([self.of_key.get(key, (0.0, 0.0)) for key in history.keys]).reshape(-1, 2).T
        new = [row for row, key in enumerate(history.keys) if key not in self.of_key]
        if new:
            mean[new], spread[new] = series_scale(history.only(new))
        return mean, spread


class KnownHours(NamedTuple):
    """How much of each window was recorded."""

    changes: Ints
    """From hour to hour in the last week."""
    days: Ints
    """And one more, on which the change was `s`."""

    @classmethod
    def of(cls, known: Ints, hours: int) -> KnownHours:
        """`known`: how many of the hours of each window are records."""
        changes = np.minimum(np.maximum(known - 1, 1), WEEK_HOURS)
        return cls(changes, np.minimum(known // DAY_HOURS, (hours - 1) // DAY_HOURS) + 1)


def window_scales(
    windows: Floats, known: KnownHours, series: tuple[Floats, Floats], horizon: int
) -> tuple[Floats, Floats]:
    """The scale of each window, and of each hour ahead of it.

    Windows are cases x hours, filled with the first record before it.
    """
    mean, spread = series
    hours = windows.shape[1]
    week = windows[:, -WEEK_HOURS - 1 :]
    steps = week[:, 1:] - week[:, :-1]
    steps *= steps
    change = np.sqrt(np.add.reduce(steps, axis=1) / known.changes)
    scale: Floats = np.sqrt(spread * np.maximum(change, SMALL * np.maximum(mean, 1.0)))
    days = (hours - 1) // DAY_HOURS
    before = windows[:, hours - 1 - days * DAY_HOURS : hours - 1 : DAY_HOURS]
    after = windows[:, hours - days * DAY_HOURS :].reshape(len(windows), days, DAY_HOURS)[:, :, :horizon]
    # Days x hours ahead x cases: the sums over days then run over rows of many numbers.
    moved = np.subtract(after.transpose(1, 2, 0), before.T[:, None, :], order="C")
    moved *= moved
    usual = np.sqrt((np.add.reduce(moved, axis=0) + scale * scale) / known.days)
    ahead = np.sqrt((scale * usual).T, order="C")
    if horizon > DAY_HOURS:
        ahead = ahead[:, np.minimum(np.arange(horizon), DAY_HOURS - 1)]
    return scale, ahead
