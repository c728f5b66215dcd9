"""Keep what HP tasks ask for at one time within the pool.

Large gangs that happen to fall together would ask for more cards than there are. Users of a guaranteed class
have quotas and would have come at another time: such a task gets another submission time of the same rhythm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gfs.workloads.durations import Floats

Bools = NDArray[np.bool_]

_SLOT = 300.0
_TRIES = 64


def level(
    submit: Floats,
    duration: Floats,
    gpus: Floats,
    movable: Bools,
    limit: float,
    redraw: Callable[[], Floats],
) -> Floats:
    """`submit`, with tasks moved until no five minutes ask for more than `limit` GPUs.

    At the worst moment the largest movable task goes elsewhere, to one of the times that `redraw` proposes.
    A task that fits nowhere stays.
    """
    submit = submit.copy()
    first, last = _slots(submit, duration)
    change = np.zeros(int(last.max(initial=0)) + 2)
    np.add.at(change, first, gpus)
    np.add.at(change, last, -gpus)
    demand = np.cumsum(change)
    able = movable.copy()
    while demand.max() > limit:
        worst = int(demand.argmax())
        there = np.flatnonzero(able & (first <= worst) & (last > worst))
        if not len(there):
            break
        task = there[np.argmax(gpus[there])]
        able[task] = False  # moved once at most, so this ends
        demand[first[task] : last[task]] -= gpus[task]
        for proposed in redraw()[:_TRIES]:
            begin, end = _slots(np.asarray([proposed]), duration[task : task + 1])
            if end[0] <= len(demand) and demand[begin[0] : end[0]].max() + gpus[task] <= limit:
                submit[task], first[task], last[task] = proposed, begin[0], end[0]
                break
        demand[first[task] : last[task]] += gpus[task]
    return submit


def _slots(submit: Floats, duration: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First slot of each task and the one after its last."""
    return (submit // _SLOT).astype(np.int64), np.ceil((submit + duration) / _SLOT).astype(np.int64)
