"""What is read off a series to forecast it: differences from its last value, in units of its usual change.

The anchor is the last known value a. The unit u is the mean absolute change from hour to hour in the last 168
hours, or in those known of a younger series, at least a small share of the mean demand of those hours. Features of
demand are (something known - a) / u, so neither the size of an organization nor its restlessness matters, and
after a level shift the forecast starts from where demand is. Before its first record a series counts as having had
its first value. The day of the week is that of the hour forecast; the hour of the day is no feature, because every
hour has coefficients of its own.

Some features are bent (positive part, tanh): demand returns to its daily profile otherwise from far away than from
near, and a jump says something else than a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats, Ints

Single = npt.NDArray[np.float32]
"""Single precision is enough for features, and takes half the time."""

LOOK_BACK = 4 * WEEK_HOURS + DAY_HOURS
"""Hours of history that count: the same hour four weeks ago, seen from up to a day ahead."""
FURTHEST = DAY_HOURS
"""Hours ahead for which the same hour of yesterday is known; further ones repeat the last day."""
SMALLEST_UNIT_SHARE = 0.004
"""Of mean demand: the unit of a series that hardly moves."""
SMALLEST_DEMAND = 0.5
"""GPUs: what counts as mean demand when there is less."""
FEWEST_CHANGES = 12
"""A mean of changes counts at least so many, those before the first record being 0."""
LARGEST = 64.0
"""Features are cut at so many units: a series that wakes up must not send a linear model anywhere."""

SHORT_LAGS = np.array([2, 3, 4, 5, 6, 8, 12, 18])
DAYS_BACK = np.array([1, 2, 3, 4, 5, 6, 7, 14, 21, 28])
MEAN_HOURS = (6, 24, 72, WEEK_HOURS)
ORDERED_HOURS = 3
"""The lowest, middle and highest of so many hours tell a spike from a step."""
WEEK_WAVES = np.array([1, 2])
_JUMPS = np.array([[1.0], [2.0]])
"""Units: a jump beyond them counts hardly more than one of so many, in one hour and in three."""

_LAGS, _DAYS, _LEVELS = len(SHORT_LAGS), len(DAYS_BACK), len(MEAN_HOURS) + 4 + ORDERED_HOURS
_AVERAGES = np.stack([DAYS_BACK <= 7, DAYS_BACK > 0, DAYS_BACK % 7 == 0]).astype(np.float64)
_AVERAGES /= _AVERAGES.sum(axis=1, keepdims=True)
"""Means x days back: over the last week, all days, the same weekday."""

_STEPS = slice(1, 1 + _LAGS)
_LEVEL = slice(_STEPS.stop, _STEPS.stop + _LEVELS)
_RESTLESS = slice(_LEVEL.stop, _LEVEL.stop + 2)
_BENT = slice(_RESTLESS.stop, _RESTLESS.stop + 4)
_THEN = slice(_BENT.stop, _BENT.stop + _DAYS)
_MOVES = slice(_THEN.stop, _THEN.stop + _DAYS)
_PROFILE = slice(_MOVES.stop, _MOVES.stop + 12)
_CALENDAR = slice(_PROFILE.stop, _PROFILE.stop + 2 * len(WEEK_WAVES) + 1)
COUNT = _CALENDAR.stop
"""Number of features; the slices say where they are."""
PER_HOUR = slice(_THEN.start, _PROFILE.stop)
"""Those of demand that are others for every hour ahead."""


def calendar_of(hours: Ints, weekdays: Ints) -> Floats:
    """Where in the week these hours (hours ahead x columns) are: sin and cos of 1 and 2 turns a week, and weekend.

    Hours ahead x features x columns.
    """
    turns = (weekdays * DAY_HOURS + hours % DAY_HOURS) / WEEK_HOURS
    angle = 2 * np.pi * turns[:, None, :] * WEEK_WAVES[:, None]
    return np.concatenate([np.sin(angle), np.cos(angle), (weekdays >= 5)[:, None, :]], axis=1)


@cache
def calendar_from(hour: int, weekday: int, hours: int) -> Floats:
    """The same of the hours from this hour of this weekday on, for all columns."""
    coming = hour + np.arange(hours, dtype=np.int64)[:, None]
    return calendar_of(coming, (weekday + coming // DAY_HOURS) % 7)


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What is known at some origins, one a column."""

    values: Single
    """Hours ahead x features x columns; the first feature is the constant 1."""
    anchor: Floats
    """Per column: the last value."""
    unit: Floats
    """Per column: GPUs that the features and the forecast offsets are counted in."""
    share: Floats
    """Per column: the unit as share of usual demand."""


def padded(history: DemandHistory, since: int) -> Floats:
    """Demand from hour `since` on, be it before the history; before its first record a series has that value."""
    column = since - history.start
    begin = np.minimum(history.first, max(history.hours - 1, 0))
    value = history.gpus[np.arange(len(begin)), begin] if history.hours else np.zeros(len(begin))
    known = history.gpus[:, max(column, 0) :]
    late = begin > column
    if column < 0:
        known = np.concatenate([np.zeros((len(begin), -column)), known], axis=1)
    if late.any():
        early = np.arange(column, history.hours)[None, :] < begin[:, None]
        known = np.where(early, value[:, None], known)
    return known


@cache
def _rows(hours: int) -> Ints:
    """Where to look: short lags; on earlier days the same hour as the last one, and as the ones forecast."""
    ahead = np.arange(hours) % FURTHEST
    then = ahead[:, None] - DAY_HOURS * DAYS_BACK[None, :]
    return LOOK_BACK + np.concatenate([-SHORT_LAGS, -1 - DAY_HOURS * DAYS_BACK, then.ravel()])


def features_of(window: Floats, ages: Ints, calendar: Floats, hours: int) -> Features:
    """The features of some origins from the LOOK_BACK hours before each of them (LOOK_BACK x columns).

    `ages` are hours since the first record, per column.
    """
    columns = window.shape[1]
    anchor, week, day = window[-1], window[-WEEK_HOURS:], window[-DAY_HOURS:]
    change = np.abs(week - window[-WEEK_HOURS - 1 : -1])
    looked_up = _rows(hours)
    known = np.empty((len(looked_up) + _LEVELS + 2, columns))
    known[: len(looked_up)] = window[looked_up]
    levels, restless = known[-_LEVELS - 2 : -2], known[-2:]
    for place, span in enumerate(MEAN_HOURS):
        levels[place] = np.add.reduce(week[-span:]) / span
    for place, hours_back in ((4, day), (6, week)):
        np.minimum.reduce(hours_back, out=levels[place])
        np.maximum.reduce(hours_back, out=levels[place + 1])
    levels[8:] = np.sort(window[-ORDERED_HOURS:], axis=0)
    usual = np.maximum(np.maximum(levels[1], levels[3]), SMALLEST_DEMAND)
    restless[0] = np.add.reduce(change[-DAY_HOURS:]) / np.minimum(np.maximum(ages, FEWEST_CHANGES), DAY_HOURS)
    restless[1] = np.add.reduce(change) / np.minimum(np.maximum(ages, FEWEST_CHANGES), WEEK_HOURS)
    unit = np.maximum(restless[1], SMALLEST_UNIT_SHARE * usual)
    known[:-2] -= anchor
    known /= unit
    np.minimum(np.maximum(known, -LARGEST, out=known), LARGEST, out=known)

    values = np.empty((hours, COUNT, columns), dtype=np.float32)
    values[:, 0] = 1.0
    values[:, _STEPS] = known[:_LAGS]
    values[:, _LEVEL] = levels
    values[:, _RESTLESS] = restless
    jumps = known[[0, 2]]  # in the last hour, in the last three hours
    values[:, _BENT] = np.concatenate([np.maximum(jumps, 0.0), np.tanh(jumps / _JUMPS)])
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
    profile[:, 7] = near * restless[0]  # how lively the last day was
    profile[:, 8:10] = profile[:, :2] * restless[0]
    profile[:, 10:] = _averages(np.abs(moves), 2)
    return Features(values, anchor, unit, unit / usual)


def _averages(days: Floats, count: int) -> Floats:
    """Over the last week, over all days, over the same weekday: hours ahead x days back x columns."""
    averages: Floats = np.matmul(_AVERAGES[:count], days)
    return averages
