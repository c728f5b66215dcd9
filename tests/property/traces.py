"""Traces of days that several properties are looked at on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from gfs import NodeRule, Task, Workload, generate
from promises import admits, limits, pods_inside


@cache
def five_busy_days() -> Workload:
    """Five days of a small busy cluster, tasks with guarantees of 1, 2 and 4 hours."""
    work = generate("paper", nodes=12, days=5, spot_scale=4, seed=3)
    hours = (1.0, 2.0, 4.0)
    tasks = (replace(task, guarantee_hours=hours[task.index % 3]) if task.is_spot else task for task in work.tasks)
    return replace(work, tasks=tuple(tasks))


@cache
def five_short_days() -> Workload:
    """The same five days where more than GPUs is short, and a third of the tasks may use one half of the nodes.

    Small pods ask for half as many CPUs again, and for memory that not all of a node has for so many of them.
    """
    work = five_busy_days()
    nodes = tuple(replace(node, memory=1024.0, pods=12, group="ab"[node.index % 2]) for node in work.nodes)

    def asking(task: Task) -> Task:
        if task.gpus_per_pod < 8:
            memory = (0.0, 100.0, 200.0)[task.index // 3 % 3] * task.gpus_per_pod
            task = replace(task, cpus_per_pod=1.5 * task.cpus_per_pod, memory_per_pod=memory)
        zone = "ab"[task.index % 2]
        asked = replace(task, rules=(NodeRule(frozenset(zone), f"zone={zone}"),))
        taking = [node for node in nodes if admits(node, asked)]
        slots = sum(min(node.gpus // max(task.cards, 1), pods_inside(task, limits(node))) for node in taking)
        return asked if task.index % 3 == 0 and slots >= task.pods else task

    return replace(work, tasks=tuple(map(asking, work.tasks)), nodes=nodes)
