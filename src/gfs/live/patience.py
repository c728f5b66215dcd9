"""Plans that wait: for pods that leave their nodes, or for room that should be there. None of them waits for ever."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator

from gfs.live.bind import Binder
from gfs.live.mirror import Mirror
from gfs.live.overlay import Overlay
from gfs.live.say import Speaker
from gfs.live.tasks import LiveTask, TaskBook
from gfs.live.translate.asks import NOTHING, Asks
from gfs.live.translate.pods import PodView

log = logging.getLogger("gfs.live")
SHORT = 1.0
"""Seconds that a plan waits in any case, even if other nodes have room."""
MOST = 20
"""Plans for which other nodes are looked at each time."""


class Patience:
    """Finds the plans that have waited long enough."""

    def __init__(
        self,
        mirror: Mirror,
        overlay: Overlay,
        book: TaskBook,
        binder: Binder,
        speaker: Speaker,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._mirror, self._overlay, self._book, self._binder = mirror, overlay, book, binder
        self._speaker, self._monotonic, self._wall = speaker, monotonic, wall
        self.hanging = 0
        """Pods that should have gone and have not."""

    def overdue(self) -> Iterator[tuple[LiveTask, str]]:
        """Returns the plans that are to be made again, and why; the pods they waited for count as staying."""
        looked = 0
        hanging = [pod for pod in self._mirror.leaving.values() if self._overlay.hangs(pod)]
        self.hanging = len(hanging)
        late = [pod for pod in hanging if pod.uid not in self._overlay.given_up]
        self._report([pod for pod in late if pod.ours])
        self._overlay.give_up(pod.uid for pod in late)
        nodes = {pod.node for pod in late}
        for task in list(self._book.planned):
            waits = [pod for uid in task.pods if (pod := self._mirror.pods.get(uid)) is not None and not pod.node]
            if not waits or any(pod.uid in self._overlay.bindings for pod in waits) or self._binder.fits(task, waits):
                continue
            leaving = [pod for node in task.nodes for pod in self._leaving(node)]
            waited = self._monotonic() - task.since
            if not nodes.isdisjoint(task.nodes):
                yield task, "pods that were to leave its nodes are still there"
            elif not leaving and waited > SHORT:
                yield task, "its nodes have no room, and no pod is leaving them"
            elif leaving and waited > SHORT and looked < MOST:
                looked += 1
                if self._has_room_elsewhere(task, waits):
                    self._overlay.give_up(pod.uid for pod in leaving)
                    yield task, "other nodes have room now"

    def _leaving(self, node: str) -> list[PodView]:
        pods = self._mirror.on_node.get(node, {}).values()
        return [pod for pod in pods if self._overlay.is_leaving(pod) and pod.uid not in self._overlay.given_up]

    def _report(self, pods: list[PodView]) -> None:
        for pod in pods:
            message = (
                f"was to be gone {self._wall() - pod.deleting:.0f} s ago and is still there: no pod waits for it now"
            )
            self._speaker.warn(pod, "EvictionHangs", message)
            log.warning(f"{pod.path} {message}")

    def _has_room_elsewhere(self, task: LiveTask, pods: list[PodView]) -> bool:
        """Whether all pods of a plan find room on nodes that no pod has to leave."""
        assert task.task is not None
        claimed: dict[str, tuple[Asks, int]] = {}
        for other in self._book.planned:
            for uid, node in other.pods.items():
                pod = self._mirror.pods.get(uid)
                if pod is not None and not pod.node:
                    asks, count = claimed.get(node, (NOTHING, 0))
                    claimed[node] = asks + pod.asks, count + 1
        first, found = pods[0], Counter[str]()
        for view in self._mirror.nodes.values():
            if view.model != task.task.gpu_model or view.name in task.nodes or self._leaving(view.name):
                continue
            if not first.rule.admits(view.labels, view.taints):
                continue
            asks, count = claimed.get(view.name, (NOTHING, 0))
            while sum(found.values()) < len(pods) and self._mirror.has_room(view.name, asks + first.asks, count + 1):
                asks, count = asks + first.asks, count + 1
                found[view.name] += 1
            if sum(found.values()) >= len(pods):
                return True
        return False
