"""How the work stands, counted from what the API server says of pods."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from bench.client import Manifest
from bench.cluster import conditions, node_of
from bench.manifests import GPU, SCHEDULER


@dataclass(frozen=True, slots=True)
class _Pod:
    gpus: int
    spot: bool
    bound: bool
    over: bool


class Tally:
    """Told of every change of a pod, in any thread."""

    def __init__(self, gpus: int) -> None:
        self.gpus = gpus
        self.submitted = 0
        """Tasks; the others are pods."""
        self.withdrawn = 0
        """Tasks."""
        self.bound = 0
        self.finished = 0
        self.evicted = 0
        self._pods: dict[str, _Pod] = {}
        self._bound: set[str] = set()
        self._evicted: set[str] = set()
        self._changed = threading.Condition()

    def take(self, word: str, item: Manifest) -> None:
        """A line of a watch."""
        if item.get("kind") != "Pod" or item["spec"].get("schedulerName") != SCHEDULER:
            return
        uid, phase = item["metadata"]["uid"], item["status"].get("phase")
        with self._changed:
            before = self._pods.get(uid)
            over = phase in ("Succeeded", "Failed")
            if node_of(item) and uid not in self._bound:
                self._bound.add(uid)
                self.bound += 1
            if uid not in self._evicted and any(
                mark["type"] == "DisruptionTarget" and mark.get("reason") == "PreemptionByScheduler"
                for mark in conditions(item)
            ):
                self._evicted.add(uid)
                self.evicted += 1
            if phase == "Succeeded" and not (before is not None and before.over):
                self.finished += 1
            if word == "DELETED":
                self._pods.pop(uid, None)
            else:
                asked = int(item["spec"]["containers"][0]["resources"]["requests"].get(GPU, 0))
                spot = item["spec"].get("priorityClassName") == "gfs-spot"
                self._pods[uid] = _Pod(asked, spot, bool(node_of(item)), over)
            self._changed.notify_all()

    def is_idle(self, seconds: float) -> bool:
        """Whether no pod runs any more; looks for at most so long."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(pod.over or not pod.bound for pod in self._pods.values()), seconds
            )

    def line(self) -> str:
        """GPUs in use by class, pods that wait, finished and evicted."""
        with self._changed:
            alive = [pod for pod in self._pods.values() if not pod.over]
            hp = sum(pod.gpus for pod in alive if pod.bound and not pod.spot)
            spot = sum(pod.gpus for pod in alive if pod.bound and pod.spot)
            waiting = sum(not pod.bound for pod in alive)
            return (
                f"{hp + spot} of {self.gpus} GPUs in use (HP {hp}, spot {spot}), {waiting} pods wait,"
                f" {self.finished} finished, {self.evicted} evicted"
            )
