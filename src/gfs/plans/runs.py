"""One run of a plan: a scheduler with its parameters on a trace, perhaps with other nodes or other spot work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, floor
from typing import Any, TypeVar

from gfs.batch.job import JobResult
from gfs.batch.simulation import SimulationJob, Value
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.domain.units import DAY
from gfs.domain.workload import Workload, never_fitting, node_sizes
from gfs.telemetry.metrics import compute_metrics
from gfs.telemetry.prices import delivered

SHARED_LOAD = 0.8
"""About the share of a run's time that does not depend on the spot work."""


@dataclass(frozen=True, slots=True)
class PlanRun(SimulationJob):
    """Something to simulate."""

    node_share: float = 1.0
    """Of each pool."""
    spot_scale: float = 1.0
    """Spot work as a multiple of the trace's."""
    prices: tuple[tuple[str, float], ...] = ()
    """Dollars per GPU-hour by GPU model; empty: the assumed ones."""

    @property
    def label(self) -> str:
        """What it is: 'gfs, p=0.9, nodes x0.9'."""
        words = [
            self.scheduler,
            *(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in self.settings),
        ]
        words += [f"nodes x{self.node_share:g}"] if self.node_share != 1 else []
        words += [f"spot x{self.spot_scale:g}"] if self.spot_scale != 1 else []
        return ", ".join(words)

    @property
    def varied(self) -> tuple[tuple[str, Value], ...]:
        """Columns of the table of all runs."""
        return (*self.settings, ("node_share", self.node_share), ("spot_scale", self.spot_scale))

    @property
    def weight(self) -> float:
        """More spot work takes longer; the rest is not known before."""
        return SHARED_LOAD + (1 - SHARED_LOAD) * self.spot_scale

    def identity(self) -> dict[str, Any]:
        """All that the run depends on."""
        priced = {"prices": dict(self.prices)} if self.prices else {}
        return SimulationJob.identity(self) | {"node_share": self.node_share, "spot_scale": self.spot_scale} | priced

    def workload_and_misfits(self) -> tuple[Workload, int]:
        """What is simulated, and how many tasks had to be left out because they fit on no such cluster."""
        changed = with_spot(with_nodes(self.workload(), self.node_share), self.spot_scale)
        workload, misfits = without_misfits(changed)
        if not workload.tasks:
            raise InputError(f"no task of the trace fits on {len(workload.nodes):,} nodes")
        return workload, len(misfits)

    def run(self) -> JobResult:
        """Simulate it."""
        workload, left_out = self.workload_and_misfits()
        result, rules = self.simulate(workload), self.parameters().rules
        first, span = tasks_span(workload)
        halves = [
            compute_metrics(result.events, workload, window=window, rules=rules).spot.eviction_rate
            for window in ((None, first + span / 2), (first + span / 2, None))
        ]
        return {
            **result.metrics.figures(),
            **asdict(delivered(result.events, workload, rules, dict(self.prices) or None)),
            "first_half_eviction_rate": halves[0],
            "second_half_eviction_rate": halves[1],
            "nodes": len(workload.nodes),
            "cards": sum(workload.capacity().values()),
            "left_out": left_out,
        }


T = TypeVar("T")


def node_counts(workload: Workload, share: float) -> dict[str, tuple[int, int]]:
    """Nodes of each pool as they are and at this share: 90% of 32 are 29, of one it is one."""
    counts = {model: sizes.total() for model, sizes in node_sizes(workload.nodes).items()}
    return {model: (count, max(1, floor(count * share + 0.5))) for model, count in counts.items()}


def with_nodes(workload: Workload, share: float) -> Workload:
    """On a share of the nodes; tasks stay, also those that fit nowhere any more. To twins nothing happens."""
    if share == 1:
        return workload
    gone: set[int] = set()
    twins: list[NodeSpec] = []
    names = {node.name for node in workload.nodes}
    for model, (now, then) in node_counts(workload, share).items():
        pool = sorted((n for n in workload.nodes if n.gpu_model == model), key=lambda n: (n.gpus, n.index))
        if then < now:
            gone |= {node.index for node in _spread(pool, now - then)}
            continue
        times, more = divmod(then - now, now)
        again = [*pool * times, *_spread(pool, more)]
        twins += [replace(node, name=_fresh(node.name, names)) for node in again]
    kept = [node for node in workload.nodes if node.index not in gone]
    names_left = {node.name for node in kept}
    return replace(
        workload,
        nodes=tuple(replace(n, index=i) for i, n in enumerate([*kept, *twins])),
        node_events=tuple(event for event in workload.node_events if event.node in names_left),
    )


def spot_count(tasks: int, scale: float) -> int:
    """How many spot tasks there are at this scale."""
    return floor(scale) * tasks + floor(tasks * (scale - floor(scale)) + 0.5)


def with_spot(workload: Workload, scale: float) -> Workload:
    """With so many times the spot work."""
    if scale == 1 or not workload.tasks:
        return workload
    spot = [task for task in workload.tasks if task.is_spot]
    tasks = [task for task in workload.tasks if not task.is_spot]
    names = {task.name for task in workload.tasks}
    first, span = tasks_span(workload)
    copies = ceil(scale)
    for number in range(copies):
        chosen = spot if number < floor(scale) else _spread(spot, floor(len(spot) * (scale - floor(scale)) + 0.5))
        if number == 0:
            tasks += chosen
            continue
        shift = span * number / copies
        shift = floor(shift / DAY) * DAY if shift >= DAY else shift
        for task in chosen:
            time = first + (task.submit_time - first + shift) % span if span else task.submit_time
            tasks.append(replace(task, name=_fresh(task.name, names), submit_time=time))
    return workload.with_tasks(tasks)


def without_misfits(workload: Workload) -> tuple[Workload, list[Task]]:
    """Without the tasks that could never start, and which they were."""
    misfits = never_fitting(workload)
    if not misfits:
        return workload, []
    left_out = {task.index for task in misfits}
    return workload.with_tasks(task for task in workload.tasks if task.index not in left_out), misfits


def tasks_span(workload: Workload) -> tuple[float, float]:
    """The first submission, and seconds from there to the last."""
    first, last = workload.tasks[0].submit_time, workload.tasks[-1].submit_time
    return first, last - first


def _spread(things: Sequence[T], count: int) -> list[T]:
    """So many of them, evenly spread: 2 of 8 are the third and the seventh."""
    return [things[floor((i + 0.5) * len(things) / count)] for i in range(count)]


def _fresh(name: str, taken: set[str]) -> str:
    """A name like it that nobody has yet: n3~2."""
    number = 2
    while f"{name}~{number}" in taken:
        number += 1
    taken.add(f"{name}~{number}")
    return f"{name}~{number}"
