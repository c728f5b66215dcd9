"""What happens in a cluster on any day, beside the faults: nodes look strange for a moment, workloads are rolled out,
scaled, suspended and deleted. A running pod must survive all that its owner or its node does not end itself.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from world import World

from bench import manifests
from bench.client import ApiError, Manifest, path
from bench.cluster import Cluster, node_of

GPUS = 8
PAUSE = (0.1, 0.5)
"""Seconds between two events, at least and at most."""
STRANGE = (0.3, 2.0)
"""Seconds for which a node looks strange, at least and at most."""
SIZES = (1, 2, 3)
"""Replicas, or pods of a Job at once."""


class Days(threading.Thread):
    """`with Days(world, lab, office):` events happen, in a thread of its own, until the block ends.

    Workloads that somebody changes are in the namespace `office`; nodes are those of `lab`.
    """

    def __init__(self, world: World, lab: Cluster, office: Cluster) -> None:
        super().__init__(daemon=True)
        self.world, self.lab, self.office = world, lab, office
        self.random = random.Random(f"days of {world.injections.seed}")
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._count = 0
        self._deck: list[str] = []
        world.changing.add(office.namespace)

    def __enter__(self) -> Days:
        self._deploy()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        if self._error is not None:
            raise self._error
        self._insist("DELETE", path("deployments", self.office.namespace, "web"), {"propagationPolicy": "Background"})

    def run(self) -> None:
        try:
            while not self._over.is_set():
                if not self._deck:
                    self._deck = self.random.sample(list(EVENTS), len(EVENTS))
                event = self._deck.pop()
                EVENTS[event](self, event)
                self._over.wait(self.random.uniform(*PAUSE))
        except BaseException as error:
            self._error = error

    # -- nodes look strange --------------------------------------------------------------------------

    def _device_plug_in_restarted(self, event: str) -> None:
        node = self._node(event)
        with self.world.proxy.no_bindings():
            self.world.set_gpus(node, 0)
        self._wait(STRANGE)
        self.world.set_gpus(node, GPUS)

    def _feature_discovery_restarted(self, event: str) -> None:
        self._relabel(self._node(event), None)

    def _model_label_corrected_and_back(self, event: str) -> None:
        self._relabel(self._node(event), "H100")

    def _relabel(self, node: str, model: str | None) -> None:
        for value in (model, "A100"):
            self._patch(path("nodes", name=node), {"metadata": {"labels": {manifests.MODEL_LABEL: value}}})
            self._wait(STRANGE)

    def _kubelet_restarted(self, event: str) -> None:
        node = self._node(event)
        for status in ("False", "True"):
            where = path("nodes", name=node, sub="status")
            self._patch(where, {"status": {"conditions": [manifests.ready_condition(status)]}}, "strategic")
            self._wait(STRANGE)

    def _node_drained(self, event: str) -> None:
        """As `kubectl drain`, of the pods that their owners create again."""
        node = self._node(event)
        self._patch(path("nodes", name=node), {"spec": {"unschedulable": True}})
        for pod in [*self.world.pods(self.lab.namespace), *self.world.pods(self.office.namespace)]:
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            if node_of(pod) == node and pod["metadata"].get("ownerReferences"):
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
                self._insist("POST", path("pods", namespace, name, "eviction"), body)
        self._wait(STRANGE)
        self._patch(path("nodes", name=node), {"spec": {"unschedulable": None}})

    def _node_added_and_removed(self, event: str) -> None:
        """What an autoscaler does. The node is cordoned first: a binding may be under way."""
        self._count += 1
        node = f"{self.world.name}-extra-{self._count}"
        self.world.injections.note(event, node)
        self.world.create(manifests.node(node, gpus=GPUS))
        self._wait(STRANGE)
        self._patch(path("nodes", name=node), {"spec": {"unschedulable": True}})
        self._wait((1.5, 2.0))
        self._insist("DELETE", path("nodes", name=node), {})

    # -- people change what they have ----------------------------------------------------------------

    def _deploy(self) -> None:
        """An HP Deployment, of which a pod goes before its successor comes."""
        labels = {"app": "web"}
        template = manifests.pod_template(gpus=1, priority_class="gfs-hp", labels=labels, grace=1)
        template["spec"].pop("restartPolicy")
        spec = {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": template,
        }
        metadata = {"name": "web", "namespace": self.office.namespace}
        self._insist("POST", path("deployments", self.office.namespace), _kind("Deployment", "apps/v1", metadata, spec))

    def _deployment_rolled_out(self, event: str) -> None:
        note = {"metadata": {"annotations": {"version": str(self.random.random())}}}
        self._change(event, "deployments", "web", {"template": note})

    def _deployment_scaled(self, event: str) -> None:
        self._change(event, "deployments", "web", {"replicas": self.random.choice(SIZES)})

    def _job_scaled(self, event: str) -> None:
        name = self._job(event)
        for _ in range(2):
            self._wait(STRANGE)
            self._change("", "jobs", name, {"parallelism": self.random.choice(SIZES)})

    def _job_suspended_and_resumed(self, event: str) -> None:
        name = self._job(event)
        for suspend in (True, False):
            self._wait(STRANGE)
            self._change("", "jobs", name, {"suspend": suspend})

    def _job_deleted(self, event: str) -> None:
        name = self._job(event)
        self._wait(STRANGE)
        where = path("jobs", self.office.namespace, name)
        self._insist("DELETE", where, {"propagationPolicy": "Background"})

    def _pod_failed(self, event: str) -> None:
        """The kernel ends a program that takes too much memory; its Job creates the pod again."""
        name = self._job(event)
        self._wait(STRANGE)
        pods = [pod for pod in self.world.pods(self.office.namespace) if pod["status"].get("phase") == "Running"]
        for pod in [pod for pod in pods if pod["metadata"]["name"].startswith(name)][:1]:
            where = path("pods", self.office.namespace, pod["metadata"]["name"], "status")
            self._patch(where, {"status": {"phase": "Failed", "reason": "OOMKilled"}})

    def _job(self, event: str) -> str:
        """Create the Job that something happens to; returns its name."""
        self._count += 1
        name = f"work-{self._count}"
        self.world.injections.note(event, name)
        cls = self.random.choice(("gfs-hp", "gfs-spot"))
        pods, gpus = self.random.choice(SIZES), self.random.choice((1, 2, 4))
        run_for = round(self.random.uniform(2.0, 5.0), 2)
        job: dict[str, Any] = {"pods": pods, "gpus": gpus, "run_for": run_for, "priority_class": cls, "grace": 1}
        self.world.create(manifests.job(name, self.office.namespace, indexed=True, **job))
        return name

    # -- how -----------------------------------------------------------------------------------------

    def _node(self, event: str) -> str:
        node = self.random.choice(self.lab.nodes)
        self.world.injections.note(event, node)
        return node

    def _wait(self, seconds: tuple[float, float]) -> None:
        time.sleep(self.random.uniform(*seconds))

    def _change(self, event: str, kind: str, name: str, spec: Manifest) -> None:
        if event:
            self.world.injections.note(event, name)
        self._patch(path(kind, self.office.namespace, name), {"spec": spec})

    def _patch(self, where: str, change: Manifest, how: str = "merge") -> None:
        self._quietly(lambda: self.world.client.patch(where, change, how))

    def _insist(self, method: str, where: str, body: Manifest) -> None:
        self._quietly(lambda: self.world.client.request(method, where, body))

    def _quietly(self, request: Callable[[], Any]) -> None:
        """Insist; what is gone by now needs no change."""
        try:
            self.world.insist(request)
        except ApiError as error:
            if error.code != 404:
                raise


def _kind(kind: str, version: str, metadata: Manifest, spec: Manifest) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


EVENTS: dict[str, Callable[[Days, str], None]] = {
    "device plug-in restarted": Days._device_plug_in_restarted,
    "feature discovery restarted": Days._feature_discovery_restarted,
    "model label corrected and back": Days._model_label_corrected_and_back,
    "kubelet restarted": Days._kubelet_restarted,
    "node drained": Days._node_drained,
    "node added and removed": Days._node_added_and_removed,
    "Deployment rolled out": Days._deployment_rolled_out,
    "Deployment scaled": Days._deployment_scaled,
    "Job scaled": Days._job_scaled,
    "Job suspended and resumed": Days._job_suspended_and_resumed,
    "Job deleted": Days._job_deleted,
    "pod failed": Days._pod_failed,
}
