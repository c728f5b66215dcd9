"""A long life: what one scheduler object remembers does not grow with the tasks it has seen."""

from __future__ import annotations

import gc
import heapq
import pickle
import random
from itertools import count
from types import FunctionType, ModuleType
from typing import Any

import pytest

from gfs import Kind, NodeSpec, Parameters, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import Cancelled, EvictionDone, Finished, Submitted, Tick
from gfs.core.scheduler import Scheduler
from gfs.domain.units import DAY, HOUR

QUOTAS = {
    "gfs": "open-loop",
    "gfs-plus": "adaptive",
    "lyra": "none",
    "fgd": "none",
    "chronus": "none",
    "static": "fixed",
}
DAYS = 150
EACH_HOUR = 2
"""Tasks of 1.7 GPUs and three hours: about 10 of the 24 cards, so that even a cautious quota has room."""


def objects_reachable(root: object) -> int:
    """Objects that a scheduler holds on to, without classes, modules and code."""
    seen: set[int] = set()
    ahead = [root]
    while ahead:
        thing = ahead.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType):
            continue
        seen.add(id(thing))
        ahead.extend(gc.get_referents(thing))
    return len(seen)


def live(name: str) -> list[tuple[int, int]]:
    """(bytes of all facts, objects in all) in the middle and at the end of a life with a steady load."""
    specs = [NodeSpec(i, f"n{i}", "A100", 8) for i in range(3)]
    # Models are fitted once in a while: what they learn from is bounded, how they train is not the matter here.
    parameters = Parameters(
        quota=QUOTAS[name], forecaster="persistence", aggregate="independent", p=0.5, history_days=28.0,
        retrain_hours=240.0, tick=HOUR, spot_lease=HOUR, hp_lease=4 * HOUR,
    )  # fmt: skip
    scheduler = build_scheduler(name, specs, parameters, period=30 * DAY, look_back=30 * DAY)
    chance, order, index = random.Random(1), count(), 0
    heap: list[tuple[float, int, Any]] = []
    seen: list[tuple[int, int]] = []
    for hour in range(24 * DAYS):
        now = hour * HOUR
        events: list[Any] = [Tick()]
        while heap and heap[0][0] <= now:
            event = heapq.heappop(heap)[2]
            if isinstance(event, EvictionDone) or event.run.alive:
                events.append(event)
        for _ in range(EACH_HOUR):
            task = _task(index, now, chance)
            events.append(Submitted(task))
            index += 1
            if chance.random() < 0.02:
                events.append(Cancelled(task))
        plan = scheduler.handle(now, events)
        for eviction in plan.evictions:
            heapq.heappush(heap, (now, next(order), EvictionDone(eviction.run)))
        for run in plan.starts:
            heapq.heappush(heap, (now + chance.expovariate(1 / (3 * HOUR)), next(order), Finished(run)))
        if hour in (24 * DAYS // 2, 24 * DAYS - 1):
            seen.append(measured(scheduler))
    assert index == 24 * DAYS * EACH_HOUR
    return seen


def measured(scheduler: Scheduler) -> tuple[int, int]:
    pool = scheduler.pools["A100"]
    assert len(pool.state.waiting) < 60, "the load must be one that the cluster can carry"
    return len(pickle.dumps(pool.state.facts())), objects_reachable(pool.policy)


def _task(index: int, now: float, chance: random.Random) -> Task:
    kind = Kind.SPOT if chance.random() < 0.2 else Kind.HP
    gpus = chance.choice([0.3, 1.0, 1.0, 2.0, 4.0])
    hours = chance.choice([1.0, 4.0])
    return Task(index, f"t{index}", f"org-{index % 4}", "A100", kind, 1, gpus, now, guarantee_hours=hours)


@pytest.mark.parametrize("name", sorted(QUOTAS))
def test_what_a_scheduler_keeps_does_not_grow(name: str) -> None:
    # After 75 days all that looks back (a day, a week, 28 and 30 days) is full. Another 75 days, 3,600 tasks,
    # may add what happens to wait or run just then: some dozens of tasks of about ten objects and 200 bytes each.
    (bytes_then, objects_then), (bytes_now, objects_now) = live(name)
    assert bytes_now < 1.25 * bytes_then + 20_000
    assert objects_now < 1.25 * objects_then + 1_500
