"""The tasks under one key as the API objects show them: a pure function of mirror and overlay.

A pod without a group is a task of its own. Of a group with a minimum the first pods, as many as must start together,
are one task (its *core*); every other pod is a task of its own, placed as room allows once the group runs. Pods that
have succeeded count for the minimum as long as they are there. Pods that do not exist count for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from gfs.domain.task import Priority
from gfs.live.mirror import Key, Mirror, key_of
from gfs.live.overlay import Overlay
from gfs.live.translate.gangs import GroupView
from gfs.live.translate.pods import PodView, class_of
from gfs.live.translate.rules import Refusal, pool_of

REFUSED, NO_CAPACITY, GANG, QUOTA = "Refused", "Unschedulable", "WaitsForGang", "WaitsForSpotQuota"
FAILED, DELETED = "SchedulerError", "Deleted"
"""Reasons of the condition PodScheduled=False. Autoscalers add nodes for `Unschedulable` only."""
CORE = ""
"""The slot of a group's core; other pods are tasks of their own, and their slot is their uid."""


class Waits(NamedTuple):
    """Why a pod waits."""

    reason: str
    text: str


class TaskPods(NamedTuple):
    """One task as the API objects show it."""

    pods: tuple[PodView, ...]
    """In the order of creation; all of them wait, or all of them are bound."""
    bound: bool


NO_PODS = TaskPods((), False)


@dataclass(slots=True)
class Observation:
    """All tasks under one key."""

    bound: dict[str, TaskPods] = field(default_factory=dict)
    """By the name of the task that the pods were bound for; by slot where another scheduler bound them."""
    waiting: dict[str, TaskPods] = field(default_factory=dict)
    """By slot."""
    waits: dict[str, Waits] = field(default_factory=dict)
    """Pods, by uid, that belong to no task: why they wait."""


def observe(
    mirror: Mirror, overlay: Overlay, key: Key, planned: Collection[str] = (), *, together: bool = False
) -> Observation:
    """Returns the tasks under a key.

    `planned`: pods, by uid, of plans that are being carried out; they are left out. `together`: whether one of these
    plans has several pods: until all of them are bound the gang has not started.
    """
    found = Observation()
    group = mirror.groups.get(key)
    minimum = group.minimum if group is not None else 1
    bound: dict[str, list[PodView]] = {}
    waiting: list[PodView] = []
    succeeded = held = 0
    for pod in sorted(mirror.members.get(key, {}).values(), key=_order):
        if pod.over:
            succeeded += pod.phase == "Succeeded"
        elif overlay.node_of(pod):
            if not overlay.is_evicted(pod):
                held += not pod.deleting
                if pod.uid not in planned and not pod.refusal and priority_of(mirror, pod) is not None:
                    slot = CORE if minimum > 1 else pod.uid
                    bound.setdefault(overlay.task_of(pod) or slot, []).append(pod)
        elif pod.deleting:  # a finalizer keeps it
            found.waits[pod.uid] = Waits(DELETED, "it is being deleted")
        elif pod.waits and pod.uid not in planned and pod.uid not in overlay.bindings:
            if (why := why_refused(mirror, pod, group)) is None:
                waiting.append(pod)
            else:
                found.waits[pod.uid] = why
    found.bound = {name: TaskPods(tuple(pods), True) for name, pods in bound.items()}
    starting = len([uid for uid in planned if uid not in mirror.pods or not overlay.node_of(mirror.pods[uid])])
    if together and held + succeeded < minimum:  # what is bound belongs to the start
        starting, held = starting + held, 0
    _add_waiting(mirror, found, waiting, minimum, succeeded, held, starting)
    return found


def _add_waiting(
    mirror: Mirror, found: Observation, waiting: list[PodView], minimum: int, succeeded: int, held: int, starting: int
) -> None:
    """Add the tasks of pods that wait. `held`: members of a gang that runs; `starting`: of one that starts."""
    alone = minimum <= 1 or held > 0
    alike = waiting if alone or starting else _most_alike(mirror, waiting)
    odd = {pod.uid for pod in waiting}.difference(pod.uid for pod in alike)
    words = "it asks for something else than the other pods of its gang"
    found.waits |= dict.fromkeys(odd, Waits(REFUSED, words))
    there = len(alike) + held + starting + succeeded
    if there < minimum:
        words = f"{there} of the {minimum} pods that its gang needs are there"
        found.waits |= {pod.uid: Waits(GANG, words) for pod in alike}
    elif alone:
        found.waiting = {pod.uid: TaskPods((pod,), False) for pod in alike}
    else:
        first = 0 if starting else max(1, minimum - succeeded)
        if first and alike:
            found.waiting = {CORE: TaskPods(tuple(alike[:first]), False)}
        found.waits |= {pod.uid: Waits(GANG, "its gang has not started yet") for pod in alike[first:]}


def _order(pod: PodView) -> tuple[float, str, str]:
    return pod.created, pod.path, pod.uid


def _most_alike(mirror: Mirror, pods: list[PodView]) -> list[PodView]:
    """Returns the pods that ask for what most of them ask for; of equally many for what the first asks for."""
    asked = [(pod.asks, pod.rule, priority_of(mirror, pod)) for pod in pods]
    usual = Counter(asked).most_common(1)[0][0] if asked else None
    return [pod for pod, each in zip(pods, asked, strict=True) if each == usual]


def priority_of(mirror: Mirror, pod: PodView) -> Priority | None:
    """Returns HP or spot, by the class of its group or its own; None: neither."""
    group = mirror.groups.get(key_of(pod))
    return class_of(pod, group.priority_class if group else "", mirror.settings)


def model_of(mirror: Mirror, pod: PodView) -> str | Refusal:
    """Returns the GPU model that a pod which waits is for, or why there is none."""
    return pool_of(pod.rule, mirror.settings.model_label, mirror.models)


def why_refused(mirror: Mirror, pod: PodView, group: GroupView | None) -> Waits | None:
    """Returns why a pod that waits cannot be placed whatever is idle; None: it can."""
    if pod.refusal:
        return Waits(REFUSED, pod.refusal)
    if pod.gang is not None and group is None:
        return Waits(REFUSED, f"its PodGroup {pod.gang.name} is not there")
    if group is not None and group.refusal:
        return Waits(REFUSED, group.refusal)
    if priority_of(mirror, pod) is None:
        known = ", ".join((*mirror.settings.hp_classes, *mirror.settings.spot_classes))
        named = f"priority class {pod.priority_class!r}" if pod.priority_class else "no priority class"
        return Waits(REFUSED, f"it has {named}: name one of {known}")
    for other in mirror.apart.values():
        if other.keeps_away(pod):
            return Waits(REFUSED, f"{other.path} keeps it away (anti-affinity of pods that run is not supported)")
    model = model_of(mirror, pod)
    if isinstance(model, Refusal):
        return Waits(REFUSED, model.text)
    if model not in mirror.models:
        return Waits(NO_CAPACITY, f"no node has GPU model {model}")
    return None
