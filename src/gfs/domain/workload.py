"""A workload: the tasks and the nodes of one cluster, and what no scheduler may know of them in advance."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice

from gfs.domain.errors import InputError
from gfs.domain.limits import MOST_AMOUNT, MOST_GPUS_A_NODE, MOST_PODS, MOST_SECONDS
from gfs.domain.node import NODE_EVENTS, NodeEvent, NodeSpec
from gfs.domain.task import Requests, Role, Task
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
    empty = EmptyNodes(workload.nodes)
    names: set[str] = set()
    for node in workload.nodes:
        if node.name in names:
            yield f"two nodes are called {node.name}"
        if not 1 <= node.gpus <= MOST_GPUS_A_NODE:
            yield f"node {node.name} has {node.gpus:,} GPUs; it must be 1 to {MOST_GPUS_A_NODE:,}"
        if "\0" in node.name + node.gpu_model:
            yield f"node {node.name} has a NUL character in its name or GPU model"
        for name, amount in node.limits().items():
            if not 0 <= amount <= MOST_AMOUNT:
                yield f"node {node.name} has {amount:g} {name}; it must be 0 to {MOST_AMOUNT:,.0f}"
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
        strange = [_strange(role.requests) for role in task.roles] if task.mixed else [_strange(task.requests)]
        if any(strange):
            yield f"task {task.name} asks for {max(strange)} per pod; it must be 0 to {MOST_AMOUNT:,.0f}"
        elif task.micro < 1 or not all(map(_sound, task.roles)):
            yield f"task {task.name} asks {task.asks}"
        elif task.gpu_model not in empty.pools:
            yield f"task {task.name} asks for {task.gpu_model}, of which there is no node"
        elif why := empty.why_never(task.gpu_model, task.roles, task.topology_key):
            yield f"task {task.name} asks {task.asks}, {why}"


@lru_cache(maxsize=1 << 16)
def _strange(requests: Requests) -> str:
    """Returns the first amount that cannot be, such as '-1 cpus'; nothing if all can."""
    return next((f"{amount:g} {name}" for name, amount in requests if not 0 <= amount <= MOST_AMOUNT), "")


def _sound(role: Role) -> bool:
    """Returns whether its pods can be counted: 1 or more, each of no, a part of one, or whole GPUs."""
    gpus, micro = role.gpus_per_pod, role.micro_per_pod
    if not gpus:
        return 1 <= role.pods <= MOST_PODS
    return role.pods >= 1 and micro >= 1 and (gpus <= 1 or role.cards == gpus)


def never_fitting(workload: Workload) -> list[Task]:
    """Tasks that could not start even if all nodes were empty."""
    empty = EmptyNodes(workload.nodes)
    return [t for t in workload.tasks if empty.why_never(t.gpu_model, t.roles, t.topology_key)]


class EmptyNodes:
    """The GPUs of nodes that hold nothing: of each GPU model, and of each domain that a topology key makes of it."""

    def __init__(self, nodes: Iterable[NodeSpec]) -> None:
        self._nodes = tuple(nodes)
        self.pools = node_sizes(self._nodes)
        self._domains: dict[tuple[str, str], dict[str, NodeSizes]] = {}

    def why_never(self, gpu_model: str, roles: Sequence[Role], topology_key: str = "") -> str:
        """Returns why these pods could never run together, in words; nothing if their GPUs do not forbid it.

        The GPUs of all roles are only added up: a task that passes may still find no packing.
        """
        sizes = self.pools.get(gpu_model)
        if sizes is None:
            return "no node has this GPU model"
        if held := _too_small(sizes, roles):
            return f"more than all nodes with {gpu_model} can hold: {held}"
        if not topology_key:
            return ""
        domains = self._by_label(gpu_model, topology_key)
        if not domains:
            return f"no node with {gpu_model} has the label {topology_key}"
        too_small = {value: _too_small(domain, roles) for value, domain in domains.items()}
        if not all(too_small.values()):
            return ""
        largest = max(domains, key=lambda value: _gpus(domains[value]))
        return f"more than any {topology_key} can hold: {too_small[largest]} in {largest}"

    def _by_label(self, gpu_model: str, key: str) -> dict[str, NodeSizes]:
        found = self._domains.get((gpu_model, key))
        if found is None:
            found = self._domains[gpu_model, key] = {}
            for node in self._nodes:
                if node.gpu_model == gpu_model and (value := node.label(key)):
                    found.setdefault(value, NodeSizes())[node.gpus] += 1
        return found


def _too_small(sizes: NodeSizes, roles: Sequence[Role]) -> str:
    """Returns what empty nodes hold that is too little for these pods; nothing if it may do."""
    for role in roles:
        held = pods_held(sizes, role.gpus_per_pod)
        if held < role.pods:
            return f"{held} pods of {role.gpus_per_pod:g} GPUs"
    if len(roles) > 1 and sum(role.pods * role.micro_per_pod for role in roles) > _gpus(sizes) * MICRO:
        return f"{_gpus(sizes)} GPUs together"
    return ""


def _gpus(sizes: NodeSizes) -> int:
    return sum(size * count for size, count in sizes.items())


def node_sizes(nodes: Iterable[NodeSpec]) -> dict[str, NodeSizes]:
    """How many nodes of each size there are of each GPU model."""
    sizes: dict[str, NodeSizes] = {}
    for node in nodes:
        sizes.setdefault(node.gpu_model, NodeSizes())[node.gpus] += 1
    return sizes


def pods_held(sizes: NodeSizes, gpus_per_pod: float) -> int:
    """Pods of so many GPUs that fit on empty nodes; any number of pods without GPUs."""
    if not gpus_per_pod:
        return sys.maxsize if sizes else 0
    if gpus_per_pod >= 1:
        return sum(count * (size // int(gpus_per_pod)) for size, count in sizes.items())
    return sum(count * size for size, count in sizes.items()) * (MICRO // to_micro(gpus_per_pod))
