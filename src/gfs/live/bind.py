"""Binds the pods of plans, all pods of a plan together when its nodes have room. Finds plans that wait in vain.

The API server checks no capacity at a binding. So the binder checks it at the moment of sending: the node must have
room beside the pods that the mirror shows and the bindings that it does not show yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from functools import partial

from gfs.core.run import Run
from gfs.live.client import Client
from gfs.live.gate import Gate, read_pod_now
from gfs.live.pod_events import PodEvents, Spawn
from gfs.live.problems import ApiError, Conflict, NotFound, NotLeading, Outdated, TooMany, Unavailable
from gfs.live.table import Phase
from gfs.live.tasks import LiveTask, TaskBook
from gfs.live.translate.asks import Asks, less
from gfs.live.translate.gangs import GroupName
from gfs.live.translate.pods import RUN, SUBMITTED, TASK, PodView
from gfs.live.translate.quantities import rfc3339
from gfs.live.translate.shape import table, text

log = logging.getLogger("gfs.live")
TRIES = 3
LONGEST_PAUSE = 60.0
"""The longest pause before a failed start is tried again, in seconds."""
SHORT = 1.0
"""Seconds that a plan waits in any case, even if other nodes have room."""


class Binder:
    """Binds the pods of plans."""

    def __init__(
        self,
        client: Client,
        book: TaskBook,
        pod_events: PodEvents,
        spawn: Spawn,
        monotonic: Callable[[], float],
        gate: Gate,
    ) -> None:
        self._client, self._book, self._mirror, self._overlay = client, book, book.mirror, book.overlay
        self._pod_events, self._spawn, self._monotonic, self._gate = pod_events, spawn, monotonic, gate
        self.failed: dict[Run, tuple[LiveTask, str, float]] = {}
        """Plans that cannot be carried out, why, and seconds to pause."""
        self.bound = self.refused = self.under_way = 0
        """`under_way`: bindings that are not answered yet."""

    def start_ready(self, touched: Collection[str]) -> list[LiveTask]:
        """Bind the pods of plans that have room; returns those that wait for room from now on.

        `touched`: nodes that have changed since the last time, those of new plans included. A plan waits until all its
        victims are deleted, so that a gang is not evicted by half.
        """
        blocked, evicting = [], set(self._overlay.evictions.values())
        for task in list(self._book.planned):
            assert task.run is not None
            if task.run in self.failed or task.nodes.isdisjoint(touched):
                continue
            unbound = self._unbound(task)
            if any(pod.uid in self._overlay.bindings for pod in unbound):
                continue
            if task.run not in evicting and self._overlay.fits_now(unbound, task.pods):
                task.is_blocked = False
                for pod in unbound:
                    self._overlay.bind(pod, task.pods[pod.uid], task.name)
                    self._spawn(self._bind(task, task.run, pod, task.pods[pod.uid]))
            elif not task.is_blocked:
                task.is_blocked = True
                blocked.append(task)
        return blocked

    def _unbound(self, task: LiveTask) -> list[PodView]:
        pods = (self._mirror.pods.get(uid) for uid in task.pods)
        return [pod for pod in pods if pod is not None and not pod.node]

    # -- plans that wait in vain -------------------------------------------------------------------

    def overdue(self) -> Iterator[tuple[LiveTask, str]]:
        """Yields the plans to make again, and why. The pods that they waited for count as staying from now on."""
        self._give_up_hanging()
        spare: dict[str, Asks] | None = None
        for task in list(self._book.planned):
            unbound = self._unbound(task)
            if self._monotonic() - task.since <= SHORT or any(pod.uid in self._overlay.bindings for pod in unbound):
                continue
            if not unbound or self._overlay.fits_now(unbound, task.pods):
                continue
            awaited = [pod for node in task.nodes for pod in self._overlay.leaving_on(node)]
            if not awaited:
                yield task, "its nodes have no room, and no pod is leaving them"
                continue
            spare = self._spare() if spare is None else spare
            if self._take(spare, task, unbound):
                self._overlay.give_up(awaited)
                yield task, "other nodes have room now"

    def _give_up_hanging(self) -> None:
        late = [pod for pod in self._overlay.hanging() if pod.uid not in self._overlay.given_up]
        self._overlay.give_up(late)
        for pod in late:
            if pod.ours:
                since = self._mirror.settings.hang_timeout
                message = f"was to be gone over {since:.0f} s ago and is still there: no pod waits for it now"
                self._pod_events.event(pod, "EvictionHangs", message)
                log.warning(f"{pod.path} {message}")

    def _spare(self) -> dict[str, Asks]:
        """Returns what nodes that no pod has to leave can give."""
        free = {name: self._overlay.free_soon(name) for name in self._mirror.nodes}
        return {
            name: asks
            for name, asks in free.items()
            if asks is not None and asks.gpus >= 1 and not self._overlay.leaving_on(name)
        }

    def _take(self, spare: dict[str, Asks], task: LiveTask, pods: list[PodView]) -> bool:
        """Take what the pods of a plan need from spare room on other nodes; False: there is not enough."""
        assert task.task is not None
        first, left, taken = pods[0], len(pods), dict[str, Asks]()
        for node, free in spare.items():
            if node in task.nodes or not self._mirror.admits(node, first, task.task.gpu_model):
                continue
            while left and first.asks.within(free):
                free, left = less(free, first.asks), left - 1
            taken[node] = free
            if not left:
                spare.update(taken)
                return True
        return False

    # -- binding -----------------------------------------------------------------------------------

    def _objection(self, task: LiveTask, run: Run, uid: str, node: str) -> str:
        """Returns why a pod must not be bound now; empty: it may."""
        pod = self._mirror.pods.get(uid)
        if task.run is not run or task.phase is not Phase.PLANNED:
            return "it is planned no more"
        if pod is None or not pod.waits:
            return "the pod does not wait any more"
        if not self._mirror.admits(node, pod, run.task.gpu_model):
            return f"node {node} does not take it any more"
        if isinstance(task.key, GroupName) and not self._is_enough(task):
            return "its gang has fewer pods than it needs"
        free = self._overlay.free_now(node, besides=uid)
        if free is None or not pod.asks.within(free):
            return f"node {node} has no room any more"
        return ""

    def _is_enough(self, task: LiveTask) -> bool:
        """Whether the pods that a gang needs now are there, and start with this plan unless the gang runs already."""
        group, present = self._mirror.groups.get(task.key), self._mirror.present[task.key]
        if group is None or present < group.minimum:
            return False
        if (count := len(task.pods)) >= group.minimum:
            return True
        for pod in reversed(self._mirror.members[task.key].values()):  # those that were bound last come first
            if pod.uid in task.pods:
                continue
            if pod.over:
                count += pod.phase == "Succeeded"
            elif self._overlay.node_of(pod) and not pod.deleting and not self._overlay.is_evicted(pod):
                return True
        return count >= group.minimum

    async def _bind(self, task: LiveTask, run: Run, pod: PodView, node: str) -> None:
        self.under_way += 1
        try:
            await self._pod_events.withdraw(pod.uid)
            problem = await self._insist(task, run, pod, node)
        finally:
            self.under_way -= 1
        self._mirror.dirty[task.key] = None
        if problem is None:
            self.bound += 1
            self._overlay.bound(pod.uid)
            self._pod_events.event(pod, "Scheduled", f"bound to {node} (run {run.number} of {task.name})", "Normal")
        else:
            self._overlay.forget_binding(pod.uid)
            self.refused += 1
            if not isinstance(problem, NotFound | NotLeading):  # the mirror shows that a pod has gone
                log.warning(f"{pod.path} was not bound to {node}: {problem}")
                self._pod_events.event(pod, "FailedBinding", str(problem))
                pause = 0.0 if isinstance(problem, Outdated) else min(2.0**task.failures, LONGEST_PAUSE)
                self.failed.setdefault(run, (task, str(problem), pause))
        self._mirror.wake()

    async def _insist(self, task: LiveTask, run: Run, pod: PodView, node: str) -> ApiError | None:
        """Bind a pod, in several attempts if need be; None: it is bound, else why it is certainly not."""
        notes = {TASK: task.name, RUN: str(run.number), SUBMITTED: rfc3339(run.task.submit_time)}
        problem: ApiError
        pause: float
        bind = partial(self._client.bind, pod.namespace, pod.name, pod.uid, node, notes)
        for attempt in range(TRIES):
            try:
                await self._gate.send(bind, partial(self._objection, task, run, pod.uid, node))
                return None
            except (NotFound, NotLeading, Outdated) as error:
                return error
            except TooMany as error:
                problem, pause = error, error.retry_after
            except Exception as error:
                if not isinstance(error, ApiError):
                    log.exception(f"the binding of {pod.path} failed in a way that it should not")
                there = text(table(await read_pod_now(self._client, pod), "spec"), "nodeName")
                if there == node:
                    return None
                problem, pause = error if isinstance(error, ApiError) else ApiError(repr(error)), 0.2 * 4**attempt
                if there or not isinstance(problem, Unavailable | Conflict):
                    break
            await asyncio.sleep(pause)
        return problem

    def take_failed(self) -> list[tuple[LiveTask, str, float]]:
        """Returns the plans that failed and have no binding under way."""
        done = []
        for run, (task, why, pause) in list(self.failed.items()):
            if any(uid in self._overlay.bindings and not self._overlay.bindings[uid].answered for uid in task.pods):
                continue
            del self.failed[run]
            if task.run is run and task.phase is Phase.PLANNED:
                done.append((task, why, pause))
        return done
