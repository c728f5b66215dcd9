"""The same trace on a larger or smaller cluster, or with more or less spot work.

Nodes: of each pool (GPU model) a share, to the nearest whole node, at least one. Which nodes go, or get a twin,
is spread evenly over the pool in the order of size, so that the mix of sizes stays.

Spot work: a share of the tasks, or all of them again at another time. Times wrap around inside the trace, by whole
days where it is long enough, so that days stay days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor
from typing import TypeVar

from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.domain.units import DAY
from gfs.domain.workload import Workload, never_fitting

T = TypeVar("T")


def node_counts(workload: Workload, share: float) -> dict[str, tuple[int, int]]:
    """Nodes of each pool as they are and at this share: 90% of 32 are 29, of one it is one."""
    counts: dict[str, int] = {}
    for node in workload.nodes:
        counts[node.gpu_model] = counts.get(node.gpu_model, 0) + 1
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
