"""Carrying out evictions: mark the victim, tell both sides, delete it with its own grace period."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from gfs.core.reasons import EvictReason
from gfs.core.run import Run
from gfs.live.api import Api
from gfs.live.cluster import Cluster
from gfs.live.failpoint import reach
from gfs.live.problems import ApiError
from gfs.live.say import Spawn, Speaker
from gfs.live.stop import stop_pod
from gfs.live.tasks import LiveRun
from gfs.live.translate.pods import PodView

log = logging.getLogger("gfs.live")


class Evictor:
    """Stops the pods of evicted runs."""

    def __init__(
        self,
        api: Api,
        cluster: Cluster,
        speaker: Speaker,
        spawn: Spawn,
        wake: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._api, self._cluster, self._speaker = api, cluster, speaker
        self._spawn, self._wake, self._monotonic = spawn, wake, monotonic
        self._longest = cluster.settings.longest_grace
        self.leaving: dict[Run, tuple[LiveRun, float]] = {}
        """Evicted runs -> when they should have gone, by the monotonic clock."""
        self.unbound: list[LiveRun] = []
        """Evicted runs whose bindings were under way, and of which none came about."""
        self.evicted = 0

    def evict(self, live: LiveRun, reason: EvictReason, takers: Sequence[PodView]) -> list[str]:
        """Stop a run's pods; those that were never bound, by uid: they can wait again at once."""
        pods = [pod for uid in live.pods if (pod := self._cluster.pods.get(uid))]
        placed = [pod for pod in pods if pod.uid in live.bound or pod.uid in live.binding]
        grace = max((min(pod.grace, self._longest) for pod in placed), default=0.0)
        self.leaving[live.run] = live, self._monotonic() + grace
        message = f"Preempted by {reason.by.name}: {reason.text()}"
        reach("evict-decided")
        for pod in placed:
            self._spawn(self._stop(live, pod, message))
        for taker in takers:
            victims = ", ".join(sorted(pod.path for pod in placed)[:3])
            self._speaker.event(taker, "Normal", "Preempted", f"takes the place of {victims}: {reason.text()}")
        return [pod.uid for pod in pods if pod not in placed]

    def resume(self, live: LiveRun, by: str) -> None:
        """Stop what is left of a run that was evicted before a restart."""
        pods = [pod for uid in live.pods if (pod := self._cluster.pods.get(uid))]
        self.leaving[live.run] = live, self._monotonic() + max((pod.grace for pod in pods), default=0.0)
        for pod in pods:
            if not pod.deleting:
                self._spawn(self._stop(live, pod, f"Preempted by {by}: evicted before a restart"))

    async def _stop(self, live: LiveRun, pod: PodView, message: str) -> None:
        while live.binding:  # it must be known what is bound
            await asyncio.sleep(0.05)
        if not live.bound:  # nobody is in the way, and a bare pod would not come again
            self.unbound.append(live)
            self._wake()
            return
        self._speaker.event(pod, "Warning", "Preempted", message)
        if await stop_pod(self._api, self._cluster, self._speaker, pod, "PreemptionByScheduler", message):
            self.evicted += 1

    def nominate(self, pod: PodView, node: str) -> None:
        """Say on a pod that waits for victims which node will be its."""
        self._spawn(self._nominate(pod, node))

    async def _nominate(self, pod: PodView, node: str) -> None:
        try:
            await self._speaker.patch_status(pod, {"nominatedNodeName": node})
            reach("nominated")
        except ApiError as error:
            log.debug(f"{pod.path} was not nominated: {error}")

    def gone(self, run: Run) -> None:
        """An evicted run has left."""
        self.leaving.pop(run, None)

    def hanging(self, patience: float) -> list[LiveRun]:
        """Evicted runs that should have gone by now, each told once."""
        now = self._monotonic()
        found = []
        for live, due in self.leaving.values():
            if live.reported or now <= due + patience:
                continue
            live.reported = True
            found.append(live)
            for uid in live.pods:
                if pod := self._cluster.pods.get(uid):
                    message = f"was to stop {now - due:.0f} s ago and is still there; another way is looked for"
                    self._speaker.warn(pod, "EvictionHangs", message)
                    log.warning(f"{pod.path} {message}")
        return found
