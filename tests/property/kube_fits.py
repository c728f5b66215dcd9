"""Whether a pod may be bound to a node, read from the API's own objects: an oracle that shares no code with GFS.

It follows kube-scheduler's filters NodeResourcesFit, NodeAffinity, TaintToleration, NodeUnschedulable, and says of the
filters that GFS does not have that such a pod must not be bound at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

GPU, MODEL = "nvidia.com/gpu", "nvidia.com/gpu.product"
NOT_COUNTED = {"ephemeral-storage"}
SLACK = {"cpu": Fraction(1, 10**5), "memory": Fraction(2048)}
"""Sums of CPUs and bytes are floating-point numbers in GFS: a hundred-thousandth of a CPU, two KiB."""
SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
Json = dict[str, Any]


def amount(text: Any) -> Fraction:
    """A quantity, exactly."""
    match = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([KMGTPE]i)|([numkMGTPE]?))", str(text))
    assert match, f"no quantity: {text!r}"
    number = Fraction(match[1])
    if match[2]:
        return number * Fraction(10) ** int(match[2])
    if match[3]:
        return number * Fraction(1024) ** (1 + "KMGTPE".index(match[3][0]))
    return number * Fraction(10) ** SUFFIXES[match[4] or ""]


def requests(pod: Json) -> Counter[str]:
    """What a pod takes of each resource."""
    spec = pod["spec"]
    total, started, sidecars = Counter[str](), Counter[str](), Counter[str]()
    for container in spec.get("containers") or ():
        total.update(_asked(container))
    for container in spec.get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            sidecars.update(asked)
            now = sidecars
        else:
            now = Counter(asked)
            now.update(sidecars)
        started = Counter({name: max(started[name], now[name]) for name in {*started, *now}})
    total.update(sidecars)
    total = Counter({name: max(total[name], started[name]) for name in {*total, *started}})
    whole = _asked(spec)
    for name in ("cpu", "memory"):
        if name in whole:
            total[name] = whole[name]  # type: ignore[assignment]
    total.update({name: amount(much) for name, much in (spec.get("overhead") or {}).items()})  # type: ignore[misc]
    return total


def _asked(container: Json) -> dict[str, Any]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(much) for name, much in asked.items()}


def why_not(pod: Json, node: Json | None, others: Iterable[Json]) -> str:
    """Why a pod must not be bound to a node on which others are; '': it may."""
    if node is None:
        return "no such node"
    return (
        _unknown(pod["spec"]) or _closed(node) or _labels(pod, node) or _taints(pod, node) or _room(pod, node, others)
    )


def _unknown(spec: Json) -> str:
    affinity, required = spec.get("affinity") or {}, "requiredDuringSchedulingIgnoredDuringExecution"
    if any((affinity.get(kind) or {}).get(required) for kind in ("podAffinity", "podAntiAffinity")):
        return "required inter-pod affinity"
    spread = spec.get("topologySpreadConstraints") or ()
    if any(each.get("whenUnsatisfiable") != "ScheduleAnyway" for each in spread):
        return "spread constraints"
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if spec.get("hostNetwork") or any(port.get("hostPort") for c in containers for port in c.get("ports") or ()):
        return "host ports"
    if any(kind in volume for volume in spec.get("volumes") or () for kind in ("persistentVolumeClaim", "ephemeral")):
        return "volumes with a place"
    return "claims" if spec.get("resourceClaims") else "gates" if spec.get("schedulingGates") else ""


def _closed(node: Json) -> str:
    ready = [c for c in node["status"].get("conditions") or () if c.get("type") == "Ready"]
    if not any(c.get("status") == "True" for c in ready):
        return "node is not ready"
    return "node is cordoned" if (node.get("spec") or {}).get("unschedulable") else ""


def _labels(pod: Json, node: Json) -> str:
    labels, spec = node["metadata"].get("labels") or {}, pod["spec"]
    if not labels.get(MODEL):
        return "node without a GPU model"
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return "node selector"
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is None:
        return ""
    fields = {"metadata.name": node["metadata"]["name"]}
    for term in required.get("nodeSelectorTerms") or ():
        expressions, on_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
        if (expressions or on_fields) and all(
            [*(_met(each, labels) for each in expressions), *(_met(each, fields) for each in on_fields)]
        ):
            return ""
    return "node affinity"


def _met(need: Json, labels: Json) -> bool:
    operator, key, values = need.get("operator"), need.get("key"), need.get("values") or []
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    whole = r"[+-]?[0-9]+"
    if operator not in ("Gt", "Lt") or len(values) != 1 or key not in labels:
        return False
    if not re.fullmatch(whole, labels[key], re.ASCII) or not re.fullmatch(whole, values[0], re.ASCII):
        return False
    have, bound = int(labels[key]), int(values[0])
    return have > bound if operator == "Gt" else have < bound


def _taints(pod: Json, node: Json) -> str:
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("effect") not in ("NoSchedule", "NoExecute"):
            continue
        if not any(_tolerated(each, taint) for each in pod["spec"].get("tolerations") or ()):
            return f"taint {taint}"
    return ""


def _tolerated(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    equal = (toleration.get("value") or "") == (taint.get("value") or "")
    return toleration.get("operator") in (None, "", "Equal") and bool(toleration.get("key")) and equal


def _room(pod: Json, node: Json, others: Iterable[Json]) -> str:
    room = {name: amount(much) for name, much in (node["status"].get("allocatable") or {}).items()}
    there = [each for each in others if (each.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    if len(there) + 1 > room.get("pods", 0):
        return "pods"
    total = requests(pod)
    for name in [name for name, much in total.items() if much > 0 and name not in NOT_COUNTED]:
        used = sum((requests(each)[name] for each in there), start=Fraction(0))
        if used + total[name] > room.get(name, 0) + SLACK.get(name, 0):
            return f"{name}: {float(used)} + {float(total[name])} of {float(room.get(name, 0))}"
    return ""
