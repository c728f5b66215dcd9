"""One run of a plan: a scheduler with its parameters on a trace, perhaps with other nodes or other spot work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, floor
from typing import Any, TypeVar

from gfs.assembly.parameters import Parameters, PoolSettings
from gfs.batch.job import JobResult
from gfs.batch.simulation import GeneratedTrace, SimulationJob, Value
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.domain.units import DAY
from gfs.domain.workload import Workload, never_fitting, node_sizes
from gfs.plans.evidence import block_edges, sums_by_pool, to_json
from gfs.telemetry.prices import delivered

FORECAST_WEIGHT = 4.0
"""About how many times as long a run takes if its quota goes by forecasts."""
SHARED_LOAD = 0.8
"""About the share of a run's time that does not depend on the spot work."""


@dataclass(frozen=True, slots=True)
class PlanRun(SimulationJob):
    """Something to simulate."""

    pools: tuple[PoolSettings, ...] = ()
    """What single pools have in place of the scheduler and the settings."""
    node_share: float = 1.0
    """Of each pool."""
    spot_scale: float = 1.0
    """Spot work as a multiple of the trace's."""
    guarantee: float | None = None
    """Hours that every spot task is promised, whatever the trace says; None: as the trace and the parameters say."""
    prices: tuple[tuple[str, float], ...] = ()
    """Dollars per GPU-hour by GPU model; empty: the assumed ones."""

    def parameters(self) -> Parameters:
        """The parameters, those of single pools too."""
        return Parameters().changed({**dict(self.settings), "pools": self.pools})

    @property
    def label(self) -> str:
        """What it is: 'gfs, p=0.9, nodes x0.9'."""
        words = [self.scheduler, *_written(self.settings)]
        words += [
            f"{pool.gpu_model}: {', '.join([pool.scheduler or self.scheduler, *_written(pool.values)])}"
            for pool in self.pools
        ]
        words += [f"{self.trace.label}"] if isinstance(self.trace, GeneratedTrace) and self.trace.seed else []
        words += [f"nodes x{self.node_share:g}"] if self.node_share != 1 else []
        words += [f"spot x{self.spot_scale:g}"] if self.spot_scale != 1 else []
        words += [f"guarantee {self.guarantee:g} h"] if self.guarantee is not None else []
        return ", ".join(words)

    @property
    def varied(self) -> tuple[tuple[str, Value], ...]:
        """Columns of the table of all runs."""
        pools = ((f"{pool.gpu_model}.{name}", value) for pool in self.pools for name, value in _own(pool))
        promised = (("guarantee", self.guarantee),) if self.guarantee is not None else ()
        return (
            ("scheduler", self.scheduler),
            *self.settings,
            *pools,
            ("trace_seed", self.trace.seed if isinstance(self.trace, GeneratedTrace) else 0),
            ("node_share", self.node_share),
            ("spot_scale", self.spot_scale),
            *promised,
        )

    @property
    def weight(self) -> float:
        """More spot work takes longer, and so do forecasts; the rest is not known before."""
        quotas = [dict(values).get("quota") for values in (self.settings, *(pool.values for pool in self.pools))]
        forecast = FORECAST_WEIGHT if any(str(quota).startswith("forecast") for quota in quotas) else 1.0
        return forecast * (SHARED_LOAD + (1 - SHARED_LOAD) * self.spot_scale)

    def identity(self) -> dict[str, Any]:
        """All that the run depends on."""
        others = {"node_share": self.node_share, "spot_scale": self.spot_scale, "guarantee": self.guarantee}
        priced = {"prices": dict(self.prices)} if self.prices else {}
        return SimulationJob.identity(self) | others | priced

    def workload_and_misfits(self) -> tuple[Workload, int]:
        """What is simulated, and how many tasks had to be left out because they fit on no such cluster."""
        changed = with_spot(with_nodes(self.workload(), self.node_share), self.spot_scale)
        workload, misfits = without_misfits(with_guarantee(changed, self.guarantee))
        if not workload.tasks:
            raise InputError(f"no task of the trace fits on {len(workload.nodes):,} nodes")
        return workload, len(misfits)

    def run(self) -> JobResult:
        """Simulate it; `pools` are the sums of every pool, block by block, `by` the figures by organization."""
        workload, left_out = self.workload_and_misfits()
        result, rules = self.simulate(workload), self.parameters().rules
        first, span = tasks_span(workload)
        pools = sums_by_pool(result.events, workload, rules, block_edges(first, first + span))
        return {
            **result.metrics.figures(),
            **asdict(delivered(result.events, workload, rules, dict(self.prices) or None)),
            "nodes": len(workload.nodes),
            "cards": sum(workload.capacity().values()),
            "left_out": left_out,
            "pools": to_json(pools),
            "by": result.breakdown().to_dict(),
        }


def _written(settings: Sequence[tuple[str, Value]]) -> list[str]:
    return [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings]


def _own(pool: PoolSettings) -> tuple[tuple[str, Value], ...]:
    return (*((("scheduler", pool.scheduler),) if pool.scheduler else ()), *pool.values)


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


def with_guarantee(workload: Workload, hours: float | None) -> Workload:
    """With so many hours promised to every spot task; None: as they are."""
    if hours is None:
        return workload
    tasks = tuple(replace(task, guarantee_hours=hours) if task.is_spot else task for task in workload.tasks)
    return replace(workload, tasks=tasks)


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
