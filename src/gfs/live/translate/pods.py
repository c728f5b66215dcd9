"""Pods: what we read of one, whether it is ours or only holds resources on our nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gfs.domain.task import Priority
from gfs.live.settings import LiveSettings
from gfs.live.translate.asks import Asks, part_of_a_gpu, read_asks
from gfs.live.translate.gangs import group_of
from gfs.live.translate.quantities import duration, moment
from gfs.live.translate.rules import NodeRule
from gfs.live.translate.shape import entries, table, text
from gfs.live.translate.unsupported import read_rule, unsupported

GUARANTEE, INTERVAL, LAST_CHECKPOINT = (
    "gfs.dev/guaranteed-duration",
    "gfs.dev/checkpoint-interval",
    "gfs.dev/last-checkpoint-time",
)
TASK, RUN, SUBMITTED = "gfs.dev/task", "gfs.dev/run", "gfs.dev/submitted"
"""What we write on a pod when we bind it: whose run it is, so that a restart finds it there."""
INDEX = "batch.kubernetes.io/job-completion-index"
TERMINAL = ("Succeeded", "Failed")


class Owner(NamedTuple):
    """The controller of a pod: it creates pods again that go."""

    kind: str
    name: str
    uid: str


class Binding(NamedTuple):
    """What was written on a pod when it was bound."""

    task: str
    run: int
    submitted: float


@dataclass(frozen=True, slots=True)
class PodView:
    """What we read of a pod."""

    uid: str
    namespace: str
    name: str
    created: float
    ours: bool
    node: str
    """Empty: not bound."""
    phase: str
    deleting: bool
    asks: Asks
    owner: Owner | None
    slot: str
    """Which of its owner's pods it is, where these are not interchangeable; empty: any."""
    gang: str
    """Its PodGroup; empty: none."""
    priority_class: str
    priority: int
    rule: NodeRule
    organization: str
    """By its own label; empty: ask the namespace."""
    guarantee: float | None
    """Hours; None: the default."""
    interval: float | None
    """Seconds; None: the default."""
    last_checkpoint: float | None
    gated: bool
    refusal: str
    """Why it cannot be placed at all, whatever the cluster is like; empty: it can."""
    warnings: tuple[str, ...]
    """Annotations that cannot be read, in words."""
    bound_as: Binding | None
    labels: tuple[tuple[str, str], ...]
    grace: float
    started: float
    """When it was first seen on its node; 0: not known."""

    @property
    def path(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def over(self) -> bool:
        """Whether it holds nothing any more."""
        return self.phase in TERMINAL

    @property
    def waits(self) -> bool:
        """Whether it is there to be placed."""
        return not self.node and not self.over and not self.deleting and not self.gated


def read_pod(pod: Any, settings: LiveSettings) -> PodView:
    """A pod as we see it, whatever it looks like."""
    metadata, spec, status = table(pod, "metadata"), table(pod, "spec"), table(pod, "status")
    annotations, labels = table(metadata, "annotations"), table(metadata, "labels")
    asks = read_asks(spec, settings)
    ours = text(spec, "schedulerName") == settings.scheduler_name
    owner = next(
        (
            Owner(text(each, "kind"), text(each, "name"), text(each, "uid"))
            for each in entries(metadata, "ownerReferences")
            if each.get("controller") is True
        ),
        None,
    )
    warnings: list[str] = []
    guarantee = _guarantee(annotations, settings, warnings)
    interval = _seconds(annotations, INTERVAL, warnings)
    last = annotations.get(LAST_CHECKPOINT)
    checkpoint = moment(last) if last is not None else None
    if last is not None and checkpoint is None:
        warnings.append(f"{LAST_CHECKPOINT} = {_cut(last)}: not a time such as 2026-04-01T12:00:00Z; it is ignored")
    priority, grace = spec.get("priority"), spec.get("terminationGracePeriodSeconds")
    return PodView(
        uid=text(metadata, "uid"),
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        created=moment(metadata.get("creationTimestamp")) or 0.0,
        ours=ours,
        node=text(spec, "nodeName"),
        phase=text(status, "phase"),
        deleting="deletionTimestamp" in metadata,
        asks=asks,
        owner=owner,
        slot=_slot(owner, text(metadata, "name"), annotations),
        gang=group_of(pod),
        priority_class=text(spec, "priorityClassName"),
        priority=priority if isinstance(priority, int) else 0,
        rule=read_rule(spec) if ours else NodeRule(),
        organization=text(labels, settings.organization_label),
        guarantee=guarantee,
        interval=interval,
        last_checkpoint=checkpoint,
        gated=bool(entries(spec, "schedulingGates")),
        refusal=_refusal(pod, spec, asks) if ours else "",
        warnings=tuple(warnings) if ours else (),
        bound_as=_binding(annotations),
        labels=tuple(sorted((str(key), str(value)) for key, value in labels.items())),
        grace=float(grace) if isinstance(grace, int) and 0 <= grace < 1e7 else 30.0,
        started=moment(status.get("startTime")) or 0.0,
    )


def with_status(view: PodView, pod: Any) -> PodView:
    """What we read of a pod of which nothing but the status has changed, or that is being deleted."""
    status = table(pod, "status")
    deleting, started = "deletionTimestamp" in table(pod, "metadata"), moment(status.get("startTime")) or 0.0
    return replace(view, phase=text(status, "phase"), deleting=deleting, started=started)


def class_of(pod: PodView, group_class: str, settings: LiveSettings) -> Priority | None:
    """HP or spot, by the class of its group if that has one, else by its own; None: neither."""
    name = group_class or pod.priority_class
    if name in settings.hp_classes:
        return Priority.HP
    if name in settings.spot_classes:
        return Priority.SPOT
    if settings.hp_from_priority is not None and pod.priority >= settings.hp_from_priority:
        return Priority.HP
    if settings.spot_to_priority is not None and pod.priority <= settings.spot_to_priority:
        return Priority.SPOT
    return None


def _refusal(pod: Any, spec: dict[str, Any], asks: Asks) -> str:
    if part := part_of_a_gpu(pod, asks.gpus):
        return f"it asks for a part of a GPU ({part}); live, only whole GPUs can be given"
    if asks.gpus < 1:
        return "it asks for no GPU; leave it to another scheduler"
    return unsupported(spec)


def _guarantee(annotations: dict[str, Any], settings: LiveSettings, warnings: list[str]) -> float | None:
    given = annotations.get(GUARANTEE)
    if given is None:
        return None
    seconds = duration(given)
    if seconds is not None and seconds / 3600 in settings.guarantees:
        return seconds / 3600
    offered = ", ".join(f"{hours:g}h" for hours in settings.guarantees)
    warnings.append(f"{GUARANTEE} = {_cut(given)}: there are {offered}; the default is used")
    return None


def _seconds(annotations: dict[str, Any], name: str, warnings: list[str]) -> float | None:
    given = annotations.get(name)
    seconds = duration(given) if given is not None else None
    if given is not None and seconds is None:
        warnings.append(f"{name} = {_cut(given)}: not a length of time such as 30m; the default is used")
    return seconds


def _slot(owner: Owner | None, name: str, annotations: dict[str, Any]) -> str:
    """Indexed Jobs and StatefulSets give their pods a place each; other controllers' pods are interchangeable."""
    if owner is None:
        return ""
    if INDEX in annotations:
        return str(annotations[INDEX])
    return name if owner.kind == "StatefulSet" else ""


def _binding(annotations: dict[str, Any]) -> Binding | None:
    name, run, submitted = (annotations.get(key) for key in (TASK, RUN, SUBMITTED))
    if not isinstance(name, str) or not str(run).isascii() or not str(run).isdigit() or len(str(run)) > 9:
        return None
    return Binding(name, max(int(str(run)), 1), moment(submitted) or 0.0)


def _cut(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
