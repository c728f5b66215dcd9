"""Carrying out starts: a run's pods are bound together, when nobody is in the way any more and its nodes have room.

The API server checks no capacity at a binding, so the last check is ours: what pods hold on a node by the mirror, what
is bound and not mirrored yet, and what is about to be bound, must fit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from gfs.core.run import Run
from gfs.live.api import Api, pod_path
from gfs.live.cluster import Cluster
from gfs.live.failpoint import reach
from gfs.live.problems import ApiError, Conflict, NotFound, NotLeading, TooMany
from gfs.live.say import Spawn, Speaker
from gfs.live.stop import stop_pod
from gfs.live.tasks import LiveRun, TaskBook
from gfs.live.translate.asks import NOTHING, Asks
from gfs.live.translate.pods import RUN, SUBMITTED, TASK, PodView
from gfs.live.translate.quantities import rfc3339

log = logging.getLogger("gfs.live")
TRIES = 3
LONGEST_WAIT = 60.0
LONGEST_HALF = 10.0
"""Seconds at most until it is tried again to bind the rest of a gang of bare pods."""
LOOK_AGAIN = 0.5
"""Seconds until it is looked again whether a pod is bound, if the API server did not say."""
TAKEN_BACK = "GangTakenBack"


class Binder:
    """Binds the pods of planned runs."""

    def __init__(
        self,
        api: Api,
        cluster: Cluster,
        book: TaskBook,
        speaker: Speaker,
        spawn: Spawn,
        wake: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._api, self._cluster, self._book, self._speaker = api, cluster, book, speaker
        self._spawn, self._wake, self._monotonic = spawn, wake, monotonic
        self.starting: dict[Run, LiveRun] = {}
        """Runs whose pods are not all bound."""
        self._reserved: dict[str, dict[str, Asks]] = {}
        """Node -> pod uid -> what it asks, of bindings that the mirror does not show yet."""
        self.begun: list[LiveRun] = []
        """Runs whose last pod has just been bound."""
        self.failed: list[LiveRun] = []
        """Runs that cannot be started as planned, after their pause."""
        self.broken: list[LiveRun] = []
        """Runs that had begun, lost a pod, and have no room for the one that came in its place."""
        self.bound = self.refused = 0
        self.under_way = 0
        """Bindings that are not answered yet."""
        self.current: Callable[[], bool] = lambda: True
        """Whether the mirrors follow what happens: otherwise nothing is bound by them."""

    def is_busy(self) -> bool:
        """Whether bindings are under way: what is only said can wait."""
        return self.under_way > 0

    def plan(self, live: LiveRun) -> None:
        """A run is to be started."""
        self.starting[live.run] = live

    def forget(self, live: LiveRun) -> None:
        """A run is not to be started any more."""
        self.starting.pop(live.run, None)

    def start_ready(self, in_the_way: Callable[[Run], bool]) -> None:
        """Bind the pods of runs for which everything is ready."""
        for node, asks in list(self._reserved.items()):
            left = {uid: mine for uid, mine in asks.items() if self._is_unbound(uid)}
            if left:
                self._reserved[node] = left
            else:
                del self._reserved[node]
        refilled, self._book.refilled = self._book.refilled, {}
        for live in refilled:
            if not live.leaving and self._book.of_run.get(live.run) is live:
                self.starting[live.run], live.since = live, self._monotonic()
        for live in list(self.starting.values()):
            if live.failed or (live.open and not live.began) or live.binding or in_the_way(live.run):
                continue
            unbound = [uid for uid in live.pods if uid not in live.bound]
            if not unbound:
                self._all_bound(live)
            elif self._fits(live):
                for uid in unbound:
                    pod = self._cluster.pods.get(uid)
                    if pod is not None:
                        live.binding.add(uid)
                        self._reserved.setdefault(live.pods[uid], {})[uid] = pod.asks
                        self._spawn(self._bind(live, pod, live.pods[uid]))

    def _is_unbound(self, uid: str) -> bool:
        pod = self._cluster.pods.get(uid)
        return pod is not None and not pod.node and not pod.over

    def _fits(self, live: LiveRun) -> bool:
        for node, (asks, count) in self._book.asked(live).items():
            others = [mine for uid, mine in self._reserved.get(node, {}).items() if uid not in live.pods]
            if not self._cluster.room(node, sum(others, NOTHING) + asks, count + len(others)):
                return False
        return True

    async def _bind(self, live: LiveRun, pod: PodView, node: str) -> None:
        task = live.run.task
        self.under_way += 1
        try:
            await self._speaker.hush(pod.uid)
            problem = await self._insist(live, pod, node)
        finally:
            self.under_way -= 1
        reach("bind-answered")
        live.binding.discard(pod.uid)
        if problem is None:
            self.bound += 1
            live.bound.add(pod.uid)
            self._speaker.event(pod, "Normal", "Scheduled", f"bound to {node} (run {live.run.number} of {task.name})")
            if len(live.bound) >= task.pods and not live.open:
                self._all_bound(live)
        else:
            self._reserved.get(node, {}).pop(pod.uid, None)
            self.refused += 1
            if not isinstance(problem, NotFound | NotLeading):  # a pod that is gone is told by the mirror
                log.warning(f"{pod.path} was not bound to {node}: {problem}")
                self._speaker.event(pod, "Warning", "FailedBinding", str(problem))
                self._fail(live)
        self._wake()

    async def _insist(self, live: LiveRun, pod: PodView, node: str) -> ApiError | None:
        """Bind a pod, in several attempts if need be; None: it is bound, else why it is certainly not."""
        notes = {TASK: live.run.task.name, RUN: str(live.run.number), SUBMITTED: rfc3339(live.of.submitted)}
        problem: ApiError
        pause: float
        for attempt in range(TRIES):
            reach("bind-begun")
            try:
                await self._api.bind(pod.namespace, pod.name, pod.uid, node, notes)
                return None
            except (NotFound, NotLeading) as error:
                return error
            except TooMany as error:
                problem, pause = error, error.retry_after
            except ApiError as error:
                there = await self._look(pod)
                if there == node:
                    return None
                problem, pause = error, 0.2 * 4**attempt
                if there or not (error.uncertain or isinstance(error, Conflict)):
                    break
            await asyncio.sleep(pause)
            if not self._is_wanted(live, node):
                break
        return problem

    def _is_wanted(self, live: LiveRun, node: str) -> bool:
        """Whether a run is still to be started and its node takes pods, by all that is known by now."""
        view = self._cluster.nodes.get(node)
        return self.starting.get(live.run) is live and self.current() and view is not None and not view.closed

    async def _look(self, pod: PodView) -> str:
        """Where the pod is by now; empty: nowhere. Nobody else gets the room before it is known."""
        while True:
            try:
                found: dict[str, Any] = await self._api.find(pod_path(pod.namespace, pod.name)) or {}
                return str((found.get("spec") or {}).get("nodeName") or "")
            except ApiError:
                await asyncio.sleep(LOOK_AGAIN)

    def _all_bound(self, live: LiveRun) -> None:
        if self.starting.pop(live.run, None) is not None and not live.began:
            live.of.failures = 0
            self.begun.append(live)

    # -- starts that fail --------------------------------------------------------------------------

    def _fail(self, live: LiveRun) -> None:
        """The run is taken back, and after a pause, longer each time, decided anew; meanwhile it keeps its GPUs."""
        if live.failed:
            return
        live.failed = True
        live.of.failures += 1
        self._spawn(self._give_back(live, min(2.0 ** (live.of.failures - 1), LONGEST_WAIT)))

    async def _give_back(self, live: LiveRun, pause: float) -> None:
        while live.binding or not self.current():
            await asyncio.sleep(0.1)
        bound = [pod for uid in live.bound if (pod := self._cluster.pods.get(uid)) and not pod.over]
        owned = [pod for pod in bound if pod.owner is not None]
        await asyncio.gather(*(self.take_back(pod, "its gang could not start whole") for pod in owned))
        await asyncio.sleep(pause if len(owned) == len(bound) else min(pause, LONGEST_HALF))
        while any(self._is_unbound(pod.uid) for pod in bound if pod not in owned):  # not seen yet
            await asyncio.sleep(0.1)
        self.starting.pop(live.run, None)
        self.failed.append(live)
        self._wake()

    def overdue(self, patience: float, in_the_way: Callable[[Run], bool]) -> None:
        """Runs for which room or pods should be there by now and are not: they are taken back."""
        now = self._monotonic()
        for live in list(self.starting.values()):
            if live.failed or live.binding or in_the_way(live.run) or now - live.since <= patience:
                continue
            if live.began:  # it has lost a pod, and there is no room for another
                self.starting.pop(live.run, None)
                self.broken.append(live)
            elif live.bound:  # a pod went before it was bound, and none came in its place
                self._fail(live)
            else:
                self.starting.pop(live.run, None)
                self.failed.append(live)

    async def take_back(self, pod: PodView, why: str) -> None:
        """Delete a pod that its controller creates again."""
        self._book.taken_back.add(pod.uid)
        message = f"deleted to be created again: {why}"
        self._speaker.warn(pod, TAKEN_BACK, message)
        await stop_pod(self._api, self._cluster, self._speaker, pod, TAKEN_BACK, message)
