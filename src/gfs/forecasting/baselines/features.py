"""What trees are told of a series: differences from its last value, in shares of its mean demand of the week.

One row per series, origin and hour ahead. A tree cannot extrapolate, so neither the size of an organization nor
the level of its demand may matter; it bends and combines features by itself, so each is told only once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats, Ints, hour_of_day

LOOK_BACK = 4 * WEEK_HOURS + DAY_HOURS
"""Hours of history that count: the same hour four weeks ago, seen from up to a day ahead."""
SMALLEST_DEMAND = 0.5
"""GPUs: what counts as mean demand when there is less."""

LAGS = np.array([2, 3, 4, 5, 6, 8, 12, 18])
DAYS_BACK = np.array([1, 2, 3, 4, 5, 6, 7, 14, 21, 28])
MEAN_HOURS = (6, DAY_HOURS, 72, WEEK_HOURS)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What is known at some origins: rows x hours ahead x features."""

    values: Floats
    anchor: Floats
    """Per row: the last value."""
    unit: Floats
    """Per row: GPUs that features and forecasts are counted in."""


def rows_of(window: Floats, history: DemandHistory, origins: Ints, hours: int) -> Rows:
    """The features of some origins (numbers of hours) from the LOOK_BACK hours before each of them."""
    count = len(window)
    anchor = window[:, -1]
    week = window[:, -WEEK_HOURS:]
    day = week[:, -DAY_HOURS:]
    means = np.stack([week[:, -span:].mean(axis=1) for span in MEAN_HOURS], axis=1)
    unit = np.maximum(means[:, -1], SMALLEST_DEMAND)
    extremes = np.stack([day.min(axis=1), day.max(axis=1), week.min(axis=1), week.max(axis=1)], axis=1)
    levels = np.concatenate([window[:, -LAGS], means, extremes], axis=1) - anchor[:, None]
    change = np.abs(np.diff(week, axis=1))
    restless = np.stack([change[:, -DAY_HOURS:].mean(axis=1), change.mean(axis=1), week.std(axis=1)], axis=1)
    still = np.concatenate([levels, restless], axis=1) / unit[:, None]

    ahead = np.arange(hours)
    then = window[:, (ahead % DAY_HOURS)[:, None] - DAY_HOURS * DAYS_BACK] - anchor[:, None, None]
    before = window[:, -1 - DAY_HOURS * DAYS_BACK] - anchor[:, None]
    moves = then - before[:, None, :]
    profile = np.stack([then[..., :7].mean(axis=2), moves[..., :7].mean(axis=2), moves.mean(axis=2)], axis=2)
    moving = np.concatenate([then, moves, profile], axis=2) / unit[:, None, None]

    coming = origins[:, None] + ahead
    further = np.broadcast_to(ahead, coming.shape)
    clock = np.stack([hour_of_day(coming), history.weekday_of(coming), further], axis=2)
    same = np.broadcast_to(still[:, None, :], (count, hours, still.shape[1]))
    return Rows(np.concatenate([same, moving, clock], axis=2), anchor, unit)
