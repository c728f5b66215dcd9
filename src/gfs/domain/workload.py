"""A workload: the tasks and the nodes of one cluster, and what no scheduler may know of them in advance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from gfs.domain.errors import InputError
from gfs.domain.limits import MOST_GPUS_A_NODE, MOST_SECONDS
from gfs.domain.node import NODE_EVENTS, NodeEvent, NodeSpec
from gfs.domain.task import Role, Task
from gfs.domain.units import DAY, MICRO, to_micro

NodeSizes = Counter[int]
"""GPUs of a node -> how many such nodes."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Tasks in the order of their index (submission, then name) and nodes in the order of theirs."""

    tasks: tuple[Task, ...]
    nodes: tuple[NodeSpec, ...]
    name: str = "trace"
    durations: tuple[float, ...] = ()
    """Task index -> seconds of useful work it needs."""
    cancel_times: tuple[float, ...] = ()
    """Task index -> when its owner withdraws it, infinity for never; empty: nobody withdraws any."""
    node_events: tuple[NodeEvent, ...] = ()
    """What happens to nodes, in order of time."""

    def __post_init__(self) -> None:
        for name in ("durations", "cancel_times"):
            given = len(getattr(self, name))
            if given != len(self.tasks) and (given or name == "durations"):
                raise InputError(f"a workload of {len(self.tasks)} tasks needs as many {name}, not {given}")

    def __repr__(self) -> str:
        spot = sum(task.is_spot for task in self.tasks)
        pools = ", ".join(f"{gpus:,} {model}" for model, gpus in islice(self.capacity().items(), 6))
        days = (self.tasks[-1].submit_time - self.tasks[0].submit_time) / DAY if self.tasks else 0.0
        return (
            f"<Workload {self.name[:80]!r}: {len(self.tasks) - spot:,} HP and {spot:,} spot tasks in {days:.1f} days,"
            f" {len(self.nodes):,} nodes ({pools[:200] or 'no'} GPUs)>"
        )

    def capacity(self) -> dict[str, int]:
        """Cards of each GPU model, models in order of first appearance."""
        total: Counter[str] = Counter()
        for node in self.nodes:
            total[node.gpu_model] += node.gpus
        return dict(total)

    def gpus_only(self) -> Workload:
        """Returns the workload without what nodes state besides GPUs: nothing else is limited then."""
        return replace(self, nodes=tuple(node.gpus_only() for node in self.nodes))

    def with_tasks(self, tasks: Iterable[Task]) -> Workload:
        """With these of its tasks, put in order and numbered anew.

        Each still has the index it has here, perhaps another name or submission. Its duration goes with it, and so
        does its cancellation, as long after the submission as before.
        """
        ordered = sorted(tasks, key=lambda task: (task.submit_time, task.name))
        return replace(
            self,
            tasks=tuple(replace(task, index=i) for i, task in enumerate(ordered)),
            durations=tuple(self.durations[task.index] for task in ordered),
            cancel_times=tuple(map(self._cancel_time, ordered)) if self.cancel_times else (),
        )

    def _cancel_time(self, task: Task) -> float:
        cancelled, submitted = self.cancel_times[task.index], self.tasks[task.index].submit_time
        return cancelled if task.submit_time == submitted else task.submit_time + (cancelled - submitted)


def check_workload(workload: Workload, shown: int = 5) -> None:
    """Hold a workload made in Python to the rules a trace file is held to."""
    problems = list(islice(chain(_problems(workload), _node_event_problems(workload)), shown))
    if problems:
        raise InputError("this workload cannot be scheduled: " + "; ".join(problems))


def _node_event_problems(workload: Workload) -> Iterator[str]:
    names = {node.name for node in workload.nodes} if workload.node_events else set()
    before = 0.0
    for time, node, event in workload.node_events:
        if node not in names:
            yield f"a node event at {time:g} speaks of node {node!r}, which the workload does not have"
        if event not in NODE_EVENTS:
            yield f"node {node} has an event {event!r} at {time:g}: there are {', '.join(NODE_EVENTS)}"
        if not 0 <= time <= MOST_SECONDS:
            yield f"node {node} has an event ({event}) at {time}: its time must be 0 to {MOST_SECONDS:,.0f}"
        elif time < before:
            yield f"the node event of {node} at {time:g} is out of order: they go by time"
        else:
            before = time


def _problems(workload: Workload) -> Iterator[str]:
    sizes = node_sizes(workload.nodes)
    names: set[str] = set()
    for node in workload.nodes:
        if node.name in names:
            yield f"two nodes are called {node.name}"
        if not 1 <= node.gpus <= MOST_GPUS_A_NODE:
            yield f"node {node.name} has {node.gpus:,} GPUs; it must be 1 to {MOST_GPUS_A_NODE:,}"
        if "\0" in node.name + node.gpu_model:
            yield f"node {node.name} has a NUL character in its name or GPU model"
        names.add(node.name)
    names.clear()
    before = float("-inf")
    for position, task in enumerate(workload.tasks):
        if task.name in names:
            yield f"two tasks are called {task.name}"
        names.add(task.name)
        if task.index != position or not before <= task.submit_time:
            yield f"task {task.name} is out of order: tasks and their index go by submit_time, then name"
        before = task.submit_time
        duration = workload.durations[position]
        if "\0" in task.name + task.organization:
            yield f"task {task.name} has a NUL character in its name or organization"
        if not (abs(task.submit_time) <= MOST_SECONDS and 0 <= duration <= MOST_SECONDS):
            yield (
                f"task {task.name} is submitted at {task.submit_time} and lasts {duration} s; the most is"
                f" {MOST_SECONDS:,.0f} s"
            )
        if workload.cancel_times and not workload.cancel_times[position] >= task.submit_time:
            yield (
                f"task {task.name} is cancelled at {workload.cancel_times[position]}, before it is submitted"
                f" at {task.submit_time}"
            )
        if task.micro < 1 or not all(map(_is_whole, task.roles)):
            yield f"task {task.name} asks {task.pods} pods of {task.gpus_per_pod:g} GPUs"
        elif task.gpu_model not in sizes:
            yield f"task {task.name} asks for {task.gpu_model}, of which there is no node"
        elif not holds(sizes[task.gpu_model], task):
            yield (
                f"task {task.name} asks {task.pods} pods of {task.gpus_per_pod:g} GPUs, more than all nodes"
                f" with {task.gpu_model} can hold"
            )


def _is_whole(role: Role) -> bool:
    """Returns whether there are pods, and they ask for whole GPUs, a part of one, or none."""
    return role.pods > 0 and (role.gpus_per_pod < 1 or role.cards == role.gpus_per_pod)


def never_fitting(workload: Workload) -> list[Task]:
    """Tasks that could not start even if all nodes were empty."""
    sizes = node_sizes(workload.nodes)
    return [task for task in workload.tasks if not holds(sizes.get(task.gpu_model, NodeSizes()), task)]


def holds(sizes: NodeSizes, task: Task) -> bool:
    """Returns whether empty nodes have the GPUs for the pods of each role by itself."""
    return all(pods_held(sizes, role.gpus_per_pod) >= role.pods for role in task.roles if role.gpus_per_pod)


def node_sizes(nodes: Iterable[NodeSpec]) -> dict[str, NodeSizes]:
    """How many nodes of each size there are of each GPU model."""
    sizes: dict[str, NodeSizes] = {}
    for node in nodes:
        sizes.setdefault(node.gpu_model, NodeSizes())[node.gpus] += 1
    return sizes


def pods_held(sizes: NodeSizes, gpus_per_pod: float) -> int:
    """Pods of so many GPUs that fit on empty nodes."""
    if gpus_per_pod >= 1:
        return sum(count * (size // int(gpus_per_pod)) for size, count in sizes.items())
    return sum(count * size for size, count in sizes.items()) * (MICRO // to_micro(gpus_per_pod))
