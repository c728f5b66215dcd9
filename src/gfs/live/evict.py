"""Deletes pods, for two reasons. A gate before each deletion checks that the reason still holds:

* a spot pod makes room for an HP pod that waits and has its place (`evict`);
* a pod that was bound moments ago and has not started belongs to a gang whose other pods could not be bound, and its
  owner creates it again (`take_back`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.domain.task import Priority
from gfs.live.api import pod_path
from gfs.live.client import Client
from gfs.live.gate import Gate, read_pod_now
from gfs.live.observe import priority_of
from gfs.live.pod_events import PodEvents, Spawn
from gfs.live.problems import ApiError, Conflict, NotFound, NotLeading, Outdated, Unavailable
from gfs.live.tasks import LiveTask, TaskBook
from gfs.live.translate.pods import CREATE_AGAIN, PREEMPTED, TAKEN_BACK, TERMINAL, PodView
from gfs.live.translate.shape import Json, table, text

log = logging.getLogger("gfs.live")
PAUSE = 2.0
"""Seconds until a request that failed is tried again."""


class Evictor:
    """Deletes pods, and promises their places."""

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
        self._longest = self._mirror.settings.longest_grace
        self.evicted = 0

    # -- making room -------------------------------------------------------------------------------

    def evict(self, victim: str, pods: Sequence[PodView], reason: Reason, taker: LiveTask, run: Run) -> None:
        """Delete the pods of an evicted run, and write events on victim and taker. `run`: of the taker."""
        message = f"Preempted by {taker.name}: {reason.text()}"
        log.info(f"evict {victim} for {taker.name}: {reason.text()}")
        for pod in pods:
            self._spawn(self._see_through(pod, partial(self._evict, pod, run, message)))
        victims = ", ".join(sorted(pod.path for pod in pods)[:3])
        for uid in taker.pods:
            if victims and (mine := self._mirror.pods.get(uid)) is not None:
                self._pod_events.event(mine, "Preempted", f"takes the place of {victims}: {reason.text()}", "Normal")

    def _objection(self, uid: str, run: Run) -> str:
        """Returns why a pod must not be evicted for a run now; empty: it may."""
        pod = self._mirror.pods.get(uid)
        if pod is None or pod.over:
            return "the pod is gone"
        if priority_of(self._mirror, pod) is not Priority.SPOT:
            return "it is no spot pod"
        if not self._book.is_planned(run):
            return f"no pod of {run.task.name} waits for its place any more"
        return ""

    async def _why_not(self, uid: str, run: Run) -> str:
        """As `_objection`, as soon as the cluster is followed."""
        await self._gate.opened()
        return self._objection(uid, run)

    async def _see_through(self, pod: PodView, deletion: Callable[[], Awaitable[bool]]) -> None:
        """Await a deletion. If the pod stays, it counts again."""
        deleted = False
        try:
            deleted = await deletion()
        finally:
            if not deleted:
                self._overlay.forget_eviction(pod.uid)

    async def _evict(self, pod: PodView, run: Run, message: str) -> bool:
        while (assumed := self._overlay.bindings.get(pod.uid)) is not None and not assumed.answered:
            await asyncio.sleep(0.05)  # until the answer says whether it is bound
        why = await self._why_not(pod.uid, run)
        now, deleted = self._mirror.pods.get(pod.uid), False
        if now is not None and self._overlay.node_of(now) and not why:
            self._pod_events.event(pod, "Preempted", message)
            deleted = await self._delete_victim(pod, run, message)
        self.evicted += deleted
        return deleted

    async def _delete_victim(self, pod: PodView, run: Run, message: str) -> bool:
        """Mark a pod and delete it with its own grace period, however often it takes; False: it stays, or has gone."""
        marked = uncertain = False
        began = self._monotonic()
        capped = round(self._longest) if pod.grace > self._longest else None
        delete = partial(self._client.delete, pod_path(pod.namespace, pod.name), uid=pod.uid, grace=capped)
        while not (why := await self._why_not(pod.uid, run)):
            try:
                if not marked:
                    answer = await self._pod_events.mark_disrupted(pod, PREEMPTED, message)
                    marked = True
                    if (answer.get("status") or {}).get("phase") in TERMINAL:  # what it has done counts
                        return False
                await self._gate.send(delete, partial(self._objection, pod.uid, run))
                log.info(f"deleted {pod.path} on {pod.node}: {message}")
                return True
            except NotFound:
                return uncertain
            except Outdated:
                continue
            except NotLeading as error:
                why = str(error)
                break
            except ApiError as error:
                if isinstance(error, Conflict) and await read_pod_now(self._client, pod) is None:
                    return uncertain
                uncertain |= marked and isinstance(error, Unavailable)  # the server may have deleted it
                log.warning(f"{pod.path} was not deleted, it is tried again: {error}")
                self._give_up_late(pod, began, error)
            await asyncio.sleep(PAUSE)
        if uncertain and ((now := await read_pod_now(self._client, pod)) is None or _is_deleted(now)):
            return True
        log.info(f"{pod.path} is not deleted: {why}")
        return False

    def _give_up_late(self, pod: PodView, began: float, error: ApiError) -> None:
        """Let no task wait for a pod that the API server has not let us delete for long."""
        late = self._monotonic() - began > self._mirror.settings.hang_timeout
        if late and pod.uid not in self._overlay.given_up:
            self._overlay.give_up([pod])
            self._pod_events.event(pod, "EvictionHangs", f"could not be deleted: no pod waits for it now: {error}")
            self._mirror.wake()

    # -- promises ----------------------------------------------------------------------------------

    def nominate(self, task: LiveTask) -> None:
        """Write on waiting pods the node that a plan promises them; without a plan, remove it."""
        for uid, node in task.pods.items():
            pod = self._mirror.pods.get(uid)
            if pod is not None and pod.waits and pod.nominated != node:
                self._spawn(self._nominate(pod, node))

    async def _nominate(self, pod: PodView, node: str) -> None:
        try:
            await self._pod_events.patch_status(pod, {"nominatedNodeName": node or None})
        except ApiError as error:
            log.debug(f"{pod.path} was not nominated: {error}")

    # -- gangs that could not be bound whole -------------------------------------------------------

    def take_back(self, pods: Sequence[PodView], why: str) -> None:
        """Delete pods that have just been bound and have not started, if their owners create them again."""
        for pod in pods:
            if pod.owner is None or pod.owner.kind not in CREATE_AGAIN:
                self._pod_events.event(pod, "GangIncomplete", "held: the other pods of its gang could not be bound")
            elif pod.uid not in self._overlay.evictions:
                self._overlay.evictions[pod.uid] = None
                self._spawn(self._see_through(pod, partial(self._take_back, pod, why)))

    async def _take_back(self, pod: PodView, why: str) -> bool:
        """Mark and delete a pod only as long as it has not started: each request names the version that it is for."""
        path, message = pod_path(pod.namespace, pod.name), f"deleted to be created again: {why}"
        while True:
            try:
                found = await read_pod_now(self._client, pod)
                if found is None or _is_deleted(found) or text(table(found, "status"), "phase") not in ("", "Pending"):
                    return False  # it has gone, or has started
                marked = await self._pod_events.mark_disrupted(pod, TAKEN_BACK, message, version=_version(found))
                await self._client.delete(path, uid=pod.uid, version=_version(marked))
                log.info(f"deleted {pod.path}: {message}")
                self._pod_events.event(pod, TAKEN_BACK, message)
                return True
            except Conflict:
                continue  # the pod has changed: read it again
            except (NotFound, NotLeading):
                return False
            except ApiError as error:
                log.warning(f"{pod.path} was not taken back, it is tried again: {error}")
                await asyncio.sleep(PAUSE)


def _version(found: Json) -> str:
    return text(table(found, "metadata"), "resourceVersion")


def _is_deleted(found: Json) -> bool:
    return "deletionTimestamp" in table(found, "metadata")
