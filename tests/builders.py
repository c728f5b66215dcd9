"""Builders for tests that read like stories.

    story = play(
        nodes(8, 8),
        spot("s1", gpus=8, lasting=7200),
        spot("s2", gpus=8, lasting=7200, at=600),
        hp("h1", gpus=8, at=5400, lasting=100),
    )
    assert story.evicted("s2") == [5400]
    assert story.spans("h1") == [(5430, 5530)]

Nodes are called n0, n1, ... in the order given; every run is played with all invariants switched on.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, NamedTuple

import pyarrow.csv

from gfs import NodeEvent, NodeRule, NodeSpec, Parameters, Priority, Role, Task, Workload, simulate
from gfs.assembly.result import RunResult
from gfs.assembly.run import run_simulation
from gfs.core.filters.ports import PortRule
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.core.trial import Trial
from gfs.domain.task import Requests


@dataclass(frozen=True)
class Draft:
    """A task before it has its place in a workload."""

    name: str
    priority: Priority
    gpus: float = 1
    pods: int = 1
    at: float = 0
    lasting: float = 100
    hours: float = 1
    checkpoint: float = 3600
    model: str = "A100"
    org: str = "lab"
    cancelled: float = inf
    """When its owner withdraws it."""
    cpus: float = 0
    """Per pod, like memory."""
    memory: float = 0
    only: tuple[str, ...] = ()
    """Groups of nodes that will do; none: all."""
    earlier: int = 0
    """Runs it had before the scheduler came to know it."""
    roles: tuple[Role, ...] = ()
    """Of pods that differ: then `gpus`, `pods`, `cpus` and `memory` say nothing."""
    topology: str = ""
    """A node label of which all pods share one value."""
    resources: Requests = ()
    """Further ones per pod, such as (("rdma/ib", 1.0),)."""
    ports: tuple[str, ...] = ()
    """Of the host, such as ("TCP/8080",)."""
    urgency: int = 0
    preempts: bool = True

    def task(self, index: int = 0) -> Task:
        """The task itself, at this position of its workload."""
        return Task(
            index=index,
            name=self.name,
            organization=self.org,
            gpu_model=self.model,
            priority=self.priority,
            pods=self.pods,
            gpus_per_pod=float(self.gpus),
            submit_time=float(self.at),
            guarantee_hours=float(self.hours),
            checkpoint_interval=float(self.checkpoint),
            cpus_per_pod=float(self.cpus),
            memory_per_pod=float(self.memory),
            rules=rules_of(self.only, self.ports),
            earlier_runs=self.earlier,
            mixed=self.roles,
            topology_key=self.topology,
            resources=self.resources,
            urgency=self.urgency,
            preempts=self.preempts,
        )


def rules_of(only: Iterable[str] = (), ports: tuple[str, ...] = ()) -> tuple[Hashable, ...]:
    """What restricts the nodes of a pod: groups that will do (none: all), and the ports that it takes."""
    groups = frozenset(only)
    rules: list[Hashable] = [NodeRule(groups, "zone=" + ",".join(sorted(groups)))] if groups else []
    return (*rules, PortRule(ports)) if ports else tuple(rules)


def hp(name: str, **wishes: Any) -> Draft:
    """A high-priority task: one GPU at time 0 for 100 s unless it says otherwise."""
    return Draft(name, Priority.HP, **wishes)


def spot(name: str, **wishes: Any) -> Draft:
    """A spot task: one GPU at time 0 for 100 s, guarantee 1 h, checkpoint every hour unless it says otherwise."""
    return Draft(name, Priority.SPOT, **wishes)


def nodes(*sizes: int, model: str = "A100", prefix: str = "n", first: int = 0) -> list[NodeSpec]:
    """Nodes n0, n1, ... with these numbers of cards."""
    return [NodeSpec(first + i, f"{prefix}{i}", model, size) for i, size in enumerate(sizes)]


def workload(machines: Iterable[NodeSpec], drafts: Iterable[Draft], node_events: Iterable[NodeEvent] = ()) -> Workload:
    """Put nodes and tasks together; tasks get their index by (submission, name)."""
    ordered = sorted(drafts, key=lambda draft: (draft.at, draft.name))
    renumbered = [replace(node, index=i) for i, node in enumerate(machines)]
    cancels = tuple(float(draft.cancelled) for draft in ordered)
    return Workload(
        tuple(draft.task(i) for i, draft in enumerate(ordered)),
        tuple(renumbered),
        "story",
        durations=tuple(float(draft.lasting) for draft in ordered),
        cancel_times=cancels if any(map(isfinite, cancels)) else (),
        node_events=tuple(node_events),
    )


class Line(NamedTuple):
    """One row of the event log, without what the task says anyway."""

    time: float
    event: str
    task: str
    run: int
    node: str
    cards: str
    reason: str


class Story:
    """What happened, to be asked about in the words of a test."""

    def __init__(self, result: RunResult) -> None:
        self.result = result
        columns = result.events.to_pydict()
        self.lines = [Line(*row) for row in zip(*(columns[name] for name in Line._fields), strict=True)]

    def _of(self, task: str, event: str) -> list[Line]:
        return [line for line in self.lines if line.task == task and line.event == event]

    def _times(self, task: str, event: str) -> list[float]:
        by_run = {line.run: line.time for line in self._of(task, event)}
        return [by_run[run] for run in sorted(by_run)]

    def started(self, task: str) -> list[float]:
        """When each run of the task began."""
        return self._times(task, "start")

    def evicted(self, task: str) -> list[float]:
        """When the task was evicted, each time."""
        return self._times(task, "evict")

    def finished(self, task: str) -> float:
        """When the task was done."""
        (time,) = self._times(task, "finish")
        return time

    def spans(self, task: str) -> list[tuple[float, float]]:
        """Begin and end of each run."""
        return list(zip(self.started(task), [*self.evicted(task), self.finished(task)], strict=True))

    def where(self, task: str, run: int = 1) -> list[str]:
        """Node and cards of each pod of a run: ['n0/0+1', 'n1/3:0.5']."""
        return [f"{line.node}/{line.cards}" for line in self._of(task, "start") if line.run == run]

    def on(self, task: str, run: int = 1) -> list[str]:
        """The node of each pod of a run."""
        return [line.node for line in self._of(task, "start") if line.run == run]

    def why_waited(self, task: str, run: int = 1) -> str:
        """The reason kept with the start of a run."""
        return next(line.reason for line in self._of(task, "start") if line.run == run)

    def why_evicted(self, task: str, run: int = 1) -> str:
        """The reason kept with an eviction."""
        return next(line.reason for line in self._of(task, "evict") if line.run == run)

    def victims(self) -> list[str]:
        """Tasks evicted, in the order of the log, each eviction once."""
        evictions = dict.fromkeys((line.task, line.run) for line in self.lines if line.event == "evict")
        return [task for task, _ in evictions]


def play(
    machines: Sequence[NodeSpec],
    *drafts: Draft,
    scheduler: str = "gfs",
    window: tuple[float | None, float | None] = (None, None),
    **parameters: Any,
) -> Story:
    """Run a small story to its end, every invariant checked at every decision.

    Stories are of minutes, in which nothing is known of demand: `gfs` has no quota in them unless they name one.
    """
    if scheduler.startswith("gfs"):
        parameters.setdefault("quota", "none")
    work = workload(machines, drafts)
    return Story(simulate(work, scheduler=scheduler, check=True, window=window, **parameters))


def play_unchecked(machines: Sequence[NodeSpec], *drafts: Draft, scheduler: str = "gfs") -> Story:
    """The same with a workload that the checks would refuse: what a bug elsewhere could let through."""
    return Story(run_simulation(workload(machines, drafts), scheduler, Parameters(quota="none")))


def csv_text(result: RunResult) -> str:
    """The event table as CSV text: plain quoting, shortest exact numbers, the same on every machine."""
    columns = result.events.to_pydict()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


def event_bytes(result: RunResult) -> bytes:
    """The event table as the product would write it."""
    sink = io.BytesIO()
    pyarrow.csv.write_csv(result.events, sink)
    return sink.getvalue()


class Stage:
    """A pool arranged by hand, card by card, for tests of a single choice."""

    def __init__(self, *sizes: int) -> None:
        self.state = PoolState("A100", nodes(*sizes))
        self._count = 0

    @property
    def pool(self) -> Pool:
        """Who holds which cards."""
        return self.state.pool

    def node(self, name: str) -> Node:
        """The node with this name."""
        return next(node for node in self.pool.nodes if node.name == name)

    def holds(self, name: str, draft: Draft, start: float = 0.0) -> Run:
        """Put all pods of a task on one node; it runs since `start`."""
        return self.spread([name] * draft.pods, draft, start)

    def spread(self, names: Sequence[str], draft: Draft, start: float = 0.0) -> Run:
        """Put the pods of a task on these nodes, one each."""
        task = draft.task(self._count)
        self._count += 1
        return self.state.start(task, [self.pool.occupy(self.node(name), task) for name in names], start)

    def evicts(self, run: Run, now: float = 0.0) -> None:
        """Stop a run as a policy does: on a trial first, then for good."""
        Trial(self.pool).evict(run)
        self.state.evict(run, now)
