"""One timed simulation, without reading, writing and metrics."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import gfs
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import EVICT, START, Record
from gfs.domain.units import DAY
from gfs.simulator.engine import Engine

T = TypeVar("T", bound=tuple[object, ...] | float)


class Measured(NamedTuple):
    """One simulation."""

    seconds: float
    """CPU seconds."""
    events: int
    pods: int
    """Pods that were started."""
    evictions: int


def simulate(
    workload: gfs.Workload, scheduler: str, days: float, quota: str = "fixed", forecaster: str = ""
) -> Measured:
    """Run one simulation; its entries are dropped, so that the next finds memory."""
    parameters = gfs.Parameters(quota=quota, **({"forecaster": forecaster} if forecaster else {}))
    built = build_scheduler(scheduler, workload.nodes, parameters, period=days * DAY)
    entries: list[Record] = []
    engine = Engine(workload, built, entries.append, rules=parameters.rules)
    before = time.process_time()
    engine.run()
    seconds = time.process_time() - before
    pods = sum(task.pods for _, event, task, _, _ in entries if event == START)
    evictions = sum(event == EVICT for _, event, _, _, _ in entries)
    return Measured(seconds, len(entries), pods, evictions)


def least(repeat: int, measure: Callable[[], T]) -> T:
    """The quickest of several measurements: noise only ever adds time."""
    results = []
    for _ in range(repeat):
        gc.collect()
        results.append(measure())
    return min(results)
