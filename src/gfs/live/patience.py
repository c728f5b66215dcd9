"""Plans that wait: for pods that leave their nodes, or for room that should be there. None of them waits for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from gfs.live.mirror import Mirror
from gfs.live.overlay import Overlay
from gfs.live.say import Speaker
from gfs.live.tasks import LiveTask, TaskBook
from gfs.live.translate.asks import Asks, less
from gfs.live.translate.pods import PodView

log = logging.getLogger("gfs.live")
SHORT = 1.0
"""Seconds that a plan waits in any case, even if other nodes have room."""


class Patience:
    """Finds the plans that have waited long enough."""

    def __init__(
        self,
        mirror: Mirror,
        overlay: Overlay,
        book: TaskBook,
        speaker: Speaker,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._mirror, self._overlay, self._book, self._speaker = mirror, overlay, book, speaker
        self._monotonic, self._wall = monotonic, wall
        self.hanging = 0
        """Pods that should have gone and have not."""

    def overdue(self) -> Iterator[tuple[LiveTask, str]]:
        """Returns the plans that are to be made again, and why; the pods they waited for count as staying."""
        hanging = [pod for pod in self._mirror.leaving.values() if self._overlay.hangs(pod)]
        self.hanging = len(hanging)
        late = [pod for pod in hanging if pod.uid not in self._overlay.given_up]
        self._report([pod for pod in late if pod.ours])
        self._overlay.give_up(pod.uid for pod in late)
        late_nodes, leaving = {pod.node for pod in late}, self._leaving()
        spare: dict[str, Asks] | None = None
        for task in list(self._book.planned):
            waits = [pod for uid in task.pods if (pod := self._mirror.pods.get(uid)) is not None and not pod.node]
            if not waits or any(pod.uid in self._overlay.bindings for pod in waits):
                continue
            if self._book.room.fits_now(waits, task.pods):
                continue
            if not late_nodes.isdisjoint(task.nodes):
                yield task, "pods that were to leave its nodes are still there"
                continue
            if self._monotonic() - task.since <= SHORT:
                continue
            awaited = [pod for node in task.nodes for pod in leaving.get(node, ())]
            if not awaited:
                yield task, "its nodes have no room, and no pod is leaving them"
                continue
            spare = self._spare(leaving) if spare is None else spare
            if self._take(spare, task, waits):
                self._overlay.give_up(pod.uid for pod in awaited)
                yield task, "other nodes have room now"

    def _leaving(self) -> dict[str, list[PodView]]:
        """Returns the pods that plans count as gone, by node."""
        pods, found = self._mirror.pods, dict[str, list[PodView]]()
        evicted = (pods[uid] for uid in self._overlay.evictions if uid in pods and uid not in self._mirror.leaving)
        for pod in (*self._mirror.leaving.values(), *evicted):
            if self._overlay.is_leaving(pod) and pod.uid not in self._overlay.given_up:
                found.setdefault(self._overlay.node_of(pod), []).append(pod)
        return found

    def _report(self, pods: list[PodView]) -> None:
        for pod in pods:
            message = (
                f"was to be gone {self._wall() - pod.deleting:.0f} s ago and is still there: no pod waits for it now"
            )
            self._speaker.warn(pod, "EvictionHangs", message)
            log.warning(f"{pod.path} {message}")

    def _spare(self, leaving: dict[str, list[PodView]]) -> dict[str, Asks]:
        """Returns what nodes that no pod has to leave can give."""
        free = {name: self._book.room.soon(name) for name in self._mirror.nodes if name not in leaving}
        return {name: asks for name, asks in free.items() if asks is not None and asks.gpus >= 1}

    def _take(self, spare: dict[str, Asks], task: LiveTask, pods: list[PodView]) -> bool:
        """Take what the pods of a plan need from spare room on other nodes; False: there is not enough."""
        assert task.task is not None
        first, left, taken = pods[0], len(pods), dict[str, Asks]()
        for node, free in spare.items():
            if node in task.nodes or not first.asks.within(free):
                continue
            if not self._mirror.admits(node, first, task.task.gpu_model):
                continue
            while left and first.asks.within(free):
                free, left = less(free, first.asks), left - 1
            taken[node] = free
            if not left:
                spare.update(taken)
                return True
        return False
