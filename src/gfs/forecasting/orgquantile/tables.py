"""What there is to learn from: features and outcomes of every origin of every series, one series at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Ints, SeriesKey
from gfs.forecasting.orgquantile.features import LOOK_BACK, Single, calendar_of, features_of, padded

KEEP_ROWS = 40_000
"""Tables with more rows together are made anew whenever they are asked for, to save memory."""

SETTLING_PART = 4
"""One in so many hours of a short history is not learned from."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Origins of one series."""

    key: SeriesKey
    every: int
    """One of so many origins is there."""
    origins: Ints
    """Numbers of the hours that begin."""
    x: Single
    """Hours ahead x features x origins."""
    y: Single
    """Hours ahead x origins: what came, as offset from the anchor in units. At the end of the history, where it
    has not come yet, the last value stands in; nobody may learn from that."""
    share: Single
    """Per origin: the unit as share of usual demand."""


class Tables:
    """The tables of a history, thinned to about `most` rows.

    The first week of a series is left out, of one younger than four weeks the first quarter: there most of what
    the features look back to is not known.
    """

    def __init__(self, history: DemandHistory, horizon: int, most: int) -> None:
        self.horizon = horizon
        self._history = history
        self._every, self._columns = [], []
        for first in history.first:
            columns = np.arange(first + settling(history.hours - int(first)), history.hours)
            self._every.append(max(1, -(-len(columns) // most)))
            self._columns.append(columns[thinned(history.start + columns, self._every[-1])])
        self.rows = sum(len(columns) for columns in self._columns)
        self._kept = list(self._made()) if self.rows <= KEEP_ROWS else None

    def __iter__(self) -> Iterator[Table]:
        return iter(self._kept) if self._kept is not None else self._made()

    def _made(self) -> Iterator[Table]:
        history, ahead = self._history, np.arange(self.horizon)[:, None]
        for row, columns in enumerate(self._columns):
            if not len(columns):
                continue
            series = padded(history.only([row]), history.start - LOOK_BACK)[0]
            hours = history.start + columns + ahead
            windows = sliding_window_view(series, LOOK_BACK)[columns].T
            ages = columns - history.first[row]
            features = features_of(windows, ages, calendar_of(hours, history.weekday_of(hours)), self.horizon)
            came = series[LOOK_BACK + np.minimum(columns + ahead, history.hours - 1)]
            y = ((came - features.anchor) / features.unit).astype(np.float32)
            share = features.share.astype(np.float32)
            yield Table(history.keys[row], self._every[row], history.start + columns, features.values, y, share)


def settling(age: int) -> int:
    """Hours after its first record from which on a series of this age is learned from."""
    return min(WEEK_HOURS, age // SETTLING_PART)


def thinned(origins: Ints, every: int) -> Ints:
    """Where one of so many origins is: every day other hours, so that all hours of the day are there as often."""
    return np.flatnonzero((origins % DAY_HOURS + origins // DAY_HOURS) % every == 0)
