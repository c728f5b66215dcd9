"""Objects of the Kubernetes API, generated from its published schemas (kube_schemas.json, record_kube_schemas.py)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

RECORDED = json.loads((Path(__file__).parent / "kube_schemas.json").read_text())
Json = dict[str, Any]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Anything that JSON can carry, escape codes and right-to-left marks included."""
QUANTITY = st.sampled_from(
    ["0", "1", "2", "3", "4", "8", "500m", "1500m", "1Gi", "2Gi", "64Gi", "1e3", "1E3", "2k", "0.5", ".5", "1Ki", "1n",
     "9223372036854775807", "8Ei", "7E", "1000000000000", "256", "257", "1P"]
)  # fmt: skip
USUAL = st.sampled_from(["1"] * 6 + ["1", "500m", "2", "3", "1500m", "64", "1n", "8Ei"])
KEYS = ["zone", "size", "nvidia.com/gpu.product", "metadata.name", "kubernetes.io/hostname", "team"]
VALUES = ["a", "b", "A100", "H800", "4", "8", "1_0", "007", "n0", "n1", ""]
TIMES = st.sampled_from(
    ["2026-01-01T00:00:00Z", "2026-11-17T12:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
)
RESOURCES = [
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "pods",
    "ephemeral-storage",
    "hugepages-2Mi",
    "rdma/hca",
    "nvidia.com/mig-1g",
]
ANNOTATIONS = {
    "gfs.dev/guaranteed-duration": st.sampled_from(["1h", "2h", "4h", "999h", "0", "-1h"]) | TEXT,
    "gfs.dev/checkpoint-interval": st.sampled_from(["30m", "99999d", "1e9", "0"]) | TEXT,
    "gfs.dev/last-checkpoint-time": TIMES | TEXT,
    "gfs.dev/task": st.sampled_from(["lab/train", "web/x", "lab/../x", "lab/p0"]) | TEXT,
    "gfs.dev/run": st.sampled_from(["1", "12", "999999999", "-1", "٣"]) | TEXT,
    "gfs.dev/submitted": TIMES | TEXT,
    "batch.kubernetes.io/job-completion-index": st.sampled_from(["0", "1", "x" * 300]) | TEXT,
    "gpu-fraction": st.sampled_from(["0.5"]),
}
HINTS: dict[str, st.SearchStrategy[Any]] = {
    "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "", "Near"]),
    "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule", ""]),
    "key": st.sampled_from([*KEYS, ""]),
    "value": st.sampled_from(VALUES),
    "values": st.lists(st.sampled_from(VALUES), max_size=3),
    "schedulerName": st.sampled_from(["gfs-scheduler"] * 8 + ["default-scheduler"]),
    "priorityClassName": st.sampled_from(["gfs-hp"] * 5 + ["gfs-spot"] * 5 + ["other", ""]),
    "restartPolicy": st.sampled_from(["Always", "Never", "OnFailure"]),
    "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    "nodeName": st.sampled_from(["n0", "n1", "n2", "elsewhere"]),
    "podGroupName": st.sampled_from(["team", "other"]),
    "kind": st.sampled_from(["Job", "StatefulSet", "Pod"]),
    "uid": st.sampled_from(["uid-of-train", "uid-p0", "uid-p1"]),
    "matchLabels": st.dictionaries(st.sampled_from(["app", "zone"]), st.sampled_from(VALUES), max_size=2),
    "nodeSelector": st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2),
    "labels": st.dictionaries(
        st.sampled_from([*KEYS, "app", "gfs.dev/organization", "scheduling.x-k8s.io/pod-group"]),
        st.sampled_from([*VALUES, "team"]),
        max_size=3,
    ),
    "annotations": st.fixed_dictionaries({}, optional=ANNOTATIONS),
    **{
        name: st.dictionaries(st.sampled_from(RESOURCES), QUANTITY, max_size=4)
        for name in ("requests", "limits", "overhead", "allocatable", "capacity")
    },
}
"""Property name -> values that mean something to a scheduler; of all others the schema alone decides."""
OFTEN = """
    metadata spec status affinity nodeAffinity requiredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms
    matchExpressions matchFields tolerations nodeSelector initContainers resources limits requests overhead taints
    unschedulable conditions allocatable schedulingGroup ownerReferences controller annotations labels selector
    disruptionsAllowed schedulingPolicy gang minCount disruptionMode priorityClassName priority deletionTimestamp
    terminationGracePeriodSeconds topologySpreadConstraints podAntiAffinity volumes persistentVolumeClaim ports hostPort
    schedulingGates resourceClaims hostNetwork startTime
"""
"""Properties that are generated more often than others."""
TELLING = frozenset(OFTEN.split())


def of_kind(kind: str) -> st.SearchStrategy[Json]:
    """Objects of a kind, as the schema allows them."""
    return _named(RECORDED["roots"][kind])


@cache
def _named(name: str) -> st.SearchStrategy[Any]:
    short = name.rpartition(".")[2]
    if short == "Quantity":
        return QUANTITY
    if short == "IntOrString":
        return st.integers(-1, 100) | st.sampled_from(["50%", "x"])
    if short in ("Time", "MicroTime"):
        return TIMES
    schema = RECORDED["schemas"][name]
    return st.deferred(lambda: _of(schema, ""))


def _of(schema: Json, name: str) -> st.SearchStrategy[Any]:
    if name in HINTS:
        return HINTS[name]
    if "$ref" in schema:
        return _named(schema["$ref"])
    if schema.get("enum"):
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if schema.get("properties"):
            return _record(schema)
        case "object":
            inner = schema.get("additionalProperties")
            return st.dictionaries(TEXT, _of(inner, "") if isinstance(inner, dict) else TEXT, max_size=2)
        case "array":
            return st.lists(_of(schema["items"], ""), max_size=2)
        case "integer":
            most = 2**63 - 1 if schema.get("format") == "int64" else 2**31 - 1
            return st.integers(0, 4) | st.integers(-most - 1, most)
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
    return TEXT


@st.composite
def _record_of(draw: st.DrawFn, schema: Json) -> Json:
    properties, required = schema["properties"], schema.get("required", ())
    pool = [name for name in properties for _ in range(8 if name in TELLING else 1)]
    chosen = draw(st.lists(st.sampled_from(pool), max_size=6))
    made = {name: draw(_of(properties[name], name)) for name in dict.fromkeys((*required, *chosen))}
    if chosen and chosen[0] not in required and draw(st.integers(0, 19)) == 19:
        made[chosen[0]] = None  # as an empty list of Go may be written
    return made


def _record(schema: Json) -> st.SearchStrategy[Json]:
    return _record_of(schema)


# -- objects that can be placed ------------------------------------------------------------------------------

RULES = ("affinity", "tolerations", "nodeSelector", "initContainers", "overhead", "schedulingGroup", "resources")
RARELY = ("volumes", "topologySpreadConstraints", "resourceClaims", "schedulingGates", "hostNetwork", "nodeName")
"""Fields for which a pod is refused, or that another has bound."""
NOTES = (
    "annotations",
    "labels",
    "ownerReferences",
    "annotations",
    "labels",
    "ownerReferences",
    "finalizers",
    "deletionTimestamp",
)


def _some(kind: str, part: str, names: tuple[str, ...], most: int) -> st.SearchStrategy[Json]:
    """A few fields of a part of an object, as the schema has them."""
    schema = RECORDED["schemas"][RECORDED["roots"][kind]]["properties"][part]
    properties = RECORDED["schemas"][schema["$ref"]]["properties"]
    chosen = st.lists(st.sampled_from(names), max_size=most, unique_by=lambda name: name)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: _of(properties[name], name) for name in names}))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Json:
    """A node that mostly can be used."""
    labels = {"nvidia.com/gpu.product": draw(st.sampled_from(["A100"] * 11 + ["H800"]))}
    labels |= draw(st.dictionaries(st.sampled_from(["zone", "size", "team"]), st.sampled_from(VALUES), max_size=3))
    room = {"nvidia.com/gpu": draw(st.sampled_from(["4", "8", "2"]))}
    room |= {"cpu": draw(st.sampled_from(["4", "64", "1500m"]))}
    room |= {"memory": draw(st.sampled_from(["64Gi", "2Gi"])), "pods": draw(st.sampled_from(["110", "2"]))}
    ready = draw(st.sampled_from(["True", "True", "True", "True", "False", "Unknown"]))
    spec = draw(_some("Node", "spec", ("taints", "taints", "podCIDR", "unschedulable"), 1))
    return {
        "metadata": {"name": name, "labels": labels, "resourceVersion": "1"},
        "spec": spec,
        "status": {"allocatable": room, "conditions": [{"type": "Ready", "status": ready}]},
    }


@st.composite
def pods(draw: st.DrawFn, name: str) -> Json:
    """A pod that mostly can be placed."""
    metadata = draw(_some("Pod", "metadata", NOTES, 2))
    metadata |= {"name": name, "uid": f"uid-{name}", "namespace": draw(st.sampled_from(["lab", "lab", "web"]))}
    metadata |= {"creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
    spec = draw(_some("Pod", "spec", RULES, 2))
    if not draw(st.integers(0, 7)):
        spec |= draw(_some("Pod", "spec", RARELY, 1))
    asked = {"nvidia.com/gpu": draw(st.sampled_from(["1", "1", "2", "4", "8"])), "cpu": draw(USUAL)}
    if not draw(st.integers(0, 5)):
        asked |= draw(HINTS["requests"])
    more = [draw(_named("io.k8s.api.core.v1.Container"))] if not draw(st.integers(0, 5)) else []
    spec["containers"] = [{"name": "main", "resources": {"requests": asked}}, *more]
    spec["schedulerName"] = draw(HINTS["schedulerName"])
    spec["priorityClassName"] = draw(HINTS["priorityClassName"])
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
