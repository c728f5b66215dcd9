"""What is read off a series to forecast it: differences from its last value, in units of its usual change.

The anchor is the last known value a. The unit u is the mean absolute change from hour to hour in the last 168
hours, at least a small share of the mean demand of those hours. Features of demand are (something known - a) / u,
so neither the size of an organization nor its restlessness matters, and after a level shift the forecast starts
from where demand is. Before its first record a series counts as having had its first value. Hours of day and week
are those of the hour forecast.

Some features are bent (positive part, tanh): demand returns to its daily profile otherwise from far away than from
near, and a jump says something else than a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats, Ints

LOOK_BACK = 4 * WEEK_HOURS + DAY_HOURS
"""Hours of history that count: the same hour four weeks ago, seen from up to a day ahead."""
FURTHEST = DAY_HOURS
"""Hours ahead for which the same hour of yesterday is known; further ones repeat the last day."""
SMALLEST_UNIT_SHARE = 0.004
"""Of mean demand: the unit of a series that hardly moves."""
SMALLEST_DEMAND = 0.5
"""GPUs: what counts as mean demand when there is less."""
LARGEST = 64.0
"""Features are cut at so many units: a series that wakes up must not send a linear model anywhere."""

SHORT_LAGS = np.array([2, 3, 4, 5, 6, 8, 12, 18])
DAYS_BACK = np.array([1, 2, 3, 4, 5, 6, 7, 14, 21, 28])
MEAN_HOURS = (6, 24, 72, WEEK_HOURS)
WAVES = np.array([1, 2, 3])
WEEK_WAVES = np.array([1, 2])

_LAST_WEEK = slice(0, 7)
_SAME_WEEKDAY = np.array([6, 7, 8, 9])
"""Where DAYS_BACK are whole weeks."""


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """Hour of day and week of the hours forecast, as waves: rows (or 1) x hours ahead x waves."""

    day: Floats
    """sin and cos of 1, 2, 3 turns a day."""
    calendar: Floats
    """All that depends on the calendar alone: day and week waves, weekend, weekend x day waves."""


def clock_of(hours: Ints, weekdays: Ints) -> Clock:
    """The waves of these hours (rows x hours ahead), whose weekdays are given too."""
    day = _waves(hours % DAY_HOURS / DAY_HOURS, WAVES)
    week = _waves((weekdays * DAY_HOURS + hours % DAY_HOURS) / WEEK_HOURS, WEEK_WAVES)
    weekend = (weekdays >= 5)[..., None].astype(np.float64)
    return Clock(day, np.concatenate([day, week, weekend, weekend * day], axis=-1))


@cache
def clock_from(hour: int, weekday: int, hours: int) -> Clock:
    """The waves of the hours from this hour of this weekday on, the same for all rows."""
    coming = hour + np.arange(hours, dtype=np.int64)[None, :]
    return clock_of(coming, (weekday + coming // DAY_HOURS) % 7)


def _waves(turns: Floats, waves: Ints) -> Floats:
    angle = 2 * np.pi * turns[..., None] * waves
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What is known at some origins, one a row."""

    values: Floats
    """Rows x hours ahead x features; the first feature is the constant 1."""
    anchor: Floats
    """Per row: the last value."""
    unit: Floats
    """Per row: GPUs that the features and the forecast offsets are counted in."""


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
def _columns(hours: int) -> Ints:
    """Where to look: short lags; on earlier days the same hour as the last one, and as the ones forecast."""
    ahead = np.arange(hours) % FURTHEST
    then = ahead[:, None] - DAY_HOURS * DAYS_BACK[None, :]
    return np.concatenate([-SHORT_LAGS, -1 - DAY_HOURS * DAYS_BACK, then.ravel()])


def features_of(window: Floats, clock: Clock, hours: int) -> Features:
    """The features of some origins from the LOOK_BACK hours before each of them (rows x LOOK_BACK)."""
    rows = len(window)
    anchor = window[:, -1]
    week = window[:, -WEEK_HOURS:]
    change = np.abs(np.diff(window[:, -WEEK_HOURS - 1 :], axis=1))
    day_change, week_change = change[:, -DAY_HOURS:].mean(axis=1), change.mean(axis=1)
    means = np.stack([week[:, -span:].mean(axis=1) for span in MEAN_HOURS], axis=1)
    usual = np.maximum(np.maximum(means[:, 1], means[:, 3]), SMALLEST_DEMAND)
    unit = np.maximum(week_change, SMALLEST_UNIT_SHARE * usual)

    day = week[:, -DAY_HOURS:]
    extremes = np.stack([day.min(axis=1), day.max(axis=1), week.min(axis=1), week.max(axis=1)], axis=1)
    known = np.concatenate([window[:, _columns(hours)], means, extremes], axis=1)
    known -= anchor[:, None]
    known /= unit[:, None]
    np.minimum(np.maximum(known, -LARGEST, out=known), LARGEST, out=known)
    lags, days = len(SHORT_LAGS), len(DAYS_BACK)
    steps, before, levels = known[:, :lags], known[:, lags : lags + days], known[:, -len(MEAN_HOURS) - 4 :]
    then = known[:, lags + days : lags + days + hours * days].reshape(rows, hours, days)
    restless = np.minimum(np.stack([day_change, week_change], axis=1) / unit[:, None], LARGEST)
    step, three_hours = steps[:, 0], steps[:, 2]
    bent = [np.maximum(step, 0), np.maximum(three_hours, 0), np.tanh(step), np.tanh(three_hours / 2)]
    still = np.concatenate([np.ones((rows, 1)), steps, levels, restless, np.stack(bent, axis=1)], axis=1)

    moves = then - before[:, None, :]
    gap, move = then[..., _LAST_WEEK].mean(axis=2), moves[..., _LAST_WEEK].mean(axis=2)
    today = restless[:, :1]  # how lively the last day was
    profile = [
        gap,
        move,
        moves.mean(axis=2),
        moves[..., _SAME_WEEKDAY].mean(axis=2),
        np.maximum(gap, 0),
        np.sign(gap) * np.sqrt(np.abs(gap)),
        np.tanh(gap / 3),
        np.tanh(gap / 3) * today,
        gap * today,
        move * today,
    ]
    waves = clock.day[..., [0, 1, 3, 4]]
    moving = np.concatenate(
        [
            then,
            moves,
            np.stack(profile, axis=2),
            gap[..., None] * waves,
            move[..., None] * waves,
            step[:, None, None] * clock.day[..., [0, 3]],
            np.broadcast_to(clock.calendar, (rows, hours, clock.calendar.shape[-1])),
        ],
        axis=2,
    )
    same = np.broadcast_to(still[:, None, :], (rows, hours, still.shape[1]))
    return Features(np.concatenate([same, moving], axis=2), anchor, unit)


COUNT = features_of(
    np.ones((1, LOOK_BACK)), clock_of(np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1), dtype=np.int64)), 1
).values.shape[2]
"""Number of features."""
