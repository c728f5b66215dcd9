"""A state saved under one quota goes on under any other: parts count from the state what they did not watch.

A scheduler lives through all 30 changes from one quota to another. Each time its state is saved and loaded into a
scheduler with the next quota, which has not seen what happened before. Tasks come, finish, are lost and cancelled,
starts fail, nodes fail and come back. After every instant the parts must know what the state says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from builders import nodes
from gfs import SCHEDULERS, Parameters, Priority, Task
from gfs.assembly.parameters import QUOTAS
from gfs.assembly.schedulers import build_scheduler
from gfs.assembly.snapshot import load_state, save_state
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
)
from gfs.core.invariants import check_state
from gfs.core.scheduler import Scheduler
from gfs.core.state import PoolState
from gfs.domain.units import HOUR
from gfs.forecasting.meter import DemandMeter
from gfs.policies.gfs.reservation import Reservation
from gfs.quota.waits import SpotWaits

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
INSTANTS = 14
"""Between two changes, a quarter of an hour each: every quota has time to look ahead, and to fit its forecaster."""
SPECS = nodes(4, 4, 2)


def every_change() -> Iterator[str]:
    """Quotas in an order in which each follows each of the others once."""
    left = {(one, other) for one in QUOTAS for other in QUOTAS if one != other}
    path = [QUOTAS[0]]
    while left:  # Hierholzer: every quota is left as often as it is entered, so a walk ends where it began
        start = next(i for i, here in enumerate(path) if any(one == here for one, _ in left))
        loop = [path[start]]
        while ahead := sorted(other for one, other in left if one == loop[-1]):
            left.remove((loop[-1], ahead[0]))
            loop.append(ahead[0])
        path[start : start + 1] = loop
    yield from path


def test_every_change_is_made_once() -> None:
    walk = list(every_change())
    assert len(walk) == 31
    assert len(set(pairwise(walk))) == 30


class Cluster:
    """Three nodes and what happens there."""

    def __init__(self, name: str, quota: str, file: Path) -> None:
        self.name, self.file = name, file
        self.random = Random(7)
        self.scheduler = self.build(quota)
        self.tasks = 0
        self.now = 0.0
        self.happened: Counter[str] = Counter()

    def build(self, quota: str) -> Scheduler:
        numbers = Parameters(
            quota=quota,
            quota_share=0.6,
            forecaster="seasonal-24",
            history_hours=1.0,
            retrain_hours=2.0,
            starvation_timeout=3600.0,
        )
        return build_scheduler(self.name, SPECS, numbers, period=7200.0, guarantees=(1.0, 2.0), check=True)

    def change(self, quota: str) -> None:
        """Save, and go on under another quota."""
        save_state(self.scheduler, self.file, now=self.now, name=self.name)
        self.scheduler = self.build(quota)
        load_state(self.scheduler, self.file, name=self.name)
        self.check()

    @property
    def state(self) -> PoolState:
        return self.scheduler.pools["A100"].state

    def step(self) -> None:
        self.now += 900.0
        events: list[Any] = [Tick(), *(Submitted(self.task()) for _ in range(self.random.choice([0, 1, 1, 2, 4])))]
        events += [EvictionDone(run) for run in self.state.leaving if self.random.random() < 0.8]
        for run in list(self.state.runs.values()):
            ends = [Finished, Lost, StartFailed, Cancelled]
            if self.random.random() < 0.4 and run not in self.state.pending:
                end = self.random.choice(ends)
                events.append(Cancelled(run.task) if end is Cancelled else end(run))
                self.happened[end.__name__] += 1
        for waiting in list(self.state.waiting.values()):
            if self.random.random() < 0.15:
                events.append(Cancelled(waiting.task))
                self.happened["withdrawn"] += 1
        if self.random.random() < 0.2:
            kind, node = self.random.choice(list(NodeChangeKind)), self.random.choice(SPECS)
            events.append(NodesChanged([NodeChange(kind, node)]))
            self.happened[kind.value] += 1
        plan = self.scheduler.handle(self.now, events)
        self.happened["started"] += len(plan.starts)
        self.check()

    def task(self) -> Task:
        random, index = self.random, self.tasks
        self.tasks += 1
        return Task(
            index, f"t{index}", random.choice(["lab", "shop", f"new{index // 50}"]), "A100",
            random.choice(list(Priority)), random.choice([1, 1, 2]), random.choice([0.5, 1.0, 2.0, 4.0]), self.now,
            guarantee_hours=random.choice([1.0, 2.0]),
        )  # fmt: skip

    def check(self) -> None:
        """What parts know is what the state says, counted here by hand."""
        state = self.state
        check_state(state)
        waits = [each for each in state.waiting.values() if each.task.is_spot]
        for tell in state.listeners.submitted:
            match tell.__self__:  # type: ignore[attr-defined]
                case DemandMeter() as meter:
                    wanted: Counter[str] = Counter()
                    for task in (*(r.task for r in state.runs.values()), *(w.task for w in state.waiting.values())):
                        wanted[task.organization] += 0 if task.is_spot else task.micro
                    level = dict(zip((key.organization for key in meter.keys), meter.level(), strict=True))
                    assert {name: gpus for name, gpus in level.items() if gpus} == {
                        name: micro / 1e6 for name, micro in wanted.items() if micro
                    }
                    self.happened["demand"] += 1
                case SpotWaits() as kept:
                    for hours in (1.0, 2.0):
                        longest = max((self.now - w.since for w in waits if w.task.guarantee_hours >= hours), default=0)
                        assert kept.longest(hours, self.now) >= longest
                        if hours == 2.0 and not kept._ended:
                            assert kept.longest(hours, self.now) == longest
                case Reservation() as reservation:
                    task = reservation.task
                    assert task is None or state.waiting[task.index].since == reservation.reserved.since
        for row in self.scheduler.pools["A100"].policy.quota.rows():
            assert 0 <= row.quota <= 10
            assert ceil(row.guarantee_hours) <= 4


@every_scheduler
def test_a_state_goes_on_under_any_other_quota(scheduler: str, tmp_path: Path) -> None:
    first, *others = every_change()
    cluster = Cluster(scheduler, first, tmp_path / "state")
    for quota in (first, *others):
        if cluster.tasks:
            cluster.change(quota)
        for _ in range(INSTANTS):
            cluster.step()
    assert cluster.now == 31 * INSTANTS * HOUR / 4
    assert all(cluster.happened[what] > 10 for what in ("Finished", "Lost", "StartFailed", "Cancelled", "withdrawn"))
    assert cluster.happened["demand"] > 150
    assert cluster.happened["started"] > 100
    assert all(cluster.happened[kind.value] for kind in NodeChangeKind)
