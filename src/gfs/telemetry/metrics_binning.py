"""Averages over equal stretches of time, by exact integration of what runs when."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def time_average(
    start: Floats,
    end: Floats,
    weight: Floats,
    *,
    origin: float,
    width: float,
    bins: int,
    group: Ints | None = None,
    groups: int = 1,
) -> Floats:
    """Average total weight running in each bin, per group: an array of shape (groups, bins).

    Bin b covers [origin + b*width, origin + (b+1)*width). An interval that starts at t in bin b adds
    weight * (end of b - t) there and weight * width to every later bin; its end takes the same away.
    """
    if group is None:
        group = np.zeros(len(start), np.int64)
    cells = groups * (bins + 1)
    partial = np.zeros(cells)
    step = np.zeros(cells)
    for moment, sign in ((start, 1.0), (end, -1.0)):
        offset = np.clip((moment - origin) / width, 0.0, float(bins))
        into = np.minimum(offset.astype(np.int64), bins)  # bin `bins` is outside: what falls there is dropped
        cell = group * (bins + 1) + into
        partial += np.bincount(cell, sign * weight * (into + 1 - offset), cells)
        step += np.bincount(cell, sign * weight, cells)
    steps = step.reshape(groups, bins + 1)
    before = np.cumsum(steps, axis=1) - steps
    average: Floats = (partial.reshape(groups, bins + 1) + before)[:, :bins]
    average[np.abs(average) < 1e-9] = 0.0  # what rounding leaves of shares that cancel
    return average
