"""Gangs: a PodGroup of Kubernetes itself (`scheduling.k8s.io`), or of scheduler-plugins (by a label on its pods)."""

from __future__ import annotations

from typing import Any, NamedTuple

from gfs.live.translate.shape import table, text

LABEL = "scheduling.x-k8s.io/pod-group"
NATIVE, PLUGIN = "scheduling.k8s.io", "scheduling.x-k8s.io"
WHOLE = "PodGroup"
"""The disruption mode in which a group's pods go together or not at all."""
NEVER = "Never"
"""The preemption policy of pods and groups that evict no other pod."""


class GroupName(NamedTuple):
    """Identifies a PodGroup. The two kinds may use the same name."""

    kind: str
    """The API group: `NATIVE` or `PLUGIN`."""
    namespace: str
    name: str


class GroupView(NamedTuple):
    """What we read of a PodGroup."""

    minimum: int
    """Pods that must start together; 1: its pods are tasks of their own."""
    priority_class: str = ""
    whole: bool = False
    """Whether its pods are disrupted all together, those beyond the minimum too."""
    never_preempts: bool = False
    refusal: str = ""
    """Why its pods cannot be placed; empty: they can."""


def read_group(group: Any) -> GroupView:
    """Returns what we read of a PodGroup of either kind."""
    spec = table(group, "spec")
    least = spec.get("minMember", table(table(spec, "schedulingPolicy"), "gang").get("minCount"))
    minimum = least if isinstance(least, int) and least > 0 else 1
    mode = spec.get("disruptionMode")
    whole = mode == WHOLE or (isinstance(mode, dict) and "all" in {str(key).lower() for key in mode})
    topology = table(spec, "schedulingConstraints").get("topology")
    refusal = "its PodGroup asks for one topology domain, which is not supported" if topology else ""
    return GroupView(minimum, text(spec, "priorityClassName"), whole, text(spec, "preemptionPolicy") == NEVER, refusal)


def group_of(pod: Any) -> GroupName | None:
    """Returns the group that a pod belongs to; None: it belongs to none."""
    metadata = table(pod, "metadata")
    native = text(table(table(pod, "spec"), "schedulingGroup"), "podGroupName")
    plugin = text(table(metadata, "labels"), LABEL)
    if not native and not plugin:
        return None
    return GroupName(NATIVE if native else PLUGIN, text(metadata, "namespace"), native or plugin)
