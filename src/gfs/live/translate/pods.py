"""Pods: what we read of one, whether it is ours or only holds resources on our nodes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from gfs.domain.task import Priority
from gfs.live.settings import LiveSettings
from gfs.live.translate.antiaffinity import Apart, read_apart
from gfs.live.translate.asks import Asks, read_asks
from gfs.live.translate.gangs import NEVER, GroupName, group_of
from gfs.live.translate.quantities import duration, moment, rfc3339
from gfs.live.translate.rules import LabelRule, read_rule
from gfs.live.translate.shape import Json, cut, entries, table, text
from gfs.live.translate.unsupported import refusal

GUARANTEE, INTERVAL = "gfs.dev/guaranteed-duration", "gfs.dev/checkpoint-interval"
LAST_CHECKPOINT = "gfs.dev/last-checkpoint-time"
TASK, RUN, SUBMITTED = "gfs.dev/task", "gfs.dev/run", "gfs.dev/submitted"
"""Annotations that we write when we bind a pod: after a restart they say which run the pod belongs to."""
INDEX = "batch.kubernetes.io/job-completion-index"
TERMINAL = ("Succeeded", "Failed")
PREEMPTED, TAKEN_BACK = "PreemptionByScheduler", "GangTakenBack"
"""Reasons of the condition `DisruptionTarget` on a pod that makes room for another, and on one whose gang could not be
bound whole."""
CREATE_AGAIN = ("Job", "ReplicaSet", "StatefulSet", "DaemonSet")
"""Kinds of owners that create a pod again when one of theirs was deleted."""
MALFORMED, DOUBTED = "InvalidAnnotation", "ClaimNotBelieved"
CLAIMS = ("guarantee", "checkpoint-interval", "last-checkpoint", "organization", "grace", "task", "submitted")
"""Claims of pods that may be doubted, each with a counter."""
_TASK_NAME = re.compile(r"[a-z0-9.#/-]{1,600}")
_SLOT = re.compile(r"[0-9]{1,9}")


class Doubt(NamedTuple):
    """A claim of a pod that is not believed, or not as far as it goes."""

    claim: str
    """One of `CLAIMS`."""
    reason: str
    """Of the event: `MALFORMED` or `DOUBTED`."""
    text: str


class Owner(NamedTuple):
    """The controller of a pod."""

    kind: str
    name: str
    uid: str


class Binding(NamedTuple):
    """What was written on a pod when it was bound."""

    task: str
    run: int
    submitted: float


class PodView(msgspec.Struct, frozen=True):
    """What we read of a pod."""

    uid: str
    namespace: str
    name: str
    created: float
    ours: bool
    node: str
    """Empty: not bound."""
    phase: str
    deleting: float
    """When it is to be gone, grace period included, in seconds since 1970; 0: it is not deleted."""
    preempted: bool
    """Whether we have marked it for deletion: it makes room for another pod, or is taken back."""
    nominated: str
    """The node that is promised to it while others leave it; empty: none."""
    asks: Asks
    owner: Owner | None
    slot: str
    """Which of its owner's pods it is, where these are not interchangeable; empty: any."""
    gang: GroupName | None
    """Its PodGroup."""
    priority_class: str
    priority: int
    never_preempts: bool
    apart: tuple[Apart, ...]
    """Which pods must not come near it."""
    rule: LabelRule
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
    doubts: tuple[Doubt, ...]
    """Its claims that are not believed."""
    bound_as: Binding | None
    labels: dict[str, str]
    grace: float
    started: float
    """When it was first seen on its node; 0: not known."""

    @property
    def path(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def over(self) -> bool:
        """Whether it has ended, and holds nothing."""
        return self.phase in TERMINAL

    @property
    def waits(self) -> bool:
        """Whether it is there to be placed."""
        return not self.node and not self.over and not self.deleting and not self.gated

    def keeps_away(self, other: PodView) -> bool:
        """Whether its anti-affinity allows no such pod near it."""
        return any(term.keeps_away(other.namespace, other.labels) for term in self.apart)


def read_pod(pod: Any, settings: LiveSettings) -> PodView:
    """Returns a pod as we see it, whatever it looks like."""
    metadata, spec = table(pod, "metadata"), table(pod, "spec")
    annotations, labels = table(metadata, "annotations"), table(metadata, "labels")
    asks = read_asks(spec, settings)
    ours = text(spec, "schedulerName") == settings.scheduler_name
    owners = [each for each in entries(metadata, "ownerReferences") if each.get("controller") is True]
    owner = Owner(text(owners[0], "kind"), text(owners[0], "name"), text(owners[0], "uid")) if owners else None
    namespace, name = text(metadata, "namespace"), text(metadata, "name")
    doubts: list[Doubt] = []
    rule = read_rule(spec) if ours else LabelRule()
    priority = spec.get("priority")
    return PodView(
        uid=text(metadata, "uid"),
        namespace=namespace,
        name=name,
        created=_created(metadata),
        ours=ours,
        node=text(spec, "nodeName"),
        asks=asks,
        owner=owner,
        slot=_slot(owner, name, annotations),
        gang=group_of(pod),
        priority_class=text(spec, "priorityClassName"),
        priority=priority if isinstance(priority, int) else 0,
        never_preempts=text(spec, "preemptionPolicy") == NEVER,
        apart=read_apart(spec, namespace),
        rule=rule,
        organization=text(labels, settings.organization_label),
        guarantee=_guarantee(annotations, settings, doubts),
        interval=_interval(annotations, settings, doubts),
        last_checkpoint=_last_checkpoint(annotations, doubts),
        gated=bool(entries(spec, "schedulingGates")),
        refusal=refusal(pod, asks, rule, settings) if ours else "",
        bound_as=_binding(pod, settings, doubts) if ours else None,
        doubts=tuple(doubts),
        labels={str(key): str(value) for key, value in labels.items()},
        grace=_grace(spec),
        **read_status(pod),
    )


def _created(metadata: Json) -> float:
    return moment(metadata.get("creationTimestamp")) or 0.0


def read_status(pod: Any) -> Json:
    """Returns the fields of a view that change while a pod runs, or when it is deleted."""
    metadata, status = table(pod, "metadata"), table(pod, "status")
    marks = [each for each in entries(status, "conditions") if each.get("type") == "DisruptionTarget"]
    ours = [each for each in marks if each.get("status") == "True" and each.get("reason") in (PREEMPTED, TAKEN_BACK)]
    return {
        "phase": text(status, "phase"),
        # a time that cannot be read has passed
        "deleting": (moment(metadata["deletionTimestamp"]) or 1.0) if "deletionTimestamp" in metadata else 0.0,
        "preempted": bool(ours),
        "nominated": text(status, "nominatedNodeName"),
        "started": moment(status.get("startTime")) or 0.0,
    }


def class_of(pod: PodView, group_class: str, settings: LiveSettings) -> Priority | None:
    """Returns HP or spot, by the class of its group if that has one, else by its own; None: neither."""
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


def _guarantee(annotations: Json, settings: LiveSettings, doubts: list[Doubt]) -> float | None:
    given = annotations.get(GUARANTEE)
    hours = (duration(given) or 0.0) / 3600
    if hours in settings.guarantees:
        return hours
    if given is not None:
        offered = ", ".join(f"{each:g}h" for each in settings.guarantees)
        told = f"{GUARANTEE} = {cut(given)}: there are {offered}; the default is used"
        doubts.append(Doubt("guarantee", MALFORMED, told))
    return None


def _interval(annotations: Json, settings: LiveSettings, doubts: list[Doubt]) -> float | None:
    """Returns the checkpoint interval. It has a limit: a pod that rarely saves would lose much and is evicted last."""
    given, longest = annotations.get(INTERVAL), settings.longest_checkpoint_interval
    seconds = duration(given)
    if seconds is None and given is not None:
        told = f"{INTERVAL} = {cut(given)}: not a length of time such as 30m; the default is used"
        doubts.append(Doubt("checkpoint-interval", MALFORMED, told))
    elif seconds is not None and seconds > longest:
        told = f"{INTERVAL} = {cut(given)}: counts as {longest:g} s, the longest that is believed"
        doubts.append(Doubt("checkpoint-interval", DOUBTED, told))
        return longest
    return seconds


def _last_checkpoint(annotations: Json, doubts: list[Doubt]) -> float | None:
    given = annotations.get(LAST_CHECKPOINT)
    at = moment(given)
    if at is None and given is not None:
        told = f"{LAST_CHECKPOINT} = {cut(given)}: not a time such as 2026-04-01T12:00:00Z; it is ignored"
        doubts.append(Doubt("last-checkpoint", MALFORMED, told))
    return at


def _slot(owner: Owner | None, name: str, annotations: Json) -> str:
    """Returns a pod's place: Indexed Jobs and StatefulSets give one, pods of other controllers are interchangeable."""
    if owner is None:
        return ""
    index = text(annotations, INDEX)
    if _SLOT.fullmatch(index):
        return index
    return name if owner.kind == "StatefulSet" else ""


def _binding(pod: Any, settings: LiveSettings, doubts: list[Doubt]) -> Binding | None:
    """Returns the note of the binding. Users can write it too: it counts on bound pods and for their namespace."""
    metadata, bound = table(pod, "metadata"), bool(text(table(pod, "spec"), "nodeName"))
    annotations = table(metadata, "annotations")
    if annotations.keys().isdisjoint((TASK, RUN, SUBMITTED)):
        return None
    name, run, submitted = text(annotations, TASK), text(annotations, RUN), annotations.get(SUBMITTED)
    mine = name.startswith(f"{text(metadata, 'namespace')}/") and _TASK_NAME.fullmatch(name)
    if not bound or not mine or not _SLOT.fullmatch(run):
        told = f"{TASK}, {RUN} and {SUBMITTED} are written by the scheduler only; what stands there is ignored"
        doubts.append(Doubt("task", DOUBTED, told))
        return None
    at, earliest = moment(submitted) or 0.0, _created(metadata) - settings.earlier_submission
    if 0.0 < at < earliest:
        told = f"{SUBMITTED} = {cut(submitted)}: counts as {rfc3339(earliest)}, the earliest that is believed"
        doubts.append(Doubt("submitted", DOUBTED, told))
    return Binding(name, max(int(run), 1), max(at, earliest) if at > 0.0 else 0.0)


def _grace(spec: Json) -> float:
    grace = spec.get("terminationGracePeriodSeconds")
    return float(grace) if isinstance(grace, int) and 0 <= grace < 2**63 else 30.0
