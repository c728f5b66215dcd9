"""When users submit: the daily and weekly rhythms, of all together and of each organization."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gfs.domain.task import Priority
from gfs.domain.units import DAY, HOUR
from gfs.workloads.calibration import figures

Floats = NDArray[np.float64]

HOURS_A_WEEK = 168
CLOSING = 24 * HOUR
CLOSING_SHORTEST, CLOSING_LONGEST = 5 * HOUR, 14 * HOUR
"""Which tasks end by the clock: those of an afternoon or a working day."""


def arrivals(count: int, window: float, priority: Priority, rng: np.random.Generator) -> Floats:
    """`count` submission times, whole seconds in [0, window): the published shape of the day and the week."""
    hours = np.arange(int(np.ceil(window / HOUR)))
    length = np.minimum(window - hours * HOUR, HOUR)
    cumulative = np.concatenate([[0.0], np.cumsum(_hour_of_week_rate(priority)[hours % HOURS_A_WEEK] * length)])
    place = rng.random(count) * cumulative[-1]
    edges = np.concatenate([hours * HOUR, [window]])
    times: Floats = np.minimum(np.floor(np.interp(place, cumulative, edges)), np.ceil(window) - 1)
    return times


def longer_by_day(submit: Floats) -> Floats:
    """Log of how much more work than on average a task submitted at this hour is (published GPU-seconds a job)."""
    day = figures()["hour_of_day"]
    logs = np.log(np.asarray(day["gpu_seconds"]) / np.asarray(day["jobs"]))
    hour = (submit // HOUR).astype(np.int64) % 24
    return np.asarray((logs - logs.mean())[hour], dtype=np.float64)


def until_closing_time(
    submit: Floats, duration: Floats, share: float, window: float, rng: np.random.Generator
) -> Floats:
    """`submit`, with a share of the tasks of some hours moved so that they end shortly before midnight.

    The published demand falls by a tenth and more in that hour, every day.
    """
    moved = (duration >= CLOSING_SHORTEST) & (duration <= CLOSING_LONGEST) & (rng.random(len(submit)) < share)
    end = (submit // DAY) * DAY + CLOSING - rng.random(len(submit)) * HOUR / 2
    begin = np.floor(end - duration)
    return np.where(moved & (begin >= 0) & (begin < window), begin, submit)


def hour_of_week(submit: Floats) -> NDArray[np.int64]:
    """The hour of the week, 0 to 167, that each time lies in."""
    return (submit // HOUR).astype(np.int64) % HOURS_A_WEEK


def _hour_of_week_rate(priority: Priority) -> Floats:
    """Relative arrival rate in each of the 168 hours of a week, mean 1. Time 0 is midnight, day 0."""
    day = np.asarray(figures()["hour_of_day"]["jobs"], dtype=np.float64)
    week = np.asarray(figures()["day_of_week"]["jobs"][priority.label], dtype=np.float64)
    rate = np.outer(week / week.mean(), day / day.mean()).ravel()
    return np.asarray(rate / rate.mean(), dtype=np.float64)


def activity(rank: int) -> Floats:
    """Relative activity of the organization of this rank over the week: one of five habits, each shifted.

    The rhythms of single organizations are not published; that they differ is.
    """
    hour = np.arange(HOURS_A_WEEK)
    day_of_week, hour_of_day = hour // 24, hour % 24
    weekend = np.isin(day_of_week, (0, 1))  # the two quietest days of the published week
    shift = (rank * 5) % 7 - 3
    wave = np.cos(2 * np.pi * (hour_of_day - shift - 15) / 24)
    habit: NDArray[np.float64]
    match rank % 5:
        case 0:  # office hours, quiet weekends
            habit = (1 + 0.5 * wave) * np.where(weekend, 0.7, 1.0)
        case 1:  # a service: the same around the clock
            habit = np.ones(HOURS_A_WEEK)
        case 2:  # batches at night
            habit = 1 - 0.7 * wave
        case 3:  # works at the weekend as well, and more then
            habit = (1 + 0.3 * wave) * np.where(weekend, 1.8, 1.0)
        case _:  # two days a week stand out
            habit = (1 + 0.4 * wave) * np.where(np.isin(day_of_week, (rank % 7, (rank + 3) % 7)), 2.5, 1.0)
    return habit


def window_seconds(days: float) -> float:
    """A number of days as whole seconds."""
    return float(round(days * DAY))
