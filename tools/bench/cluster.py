"""What tests and the demo do to the bench's cluster: nodes, pods, and waiting for what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench import manifests
from bench.client import SECONDS, Client, Manifest, path
from bench.stages import HANG

KINDS = {
    "Node": "nodes",
    "Namespace": "namespaces",
    "Pod": "pods",
    "Job": "jobs",
    "Deployment": "deployments",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PriorityClass": "priorityclasses",
    "CustomResourceDefinition": "customresourcedefinitions",
}
IN_FLIGHT = 8
"""Requests at once when many objects are created."""


class Cluster:
    """Nodes and one namespace of a cluster; `remove` leaves nothing of them."""

    def __init__(self, client: Client, namespace: str, labels: Mapping[str, str] | None = None) -> None:
        self.client = client
        self.namespace = namespace
        self.nodes: list[str] = []
        client.create("namespaces", manifests.namespace(namespace, labels))

    # -- nodes ---------------------------------------------------------------------------------------------

    def add_node(self, name: str, **node: Any) -> str:
        """Add a node (see `manifests.node`) and wait until it is ready and free of taints that it was born with."""
        return self.add_nodes([manifests.node(name, **node)])[0]

    def add_nodes(self, nodes: list[Manifest]) -> list[str]:
        """Add nodes and wait until all are ready."""
        names = [node["metadata"]["name"] for node in nodes]
        self.nodes += names
        self.create(*nodes)
        self.wait("nodes", lambda seen: all(name in seen and is_ready(seen[name]) for name in names))
        return names

    def cordon(self, name: str, on: bool = True) -> None:
        """Cordon a node, or uncordon it."""
        self.client.patch(path("nodes", name=name), {"spec": {"unschedulable": on or None}})

    def taint(self, name: str, *taints: Manifest) -> None:
        """Give a node these taints and no others."""
        self.client.patch(path("nodes", name=name), {"spec": {"taints": list(taints)}})

    def fail(self, name: str) -> None:
        """The machine is gone: its node is not ready any more and nothing happens to its pods."""
        for pod in self._pods_on(name):
            self.hang(pod["metadata"]["name"], pod["metadata"]["namespace"])
        self._set_ready(name, "Unknown")

    def repair(self, name: str) -> None:
        """The machine is back; the pods that are still on it go on."""
        self._set_ready(name, "True")
        for pod in self._pods_on(name):
            self.hang(pod["metadata"]["name"], pod["metadata"]["namespace"], on=False)

    def delete_node(self, name: str) -> None:
        """Take a node away; the garbage collector removes its pods."""
        self.client.delete(path("nodes", name=name))
        self.nodes.remove(name)

    def _set_ready(self, name: str, status: str) -> None:
        change = {"status": {"conditions": [manifests.ready_condition(status)]}}
        self.client.patch(path("nodes", name=name, sub="status"), change, "strategic")

    def _pods_on(self, node: str) -> list[Manifest]:
        return self.client.items("pods", fieldSelector=f"spec.nodeName={node}")

    # -- pods and their owners -----------------------------------------------------------------------------

    def create(self, *objects: Manifest) -> list[Manifest]:
        """Create objects of any kind, those of a namespace in ours unless they say otherwise."""
        if len(objects) < IN_FLIGHT:
            return [self._create(each) for each in objects]
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            return list(pool.map(self._create, objects))

    def _create(self, manifest: Manifest) -> Manifest:
        return self.client.create(_kind(manifest), manifest)

    def pod(self, name: str, **pod: Any) -> Manifest:
        """Create a pod (see `manifests.pod`)."""
        return self.create(manifests.pod(name, self.namespace, **pod))[0]

    def job(self, name: str, **job: Any) -> Manifest:
        """Create a Job (see `manifests.job`)."""
        return self.create(manifests.job(name, self.namespace, **job))[0]

    def gang(self, name: str, pods: int, minimum: int | None = None, **pod: Any) -> list[Manifest]:
        """Create a PodGroup of Kubernetes and its pods NAME-0, NAME-1, ..."""
        group = manifests.pod_group(name, self.namespace, minimum or pods)
        members = [manifests.pod(f"{name}-{i}", self.namespace, group=name, **pod) for i in range(pods)]
        return self.create(group, *members)

    def plugin_gang(self, name: str, pods: int, minimum: int | None = None, **pod: Any) -> list[Manifest]:
        """Create a PodGroup of scheduler-plugins and its pods; the cluster must have `install_plugin_pod_groups`."""
        labels = dict(pod.pop("labels", None) or {}) | {manifests.GROUP_LABEL: name}
        group = manifests.plugin_pod_group(name, self.namespace, minimum or pods)
        members = [manifests.pod(f"{name}-{i}", self.namespace, labels=labels, **pod) for i in range(pods)]
        return self.create(group, *members)

    def get(self, pod: str) -> Manifest:
        """A pod as it is now."""
        found: Manifest = self.client.get(path("pods", self.namespace, pod))
        return found

    def bind(self, pod: str, node: str) -> None:
        """Bind a pod by hand."""
        self.client.bind(self.namespace, pod, node)

    def delete_pod(self, name: str, grace: int | None = None) -> None:
        """Delete a pod, by default with its own grace period."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.client.delete(path("pods", self.namespace, name), **options)

    def annotate(self, name: str, **annotations: str | None) -> None:
        """Set annotations of a pod: `annotate('a', **{'gfs.dev/last-checkpoint-time': ...})`; None removes one."""
        self.client.patch(path("pods", self.namespace, name), {"metadata": {"annotations": annotations}})

    def hang(self, name: str, namespace: str = "", on: bool = True) -> None:
        """Nothing happens to this pod any more: it neither completes nor ends when it is deleted."""
        change = {"metadata": {"annotations": {HANG: "true" if on else None}}}
        self.client.patch(path("pods", namespace or self.namespace, name), change)

    def events(self, name: str) -> list[Manifest]:
        """The events of an object of our namespace."""
        return self.client.items("events", self.namespace, fieldSelector=f"involvedObject.name={name}")

    # -- waiting -------------------------------------------------------------------------------------------

    def wait(
        self, kind: str, condition: Callable[[Mapping[str, Manifest]], object], seconds: float = SECONDS
    ) -> dict[str, Manifest]:
        """Wait until the objects of a kind (name -> object; ours, if it has namespaces) meet a condition."""
        namespace = "" if kind in ("nodes", "namespaces", "priorityclasses") else self.namespace
        return self.client.wait(kind, condition, namespace, seconds)

    def wait_pods(
        self, condition: Callable[[Mapping[str, Manifest]], object], seconds: float = SECONDS
    ) -> dict[str, Manifest]:
        """Wait until our pods meet a condition."""
        return self.wait("pods", condition, seconds)

    def wait_bound(self, *names: str, seconds: float = SECONDS) -> dict[str, str]:
        """Wait until these pods are bound; their nodes."""
        seen = self.wait_pods(lambda pods: all(name in pods and node_of(pods[name]) for name in names), seconds)
        return {name: node_of(seen[name]) for name in names}

    def wait_phase(self, phase: str, *names: str, seconds: float = SECONDS) -> dict[str, Manifest]:
        """Wait until these pods are in a phase."""
        return self.wait_pods(
            lambda pods: all(name in pods and pods[name]["status"].get("phase") == phase for name in names), seconds
        )

    def wait_gone(self, *names: str, seconds: float = SECONDS) -> None:
        """Wait until these pods are gone."""
        self.wait_pods(lambda pods: not any(name in pods for name in names), seconds)

    def wait_condition(self, pod: str, type_: str, seconds: float = SECONDS, **fields: str) -> Manifest:
        """Wait until a pod has a condition with these fields: status, reason, message (a part of it); the condition."""

        def found(pods: Mapping[str, Manifest]) -> Manifest | None:
            for condition in conditions(pods.get(pod, {})):
                if condition["type"] == type_ and all(text in condition.get(key, "") for key, text in fields.items()):
                    return condition
            return None

        condition = found(self.wait_pods(found, seconds))
        assert condition is not None
        return condition

    def remove(self) -> None:
        """Delete the nodes and the namespace with all that is in it; returns when no pod and no node is left."""
        for kind in ("jobs", "deployments"):
            self.client.delete(path(kind, self.namespace), propagationPolicy="Background")
        for name in self.nodes:
            self.client.delete(path("nodes", name=name))
        self.client.delete(path("pods", self.namespace), gracePeriodSeconds=0)
        self.client.delete(path("namespaces", name=self.namespace))
        self.client.wait("pods", lambda pods: not pods, self.namespace)
        self.client.wait("nodes", lambda seen: not any(name in seen for name in self.nodes))


def is_ready(node: Manifest) -> bool:
    """Whether a node is ready, and its taints say so."""
    taints = [taint["key"] for taint in node["spec"].get("taints") or ()]
    states = [c["status"] for c in conditions(node) if c["type"] == "Ready"]
    return states == ["True"] and not any(key.startswith("node.kubernetes.io/") for key in taints)


def node_of(pod: Manifest) -> str:
    """The node that a pod is bound to, or nothing."""
    return str(pod["spec"].get("nodeName") or "")


def conditions(item: Manifest) -> list[Manifest]:
    """The conditions of an object."""
    return (item.get("status") or {}).get("conditions") or []


def _kind(manifest: Manifest) -> str:
    if manifest["kind"] == "PodGroup":
        return (
            "podgroups" if manifest["apiVersion"].startswith("scheduling.k8s.io") else "podgroups.scheduling.x-k8s.io"
        )
    return KINDS[manifest["kind"]]
