"""Why a pod is refused: it asks for what GFS does not do, and is never bound blindly. Preferences are ignored."""

from __future__ import annotations

from typing import Any

from gfs.domain.limits import MOST_CPUS, MOST_GPUS_A_NODE
from gfs.live.settings import LiveSettings
from gfs.live.translate.asks import Asks, amount, requests
from gfs.live.translate.rules import BY_NAME, FIELD, REQUIRED, LabelRule
from gfs.live.translate.shape import Json, cut, entries, table, text

SHARED = ("nvidia.com/mig-", "nvidia.com/gpu.shared", "nvidia.com/gpumem", "nvidia.com/gpucores")
"""Beginnings of resource names that stand for a part of a GPU."""
FRACTION_ANNOTATIONS = ("gfs.dev/gpu-fraction", "gpu-fraction", "gpu-memory")
MOST_MEMORY = 1e8
"""GiB: 100 petabytes. No node has a hundredth of it."""
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
MOST_EXPRESSIONS = 1000
"""Labels, values and tolerations of a pod: each is compared with every kind of node."""


def refusal(pod: Any, asks: Asks, rule: LabelRule, settings: LiveSettings) -> str:
    """Returns why a pod cannot be placed, whatever the cluster is like; empty: it can."""
    spec = table(pod, "spec")
    return _amount(pod, spec, asks, settings) or _unknown_rule(spec) or unknown_affinity(rule)


def _amount(pod: Any, spec: Json, asks: Asks, settings: LiveSettings) -> str:
    for much, most, what in (
        (asks.gpus, MOST_GPUS_A_NODE, "GPUs"),
        (asks.cpus, MOST_CPUS, "CPUs"),
        (asks.memory, MOST_MEMORY, "GiB of memory"),
    ):
        if much > most:
            return f"it asks for {much:g} {what}, which no node can have"
    asking = [*map(requests, (*_containers(spec), spec)), table(spec, "overhead")]
    annotations = table(table(pod, "metadata"), "annotations")
    parts = [f"{asks.gpus:g} GPUs"] if asks.gpus != int(asks.gpus) else []
    parts += [f"resource {name}" for asked in asking for name in asked if name.startswith(SHARED)]
    parts += [f"annotation {name}" for name in FRACTION_ANNOTATIONS if name in annotations]
    if parts:
        return f"it asks for a part of a GPU ({parts[0]}); live, only whole GPUs can be given"
    if asks.gpus < 1:
        return "it asks for no GPU; leave it to another scheduler"
    counted = {settings.resource, "cpu", "memory", *settings.ignored_resources}
    for asked in asking:
        for name in asked:
            if name not in counted and amount(asked, name) > 0:
                words = "which is not counted here (the setting ignored_resources names exceptions)"
                return f"it asks for {cut(name)}, {words}"
    return ""


def _containers(spec: Json) -> list[Json]:
    return [*entries(spec, "containers"), *entries(spec, "initContainers")]


def _unknown_rule(spec: Json) -> str:
    affinity = table(spec, "affinity")
    for kind, name in (("podAffinity", "inter-pod affinity"), ("podAntiAffinity", "inter-pod anti-affinity")):
        if entries(table(affinity, kind), REQUIRED):
            return f"{name} is not supported"
    if any(text(each, "whenUnsatisfiable") != "ScheduleAnyway" for each in entries(spec, "topologySpreadConstraints")):
        return "topology spread constraints are not supported"
    ports = [port for container in _containers(spec) for port in entries(container, "ports")]
    if spec.get("hostNetwork") is True or any(port.get("hostPort") for port in ports):
        return "host ports are not supported"
    for volume in entries(spec, "volumes"):
        for tie in ("persistentVolumeClaim", "ephemeral"):
            if tie in volume:
                return f"volume {text(volume, 'name')}: {tie} may tie it to certain nodes, which is not supported"
    if entries(spec, "resourceClaims"):
        return "claims of dynamic resource allocation are not supported"
    return ""


def unknown_affinity(rule: LabelRule) -> str:
    """Returns why node selector, affinity and tolerations cannot be followed; empty: they can."""
    if rule.size > MOST_EXPRESSIONS:
        return f"its node selector, affinity and tolerations have {rule.size} parts; {MOST_EXPRESSIONS} are allowed"
    if rule.terms == ((),):
        return "its required node affinity has no terms and so no node will do"
    for need in (need for term in rule.terms for need in term):
        if need.key.startswith(FIELD):
            if need.key != BY_NAME or need.operator not in ("In", "NotIn"):
                return f"node affinity on field {need.key.removeprefix(FIELD)!r} is not supported"
        elif need.operator not in OPERATORS:
            return f"node affinity operator {need.operator!r} is not supported"
    return ""
