"""Builders of API objects for tests without an API server."""

from __future__ import annotations

from typing import Any


def node(name: str = "n1", gpus: Any = 8, model: str = "A100", **more: Any) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": model, **more.pop("labels", {})}
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus), **more.pop("room", {})}
    conditions = [{"type": "Ready", "status": more.pop("ready", "True")}]
    return {
        "metadata": {"name": name, "labels": labels, "resourceVersion": "1"},
        "spec": more,
        "status": {"allocatable": room, "conditions": conditions},
    }


def pod(name: str = "p", gpus: Any = 1, cls: str = "gfs-spot", **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "resourceVersion": "1"}
    metadata["creationTimestamp"] = more.pop("created", "2026-01-01T00:00:00Z")
    for key in ("annotations", "labels", "ownerReferences", "deletionTimestamp"):
        if key in more:
            metadata[key] = more.pop(key)
    status = {"phase": more.pop("phase", "Pending")}
    requests = {"nvidia.com/gpu": str(gpus), "cpu": "500m", "memory": "2Gi"}
    spec = {"schedulerName": "gfs-scheduler", "priorityClassName": cls, **more}
    spec.setdefault("containers", [{"name": "main", "resources": {"requests": requests}}])
    return {"metadata": metadata, "spec": spec, "status": status}


def owned(name: str, owner: str = "train", **more: Any) -> dict[str, Any]:
    reference = {"kind": "Job", "name": owner, "uid": f"uid-of-{owner}", "controller": True}
    return pod(name, ownerReferences=[reference], **more)


def group(name: str, minimum: int, **spec: Any) -> dict[str, Any]:
    policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec}
    return {"metadata": {"name": name, "namespace": "lab", "resourceVersion": "1"}, "spec": policy}


def affinity(*terms: list[tuple[str, str, list[str]]]) -> dict[str, Any]:
    told = [
        {"matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, values in term]}
        for term in terms
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": told}}}
