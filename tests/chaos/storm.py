"""Users who submit, and a storm that strikes whatever it finds: servers, replicas, nodes, pods, a namespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from world import LEASE, World

from bench import manifests
from bench.client import Manifest, path
from bench.cluster import Cluster

NODES, GPUS = 6, 8
GRACE = 1
LEAST = 170
"""Faults and everyday events of a storm."""


class Storm:
    """Faults at random moments while work is submitted."""

    def __init__(self, world: World, lab: Cluster, doomed: Cluster) -> None:
        self.world, self.random, self.lab, self.doomed = world, world.random, lab, doomed
        self.bench = world.bench
        self.names = self._names()
        self.faults: list[Callable[[], None]] = [
            self.kill_api_server,
            self.pause_etcd,
            self.kill_leader,
            self.pause_leader,
            self.cordon,
            self.delete_node,
            self.shrink_node,
            self.delete_waiting_pod,
            self.delete_running_pod,
        ]
        self.deck: list[Callable[[], None]] = []

    # -- users ---------------------------------------------------------------------------------------

    @staticmethod
    def _names() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield f"t{number}"

    def submit(self, namespace: str) -> None:
        """Some user wants something."""
        name, hp = next(self.names), self.random.random() < 0.35
        pod: dict[str, Any] = {
            "priority_class": "gfs-hp" if hp else "gfs-spot",
            "grace": GRACE,
            "run_for": round(self.random.uniform(2.0, 7.0), 2),
            "gpus": self.random.choice((1, 2, 4, 8)),
        }
        draw = self.random.random()
        if draw < 0.35:  # a gang of a Job
            pods = self.random.randint(2, 4)
            group = manifests.pod_group(name, namespace, pods)
            self.world.create(group, manifests.job(name, namespace, pods=pods, group=name, indexed=True, **pod))
        elif draw < 0.45:  # a gang of bare pods
            group = manifests.pod_group(name, namespace, 2)
            self.world.create(group, *(manifests.pod(f"{name}-{i}", namespace, group=name, **pod) for i in range(2)))
        elif draw < 0.85:
            self.world.create(manifests.job(name, namespace, **pod))
        else:
            self.world.create(manifests.pod(name, namespace, **pod))

    # -- what strikes --------------------------------------------------------------------------------

    def strike(self) -> None:
        """Something happens: all of it once, in some order, before anything happens again."""
        if not self.deck:
            self.deck = self.random.sample(self.faults, len(self.faults))
        self.deck.pop()()

    def kill_api_server(self) -> None:
        seconds = self.random.uniform(0.1, 5.0)
        self.world.injections.note("API server killed", f"for {seconds:.1f} s")
        self.bench.processes.stop("kube-apiserver")
        time.sleep(seconds)
        self.bench.processes.start_again("kube-apiserver")
        self.world.insist(lambda: self.world.client.get("/readyz"))

    def pause_etcd(self) -> None:
        seconds = self.random.uniform(0.5, 5.0)
        self.world.injections.note("etcd paused", f"for {seconds:.1f} s")
        self.bench.processes.pause("etcd")
        time.sleep(seconds)
        self.bench.processes.resume("etcd")

    def kill_leader(self) -> None:
        if name := self.world.leader():
            self.world.check()
            self.world.injections.note("leader killed", name)
            self.world.replicas.stop(name)
            self.world.replicas.start_again(name)

    def pause_leader(self) -> None:
        if name := self.world.leader():
            seconds = self.random.uniform(1.1, 1.5) * LEASE
            self.world.injections.note("leader paused", f"{name} for {seconds:.1f} s")
            self.world.replicas.pause(name)
            time.sleep(seconds)
            self.world.replicas.resume(name)

    def _node(self) -> str:
        return self.random.choice(self.lab.nodes)

    def cordon(self) -> None:
        node = self._node()
        self.world.injections.note("node cordoned", node)
        self.world.insist(lambda: self.lab.cordon(node))
        time.sleep(self.random.uniform(0.5, 3.0))
        self.world.insist(lambda: self.lab.cordon(node, on=False))

    def delete_node(self) -> None:
        """A node is closed, deleted with all that runs on it, and comes back."""
        node = self._node()
        self.world.insist(lambda: self.lab.cordon(node))
        time.sleep(1.5)
        self.world.injections.note("node deleted", node)
        self.world.insist(lambda: self.world.client.delete(path("nodes", name=node)))
        time.sleep(self.random.uniform(0.2, 3.0))
        self.world.create(manifests.node(node, gpus=GPUS))

    def shrink_node(self) -> None:
        """A node loses GPUs, with what runs on it staying, and gets them back."""
        node = self._node()
        self.world.injections.note("node shrunk", node)
        with self.world.proxy.no_bindings():
            self.world.set_gpus(node, self.random.randint(1, GPUS - 1))
        time.sleep(self.random.uniform(0.5, 3.0))
        self.world.set_gpus(node, GPUS)

    def _delete_some(self, fault: str, wanted: Callable[[Manifest], bool]) -> None:
        pods = [pod for pod in self.world.pods(self.lab.namespace) if wanted(pod)]
        if pods:
            pod = self.random.choice(pods)
            self.world.injections.note(fault, pod["metadata"]["name"])
            self.world.delete_pod(pod)

    def delete_waiting_pod(self) -> None:
        self._delete_some("waiting pod deleted", lambda pod: not pod["spec"].get("nodeName") and _is_owned(pod))

    def delete_running_pod(self) -> None:
        self._delete_some("running pod deleted", lambda pod: pod["status"].get("phase") == "Running" and _is_owned(pod))

    def delete_namespace(self) -> None:
        """All of a namespace at once."""
        self.world.injections.note("namespace deleted", self.doomed.namespace)
        self.world.removed.add(self.doomed.namespace)
        self.world.insist(lambda: self.world.client.delete(path("namespaces", name=self.doomed.namespace)))

    # -- the whole of it -----------------------------------------------------------------------------

    def rage(self, seconds: float, tasks: int, requests: float, lines: float) -> None:
        """Submit tasks and strike at random moments for so long, on a slow machine until there were enough faults."""
        moments = sorted(self.random.uniform(0, seconds) for _ in range(tasks))
        end = self.random.uniform(0.3, 0.6) * seconds
        began = time.monotonic()
        self.world.proxy.storm(requests, lines)
        while (now := time.monotonic() - began) < seconds or (self._too_few() and now < 3 * seconds):
            while moments and moments[0] <= now:
                moments.pop(0)
                self.submit(self._home())
            if now >= end and self.doomed.namespace not in self.world.removed:
                self.delete_namespace()
            if self.random.random() < 0.2:
                self.strike()
            time.sleep(0.1)
        for _ in moments:
            self.submit(self._home())
        self.world.proxy.calm()

    def _too_few(self) -> bool:
        return self.world.injections.count.total() < LEAST

    def _home(self) -> str:
        doomed = self.doomed.namespace
        return doomed if doomed not in self.world.removed and self.random.random() < 0.2 else self.lab.namespace


def _is_owned(pod: Manifest) -> bool:
    """Whether somebody creates it again, and no namespace or controller is deleting it already."""
    return bool(pod["metadata"].get("ownerReferences")) and "deletionTimestamp" not in pod["metadata"]
