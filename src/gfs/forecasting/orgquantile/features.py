"""What is read off a series to forecast it: differences from its last value, in terms of its usual change.

The scale s is the mean absolute change from hour to hour in the last 168 hours, or in those known of a younger
series, at least a small share of the mean demand of those hours. Features of demand are (something known - last
value) / s, so neither the size of an organization nor its volatility matters, and after a level shift the forecast
starts from where demand is. Before its first record a series counts as having had its first value. The day of the
week is that of the hour forecast; the hour of the day is no feature, because every hour has its own coefficients.

Some features are nonlinear (positive part, tanh): demand far from its daily profile returns to it in another way
than demand near it, and a jump means something else than a small step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, Floats, Ints

Single = npt.NDArray[np.float32]
"""Single precision is enough for features, and takes half the time."""

LOOK_BACK = 4 * WEEK_HOURS + DAY_HOURS
"""Hours of history that count: the same hour four weeks ago, seen from up to a day ahead."""
FURTHEST = DAY_HOURS
"""Hours ahead for which the same hour of yesterday is known; further ones repeat the last day."""
SMALLEST_SCALE_SHARE = 0.004
"""Of mean demand: the scale of a series that hardly changes."""
SMALLEST_DEMAND = 0.5
"""GPUs: what counts as mean demand when there is less."""
FEWEST_CHANGES = 12
"""A mean of changes counts at least so many, those before the first record being 0."""
LARGEST = 64.0
"""Features are cut off at so many scales, so that a series that wakes up does not throw off a linear model."""

SHORT_LAGS = np.array([2, 3, 4, 5, 6, 8, 12, 18])
DAYS_BACK = np.array([1, 2, 3, 4, 5, 6, 7, 14, 21, 28])
MEAN_HOURS = (6, 24, 72, WEEK_HOURS)
SORTED_HOURS = 3
"""The lowest, middle and highest of so many hours tell a spike from a step."""
WEEK_WAVES = np.array([1, 2])
_JUMPS = np.array([[1.0], [2.0]])
"""Scales at which the tanh of a jump saturates, in one hour and in three."""

_LAGS, _DAYS, _LEVELS = len(SHORT_LAGS), len(DAYS_BACK), len(MEAN_HOURS) + 4 + SORTED_HOURS
_AVERAGES = np.stack([DAYS_BACK <= 7, DAYS_BACK > 0, DAYS_BACK % 7 == 0]).astype(np.float64)
_AVERAGES /= _AVERAGES.sum(axis=1, keepdims=True)
"""Means x days back: over the last week, all days, the same weekday."""

_STEPS = slice(1, 1 + _LAGS)
_LEVEL = slice(_STEPS.stop, _STEPS.stop + _LEVELS)
_CHANGE = slice(_LEVEL.stop, _LEVEL.stop + 2)
_NONLINEAR = slice(_CHANGE.stop, _CHANGE.stop + 4)
_THEN = slice(_NONLINEAR.stop, _NONLINEAR.stop + _DAYS)
_MOVES = slice(_THEN.stop, _THEN.stop + _DAYS)
_PROFILE = slice(_MOVES.stop, _MOVES.stop + 12)
_CALENDAR = slice(_PROFILE.stop, _PROFILE.stop + 2 * len(WEEK_WAVES) + 1)
COUNT = _CALENDAR.stop
"""Number of features; the slices are their places."""
PER_HOUR = slice(_THEN.start, _PROFILE.stop)
"""Those of demand that are others for every hour ahead."""


def calendar_of(hours: Ints, weekdays: Ints) -> Floats:
    """Sine and cosine of one and two waves a week, and weekend: hours ahead x features x columns."""
    turns = (weekdays * DAY_HOURS + hours % DAY_HOURS) / WEEK_HOURS
    angle = 2 * np.pi * turns[:, None, :] * WEEK_WAVES[:, None]
    return np.concatenate([np.sin(angle), np.cos(angle), (weekdays >= 5)[:, None, :]], axis=1)


@cache
def calendar_from(hour: int, weekday: int, hours: int) -> Floats:
    """The same for the hours from this hour of this weekday on, for all columns."""
    coming = hour + np.arange(hours, dtype=np.int64)[:, None]
    return calendar_of(coming, (weekday + coming // DAY_HOURS) % 7)


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What is known at some origins, one per column."""

    values: Single
    """Hours ahead x features x columns; the first feature is the constant 1."""
    last: Floats
    """Per column: the last value."""
    scale: Floats
    """Per column: GPUs that the features and the forecast offsets are divided by."""
    relative_scale: Floats
    """Per column: the scale as share of usual demand."""


@cache
def _rows(hours: int) -> Ints:
    """Rows of the window: short lags; on earlier days the same hour as the last one, and as those forecast."""
    ahead = np.arange(hours) % FURTHEST
    then = ahead[:, None] - DAY_HOURS * DAYS_BACK[None, :]
    return LOOK_BACK + np.concatenate([-SHORT_LAGS, -1 - DAY_HOURS * DAYS_BACK, then.ravel()])


def features_of(window: Floats, ages: Ints, calendar: Floats, hours: int) -> Features:
    """The features of some origins from the LOOK_BACK hours before each of them (LOOK_BACK x columns).

    `ages` are hours since the first record, per column.
    """
    columns = window.shape[1]
    last, week, day = window[-1], window[-WEEK_HOURS:], window[-DAY_HOURS:]
    change = np.abs(week - window[-WEEK_HOURS - 1 : -1])
    looked_up = _rows(hours)
    known = np.empty((len(looked_up) + _LEVELS + 2, columns))
    known[: len(looked_up)] = window[looked_up]
    levels, change_means = known[-_LEVELS - 2 : -2], known[-2:]
    for place, span in enumerate(MEAN_HOURS):
        levels[place] = np.add.reduce(week[-span:]) / span
    for place, hours_back in ((4, day), (6, week)):
        np.minimum.reduce(hours_back, out=levels[place])
        np.maximum.reduce(hours_back, out=levels[place + 1])
    levels[8:] = np.sort(window[-SORTED_HOURS:], axis=0)
    usual = np.maximum(np.maximum(levels[1], levels[3]), SMALLEST_DEMAND)
    change_means[0] = np.add.reduce(change[-DAY_HOURS:]) / np.minimum(np.maximum(ages, FEWEST_CHANGES), DAY_HOURS)
    change_means[1] = np.add.reduce(change) / np.minimum(np.maximum(ages, FEWEST_CHANGES), WEEK_HOURS)
    scale = np.maximum(change_means[1], SMALLEST_SCALE_SHARE * usual)
    known[:-2] -= last
    known /= scale
    np.minimum(np.maximum(known, -LARGEST, out=known), LARGEST, out=known)

    values = np.empty((hours, COUNT, columns), dtype=np.float32)
    values[:, 0] = 1.0
    values[:, _STEPS] = known[:_LAGS]
    values[:, _LEVEL] = levels
    values[:, _CHANGE] = change_means
    jumps = known[[0, 2]]  # in the last hour, in the last three hours
    values[:, _NONLINEAR] = np.concatenate([np.maximum(jumps, 0.0), np.tanh(jumps / _JUMPS)])
    then = known[_LAGS + _DAYS : -_LEVELS - 2].reshape(hours, _DAYS, columns)
    moves = then - known[_LAGS : _LAGS + _DAYS]
    values[:, _THEN] = then
    values[:, _MOVES] = moves
    values[:, _CALENDAR] = calendar

    profile = values[:, _PROFILE]
    gap = _averages(then, 1)[:, 0]
    near = np.tanh(gap / 3)
    profile[:, 0] = gap
    profile[:, 1:4] = _averages(moves, 3)
    profile[:, 4] = np.maximum(gap, 0.0)
    profile[:, 5] = np.sign(gap) * np.sqrt(np.abs(gap))
    profile[:, 6] = near
    profile[:, 7] = near * change_means[0]  # how volatile the last day was
    profile[:, 8:10] = profile[:, :2] * change_means[0]
    profile[:, 10:] = _averages(np.abs(moves), 2)
    return Features(values, last, scale, scale / usual)


def _averages(days: Floats, count: int) -> Floats:
    """Over the last week, over all days, over the same weekday: hours ahead x days back x columns."""
    averages: Floats = np.matmul(_AVERAGES[:count], days)
    return averages


class RollingWindow:
    """The last LOOK_BACK hours x series in one block of memory: the next hour costs one row, not a copy of them all."""

    def __init__(self, hours: Floats) -> None:
        self._rows = np.empty((3 * LOOK_BACK, hours.shape[1]))
        self._rows[:LOOK_BACK] = hours
        self._end = LOOK_BACK

    def append(self, hour: Floats) -> None:
        """One more hour is over."""
        if self._end == len(self._rows):
            self._rows[:LOOK_BACK] = self._rows[-LOOK_BACK:]
            self._end = LOOK_BACK
        self._rows[self._end] = hour
        self._end += 1

    @property
    def hours(self) -> Floats:
        """The last hours, valid until one more is appended."""
        return self._rows[self._end - LOOK_BACK : self._end]
