"""Which task runs how long.

Requests and running times are each as published; how they go together sets the load. Only the pairing is
chosen here, never a request or a running time: large tasks run shorter or longer on the whole, as much
as is needed for the GPU-seconds that the pool is to be asked for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gfs.workloads.durations import Floats
from gfs.workloads.rhythms import longer_by_day

_SPREAD = 2.0
"""Standard deviation of the log of a running time: (ln 3600 - ln 1100) / 0.58 for the published quantiles."""


def pick_long_tasks(
    gpus: Floats, durations: Floats, largest: float, target: float | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The tasks that run for these long `durations`, in the same order: at most `largest` GPUs each.

    Tasks are drawn with a weight of `gpus ** power`; of many powers the one is taken that brings
    the GPU-seconds nearest to `target` (None: power 0).
    """
    able = np.flatnonzero(gpus <= largest)
    count = min(len(durations), len(able))
    if not count:
        return np.empty(0, np.int64)
    luck = rng.gumbel(size=len(able))
    shuffle = rng.permutation(count)
    logs = np.log(gpus[able])
    best, best_error = np.empty(0, np.int64), np.inf
    for power in np.linspace(-2.5, 4.0, 131) if target is not None else (0.0,):
        keys = luck + power * logs
        chosen = np.sort(np.argpartition(-keys, count - 1)[:count])
        picked = able[chosen[shuffle]]
        error = abs(float(gpus[picked] @ durations[:count]) - (target or 0.0))
        if error < best_error:
            best, best_error = picked, error
    return best


def pair_durations(
    gpus: Floats, submit: Floats, durations: Floats, window: float, target: float | None, rng: np.random.Generator
) -> Floats:
    """Give each task one of the ascending `durations`; GPU-seconds inside the window meet `target`.

    Tasks get them in the order of `chance - strength * log2(gpus) + longer by day`; the strength is found by
    bisection (None: 0). Tasks submitted in working hours run longer, as published.
    """
    base = rng.standard_normal(len(gpus)) + longer_by_day(submit) / _SPREAD
    logs = np.log2(np.maximum(gpus, 0.25))
    room = window - submit

    def order_for(strength: float) -> NDArray[np.int64]:
        return np.argsort(base - strength * logs, kind="stable")

    def asked(order: NDArray[np.int64]) -> float:
        return float(gpus[order] @ np.minimum(durations, room[order]))

    order = order_for(0.0)
    if target is not None:
        low, high = -2.0, 2.0
        for _ in range(22):
            middle = (low + high) / 2
            order = order_for(middle)
            low, high = (middle, high) if asked(order) > target else (low, middle)
    paired = np.empty(len(gpus))
    paired[order] = durations
    return paired
