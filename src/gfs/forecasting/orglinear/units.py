"""What a window is measured in (series are standardised): from its last value, in units of its own.

    unit of the window     u = sqrt(standard deviation of the series x rms change from hour to hour, last week)
    unit of an hour ahead  sqrt(u x rms change to that hour from the last value, at this time of the day before)

A series at another level than in training, or livelier, looks to the linear maps like any other; at a time of the
day when little happens they foretell little.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats, Ints

SMALL = 0.01
"""A series varies by at least this share of its mean, and by this many GPUs."""


def scale_of(history: DemandHistory) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each series since its first record."""
    known = np.arange(history.hours)[None, :] >= history.first[:, None]
    count = np.maximum(known.sum(axis=1), 1)
    mean = np.where(known, history.gpus, 0.0).sum(axis=1) / count
    variance = np.where(known, (history.gpus - mean[:, None]) ** 2, 0.0).sum(axis=1) / count
    return mean, np.maximum(np.sqrt(variance), SMALL * np.maximum(mean, 1.0))


def units_of(windows: Floats, known: Ints, scale: tuple[Floats, Floats], horizon: int) -> tuple[Floats, Floats]:
    """The unit of each window, and of each hour ahead of it.

    Windows are cases x hours, filled with the first record before it; `known` says how many hours of each are
    records. The time of day counts one day more than is known, on which the change was `u`.
    """
    mean, spread = scale
    hours = windows.shape[1]
    steps = np.diff(windows[:, -WEEK_HOURS - 1 :], axis=1)
    change = np.sqrt(np.square(steps).sum(axis=1) / np.clip(known - 1, 1, WEEK_HOURS))
    unit: Floats = np.sqrt(spread * np.maximum(change, SMALL * np.maximum(mean, 1.0)))
    days = (hours - 1) // DAY_HOURS
    seen = np.minimum(known // DAY_HOURS, days)
    before = windows[:, hours - 1 - days * DAY_HOURS : hours - 1 : DAY_HOURS]
    ahead = np.empty((len(windows), horizon))
    for hour in range(horizon):
        begin = hours - days * DAY_HOURS + min(hour, DAY_HOURS - 1)
        after = windows[:, begin::DAY_HOURS][:, :days]
        usual = np.sqrt((np.square(after - before).sum(axis=1) + unit**2) / (seen + 1))
        ahead[:, hour] = np.sqrt(unit * usual)
    return unit, ahead


def windows_of(gpus: Floats, first: Ints, window: int) -> Floats:
    """Series x origins x hours: the window before every hour and before the next; nothing is copied.

    Before the first record stands what it says.
    """
    hours = gpus.shape[1]
    if not hours:
        return np.zeros((len(gpus), 1, window))
    column = np.minimum(first, hours - 1)
    begin = gpus[np.arange(len(gpus)), column][:, None]
    known = np.where(np.arange(hours)[None, :] >= first[:, None], gpus, begin)
    padded = np.concatenate([np.repeat(begin, window, axis=1), known], axis=1)
    return sliding_window_view(padded, window, axis=1)
