"""A trace as the objects that its users would have created: Jobs, gangs and bare pods, with time made faster."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from bench import manifests
from bench.client import Manifest
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.domain.workload import Workload

BARE = 5
"""Every so manieth task of one pod is a bare pod, the others are Jobs."""
GRACE = 1
"""Seconds; the shortest that the API has."""
CLASSES = {"HP": "gfs-hp", "Spot": "gfs-spot"}


class Submission(NamedTuple):
    """What a user creates at a moment."""

    second: float
    """Since the beginning, in real time."""
    task: Task
    objects: tuple[Manifest, ...]


def window(workload: Workload, begin: float, end: float) -> Workload:
    """The tasks of a trace that are submitted in [begin, end) and that a real device plug-in can serve: whole GPUs."""
    return workload.with_tasks(task for task in workload.tasks if begin <= task.submit_time < end and task.cards)


def nodes(workload: Workload) -> list[Manifest]:
    """The nodes of a trace."""
    return [_node(node) for node in workload.nodes]


def organizations(workload: Workload) -> list[str]:
    """The namespaces that the tasks are created in: one an organization."""
    return sorted({_name(task.organization) for task in workload.tasks})


def submissions(workload: Workload, speed: float, begin: float) -> Iterator[Submission]:
    """The tasks in order of submission; `speed`: seconds of the trace a second, `begin`: its second 0 here."""
    for task in workload.tasks:
        second = (task.submit_time - begin) / speed
        yield Submission(second, task, _objects(task, workload.durations[task.index] / speed))


def _objects(task: Task, run_for: float) -> tuple[Manifest, ...]:
    name, namespace = _name(task.name), _name(task.organization)
    pod: dict[str, Any] = {
        "gpus": task.gpus_per_pod,
        "priority_class": CLASSES[task.priority.label],
        "cpus": f"{task.cpus_per_pod or 1:g}",
        "grace": GRACE,
        "run_for": round(run_for, 3),
        "nodeSelector": {manifests.MODEL_LABEL: task.gpu_model},
        "annotations": {
            "gfs.dev/guaranteed-duration": f"{task.guarantee_hours:g}h",
            "gfs.dev/checkpoint-interval": f"{task.checkpoint_interval:g}s",
        },
    }
    if task.pods > 1:
        group = manifests.pod_group(name, namespace, task.pods)
        return group, manifests.job(name, namespace, pods=task.pods, group=name, indexed=True, **pod)
    if task.index % BARE == 0:
        return (manifests.pod(name, namespace, **pod),)
    return (manifests.job(name, namespace, **pod),)


def _node(node: NodeSpec) -> Manifest:
    memory = f"{math.ceil(node.memory)}Gi" if node.memory else "1024Gi"
    return manifests.node(_name(node.name), node.gpus, node.gpu_model, node.cpus or 128, memory, pods=node.pods or 110)


def _name(text: str) -> str:
    """As the API wants names: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50] or "x"
