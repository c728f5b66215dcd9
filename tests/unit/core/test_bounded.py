"""A long life in one scheduler: what it keeps does not grow with what has been.

Steady load for eleven weeks, an hour a step: tasks come, finish, are evicted, lost and cancelled, nodes fail and
come back. Every day there is an organization that is gone the next day, and every fourth task has a guarantee that
nobody else has. Sizes are counted once a day, and compared when all that has a memory is full: demand is remembered for
28 days and a week more before it is pruned, evictions for a day, guarantees for as long as they last. After that
nodes stay as they are, for what is derived would be built anew.
"""

from __future__ import annotations

import itertools
from collections import deque
from heapq import heappop, heappush
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import pytest

from builders import nodes
from gfs import Parameters, Priority, Task
from gfs.assembly.codec import pack
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import (
    Cancelled,
    EvictionDone,
    Finished,
    Lost,
    NodeChange,
    NodeChangeKind,
    NodesChanged,
    StartFailed,
    Submitted,
    Tick,
    Wake,
)
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.domain.units import DAY, HOUR
from gfs.forecasting.meter import DemandRecord

WARM, DAYS = 45, 75
LIVES = [
    ("gfs", "none"),
    ("gfs", "weekly-peak"),
    ("gfs-plus", "none"),
    ("gfs-plus", "weekly-peak"),
    ("lyra", "none"),
    ("fgd", "none"),
    ("chronus", "none"),
    ("static", "fixed"),
]


def count(root: Any) -> int:
    """Everything that can be reached from an object: entries of containers, fields, numbers of arrays."""
    seen: set[int] = set()
    queue = deque([root])
    total = 0
    while queue:
        each = queue.pop()
        if isinstance(each, type | ModuleType | BuiltinFunctionType | str | bytes | int | float | None):
            continue
        if id(each) in seen:
            continue
        seen.add(id(each))
        parts: list[Any] = []
        if isinstance(each, np.ndarray):
            total += each.size
        elif isinstance(each, dict):
            parts = [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset | deque):
            parts = list(each)
        elif isinstance(each, FunctionType):
            parts = [cell.cell_contents for cell in each.__closure__ or ()]
        elif isinstance(each, MethodType):
            parts = [each.__self__, each.__func__]
        else:
            parts = list(getattr(each, "__dict__", {}).values())
            for kind in type(each).__mro__:
                slots = getattr(kind, "__slots__", ())
                parts += [getattr(each, name, None) for name in ((slots,) if isinstance(slots, str) else slots)]
        total += 1 + len(parts)
        queue.extend(parts)
    return total


class Life:
    """Eleven weeks in a small cluster, the same every time."""

    def __init__(self, scheduler: str, quota: str) -> None:
        # Whom the quota never lets start would wait for ever, and rightly be kept: such tasks are withdrawn.
        numbers = Parameters(
            quota=quota, quota_share=0.5, history_days=28.0, history_hours=1000.0, starvation_timeout=7200.0
        )
        self.scheduler: Scheduler = build_scheduler(
            scheduler, nodes(8, 8, 4, 4), numbers, period=7200.0, guarantees=(1.0, 2.0), look_back=30 * DAY
        )
        self.random = Random(5)
        self.tasks = 0
        self.sequence = itertools.count()
        self.due: list[tuple[float, int, Any]] = []
        """When, in which order, and what will happen."""
        self.happened: dict[str, int] = {}
        self.objects: list[int] = []
        self.bytes: list[int] = []

    def live(self) -> None:
        for hour in range(24 * DAYS):
            self.pass_until(hour * HOUR)
            self.tell(hour * HOUR, [Tick(), *self.news(hour)])
            if hour % 24 == 23:
                self.objects.append(sum(count(pool) for pool in self.scheduler.pools.values()))
                facts = {model: pool.state.facts() for model, pool in self.scheduler.pools.items()}
                self.bytes.append(len(pack(facts)[0]))

    def pass_until(self, now: float) -> None:
        while self.due and self.due[0][0] <= now:
            when, _, event = heappop(self.due)
            self.tell(when, [event])

    def tell(self, now: float, events: list[Any]) -> None:
        plan = self.scheduler.handle(now, events)
        for eviction in plan.evictions:
            self.note("evicted")
            if not eviction.keeps_progress:
                self.later(now + 25, EvictionDone(eviction.run))
        for run in plan.starts:
            self.note("started")
            self.later(run.start + self.random.choice([600, 3000, 9000, 20000]), self.end_of(run))
        if plan.wake < float("inf"):
            self.later(plan.wake, Wake())

    def end_of(self, run: Run) -> Any:
        kind = self.random.choice([Finished, Finished, Finished, Finished, Lost, Cancelled])
        if run.start == 0 and kind is Lost:
            return StartFailed(run)
        return Cancelled(run.task) if kind is Cancelled else kind(run)

    def later(self, when: float, event: Any) -> None:
        heappush(self.due, (when, next(self.sequence), event))

    def note(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    def news(self, hour: int) -> list[Any]:
        """More HP tasks by day than by night, some tasks for which no node is left, and a node that fails."""
        events: list[Any] = []
        random, now = self.random, hour * HOUR
        for _ in range(2 if hour % 24 < 12 else 1):
            kind = Priority.HP if random.random() < (0.6 if hour % 24 < 12 else 0.1) else Priority.SPOT
            task = Task(
                self.tasks, f"t{self.tasks}", random.choice(["lab", "shop", f"visitor {hour // 24}"]), "A100", kind,
                random.choice([1, 1, 2]), random.choice([0.5, 1.0, 2.0, 4.0, 8.0]), now,
                guarantee_hours=random.choice([1.0, 1.0, 2.0, 1.0 + self.tasks / 5000]),
            )  # fmt: skip
            self.tasks += 1
            events.append(Submitted(task))
            self.later(now + 12 * HOUR + 1, Cancelled(task))
        if hour % 50 in (7, 9) and hour < 24 * (WARM - 10):
            kinds = {7: NodeChangeKind.FAILED, 9: NodeChangeKind.REPAIRED}
            events.append(NodesChanged([NodeChange(kinds[hour % 50], nodes(8, 8, 4, 4)[hour // 50 % 4])]))
        return events


@pytest.mark.parametrize(("scheduler", "quota"), LIVES)
def test_a_long_life_keeps_no_more_than_a_short_one(
    scheduler: str, quota: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Combinations of scores that have been met are remembered, up to a number that is here met early.
    monkeypatch.setattr("gfs.core.index.MOST_BUCKETS", 64)
    monkeypatch.setattr("gfs.policies.gfs.scoring.MOST_COMBINATIONS", 64)
    life = Life(scheduler, quota)
    life.live()
    assert life.happened["started"] > 1000
    assert life.happened.get("evicted", 0) > 20 or quota == "weekly-peak"
    state = life.scheduler.pools["A100"].state
    if quota == "weekly-peak":
        assert len(state.memory[DemandRecord].rows) <= 2 + 28 + 8, "those of the last 28 days, and of a week more"
    assert len(state.pool.spot_in_use) <= len(state.runs)
    for sizes in (life.objects, life.bytes):
        early, late = sizes[WARM : (WARM + DAYS) // 2], sizes[(WARM + DAYS) // 2 :]
        # What happens to wait differs from day to day by a third; over 300 days the mean stays within a tenth.
        assert sum(late) / len(late) <= 1.25 * sum(early) / len(early), f"it grows: {sizes[::5]}"
        assert max(late) <= 1.5 * max(early), f"it grows: {sizes[::5]}"


def test_the_walker_finds_what_grows() -> None:
    """Behind slots, closures and bound methods as well."""

    class Slotted:
        __slots__ = ("kept",)

        def __init__(self, kept: list[int]) -> None:
            self.kept = kept

        def ask(self) -> list[int]:
            return self.kept

    def closure(kept: list[int]) -> Any:
        return lambda: kept

    for make in (Slotted, closure, lambda kept: Slotted(kept).ask, lambda kept: {1: deque([kept])}, np.array):
        assert count(make([0.5] * 1000)) - count(make([0.5] * 10)) == 990
