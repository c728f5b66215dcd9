"""Objects of the API, as short to write as they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.client import Manifest
from bench.stages import RUN_FOR

SCHEDULER = "gfs-scheduler"
GPU = "nvidia.com/gpu"
MODEL_LABEL = "nvidia.com/gpu.product"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def node(
    name: str,
    gpus: int = 8,
    model: str = "A100",
    cpus: float = 64,
    memory: str = "512Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Manifest] = (),
) -> Manifest:
    """A node that is ready; without GPUs it has neither the resource nor the label."""
    room = {"cpu": f"{cpus:g}", "memory": memory, "pods": str(pods)} | ({GPU: str(gpus)} if gpus else {})
    spec: Manifest = {"taints": list(taints)} if taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **({MODEL_LABEL: model} if gpus else {}), **(labels or {})},
        },
        "spec": spec,
        "status": {"capacity": room, "allocatable": room, "conditions": [ready_condition("True")]},
    }


def ready_condition(status: str) -> Manifest:
    """The Ready condition of a node: 'True', 'False' or 'Unknown'."""
    reason = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}[status]
    return {"type": "Ready", "status": status, "reason": reason, "message": "played by the bench"}


def pod(name: str, namespace: str = "default", *, node: str = "", **template_of: Any) -> Manifest:
    """A pod by itself, on a node if one is named; everything else as for `pod_template`."""
    template = pod_template(**template_of)
    if node:
        template["spec"]["nodeName"] = node
    template["metadata"] |= {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", **template}


def pod_template(
    *,
    gpus: float = 1,
    priority_class: str = "gfs-spot",
    cpus: str = "1",
    memory: str = "1Gi",
    scheduler: str = SCHEDULER,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    group: str = "",
    grace: int | None = None,
    run_for: float | None = None,
    **spec: Any,
) -> Manifest:
    """Metadata and spec of a pod of one container, as a Job has them.

    `group`: its PodGroup, `run_for`: seconds until it succeeds, `spec`: anything else.
    """
    asked = {"cpu": cpus, "memory": memory} | ({GPU: f"{gpus:g}"} if gpus else {})
    notes = dict(annotations or {}) | ({RUN_FOR: f"{run_for:g}"} if run_for is not None else {})
    limits = {GPU: asked[GPU]} if gpus else {}
    container = {"name": "main", "image": "example.com/none", "resources": {"requests": asked, "limits": limits}}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {
        "metadata": {"labels": dict(labels or {}), "annotations": notes},
        "spec": {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container], **spec},
    }


def job(
    name: str,
    namespace: str = "default",
    *,
    pods: int = 1,
    backoff_limit: int = 6,
    indexed: bool = False,
    **template: Any,
) -> Manifest:
    """A Job of so many pods at once; an eviction does not count against its `backoffLimit`.

    `indexed`: its controller waits 10 s after a first failure of each pod, not twice as long for every pod that failed.
    """
    each = {"completionMode": "Indexed", "backoffLimitPerIndex": backoff_limit} if indexed else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            **(each or {"backoffLimit": backoff_limit}),
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
            "template": pod_template(**template),
        },
    }


def pod_group(
    name: str, namespace: str = "default", minimum: int = 1, priority_class: str = "", disruption: str = ""
) -> Manifest:
    """A gang of Kubernetes itself; disruption: 'Pod' or 'PodGroup'."""
    spec: Manifest = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if priority_class:
        spec["priorityClassName"] = priority_class
    if disruption:
        spec["disruptionMode"] = disruption
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def plugin_pod_group(name: str, namespace: str = "default", minimum: int = 1) -> Manifest:
    """A gang of scheduler-plugins; its pods have the label `GROUP_LABEL`."""
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": minimum},
    }


def definition(group: str, version: str, kind: str, spec: Manifest | None = None) -> Manifest:
    """A CustomResourceDefinition that takes anything, apart from what the schema `spec` says."""
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {**loose, **(spec or {})}, "status": loose}}
    plural = f"{kind.lower()}s"
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # the API server guards the groups of Kubernetes
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for tests"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{**served, "subresources": {"status": {}}}],
        },
    }


def plugin_pod_group_definition() -> Manifest:
    """The PodGroup of scheduler-plugins, as far as the bench needs it."""
    member = {"properties": {"minMember": {"type": "integer", "minimum": 1}}}
    return definition("scheduling.x-k8s.io", "v1alpha1", "PodGroup", member)


def disruption_budget(name: str, namespace: str, labels: Mapping[str, str], minimum: int) -> Manifest:
    """A PodDisruptionBudget: so many of the pods with these labels must stay."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": minimum, "selector": {"matchLabels": dict(labels)}},
    }


def priority_class(name: str, value: int) -> Manifest:
    """A PriorityClass of which nobody preempts but the scheduler that knows it."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Manifest:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}
