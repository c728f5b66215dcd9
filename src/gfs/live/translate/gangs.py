"""Gangs: a PodGroup of Kubernetes itself (`scheduling.k8s.io`), or of scheduler-plugins (by a label on its pods)."""

from __future__ import annotations

from typing import Any, NamedTuple

from gfs.live.translate.shape import table, text

LABEL = "scheduling.x-k8s.io/pod-group"
NATIVE, PLUGIN = "scheduling.k8s.io", "scheduling.x-k8s.io"
WHOLE = "PodGroup"
"""The disruption mode in which a group's pods go together or not at all."""


class GroupView(NamedTuple):
    """What we read of a PodGroup."""

    namespace: str
    name: str
    minimum: int
    """Pods that must start together; 1: its pods are tasks of their own."""
    priority_class: str = ""
    whole: bool = False
    """Whether its pods are disrupted all together, those beyond the minimum too."""


def read_group(group: Any) -> GroupView:
    """A PodGroup of either kind."""
    metadata, spec = table(group, "metadata"), table(group, "spec")
    least = spec.get("minMember", table(table(spec, "schedulingPolicy"), "gang").get("minCount"))
    minimum = least if isinstance(least, int) and not isinstance(least, bool) and least > 0 else 1
    mode = spec.get("disruptionMode")
    whole = mode == WHOLE or (isinstance(mode, dict) and "all" in {str(key).lower() for key in mode})
    return GroupView(
        text(metadata, "namespace"), text(metadata, "name"), minimum, text(spec, "priorityClassName"), whole
    )


def group_of(pod: Any) -> str:
    """The name of the group that a pod belongs to; empty: none."""
    native = text(table(table(pod, "spec"), "schedulingGroup"), "podGroupName")
    return native or text(table(table(pod, "metadata"), "labels"), LABEL)
