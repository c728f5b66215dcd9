"""A workload: the tasks and the nodes of one cluster, checked and ready to be scheduled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import isfinite

from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.domain.units import MICRO


@dataclass(frozen=True, slots=True)
class Workload:
    """Tasks in the order of their index (submission, then name) and nodes in the order of theirs."""

    tasks: tuple[Task, ...]
    nodes: tuple[NodeSpec, ...]
    name: str = "trace"

    def capacity(self) -> dict[str, int]:
        """Cards of each GPU model, models in order of first appearance."""
        total: Counter[str] = Counter()
        for node in self.nodes:
            total[node.gpu_model] += node.gpus
        return dict(total)


def check_workload(workload: Workload, shown: int = 5) -> None:
    """Hold a workload made in Python to the rules a trace file is held to."""
    problems = list(islice(_problems(workload), shown))
    if problems:
        raise InputError("this workload cannot be scheduled: " + "; ".join(problems))


def _problems(workload: Workload) -> Iterator[str]:
    sizes: dict[str, Counter[int]] = {}
    names: set[str] = set()
    for node in workload.nodes:
        if node.name in names:
            yield f"two nodes are called {node.name}"
        if node.gpus < 1:
            yield f"node {node.name} has {node.gpus} cards"
        names.add(node.name)
        sizes.setdefault(node.gpu_model, Counter())[node.gpus] += 1
    names.clear()
    before = float("-inf")
    for position, task in enumerate(workload.tasks):
        if task.name in names:
            yield f"two tasks are called {task.name}"
        names.add(task.name)
        if task.index != position or not before <= task.submit_time:
            yield f"task {task.name} is out of order: tasks and their index go by submit_time, then name"
        before = task.submit_time
        if not (isfinite(task.submit_time) and isfinite(task.duration) and task.duration >= 0):
            yield f"task {task.name} is submitted at {task.submit_time} and lasts {task.duration} s"
        if task.pods < 1 or task.micro < 1 or (task.gpus_per_pod > 1 and task.cards != task.gpus_per_pod):
            yield f"task {task.name} asks {task.pods} pods of {task.gpus_per_pod:g} GPUs"
        elif task.gpu_model not in sizes:
            yield f"task {task.name} asks for {task.gpu_model}, of which there is no node"
        elif _slots(sizes[task.gpu_model], task) < task.pods:
            yield (
                f"task {task.name} asks {task.pods} pods of {task.gpus_per_pod:g} GPUs, more than all nodes"
                f" with {task.gpu_model} can hold"
            )


def never_fitting(workload: Workload) -> list[Task]:
    """Tasks that could not start even if all nodes were empty."""
    sizes: dict[str, Counter[int]] = {}
    for node in workload.nodes:
        sizes.setdefault(node.gpu_model, Counter())[node.gpus] += 1
    return [task for task in workload.tasks if _slots(sizes.get(task.gpu_model, Counter()), task) < task.pods]


def _slots(sizes: Counter[int], task: Task) -> int:
    """Pods of the task that fit on the empty nodes of its model."""
    if task.cards:
        return sum(count * (size // task.cards) for size, count in sizes.items())
    return sum(count * size for size, count in sizes.items()) * (MICRO // task.share)
