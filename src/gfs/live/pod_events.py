"""Writes on pods why they wait (a condition) and what was done (events), at a bounded rate.

A sentence in which only numbers have changed is written again after a minute, then two, and so on up to ten. Another
sentence is written at once, from the fifth change on once a minute. An event with the same sentence is written every
ten minutes, with a count.

Writes wait in a queue of their own and use a quarter of the requests in flight, one while pods are being bound: they
never delay bindings. The queue holds only the last sentence of a pod, and none when the pod is about to be bound.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Coroutine, Hashable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from gfs.live.api import pod_path
from gfs.live.client import Client
from gfs.live.problems import ApiError, Conflict
from gfs.live.settings import LiveSettings
from gfs.live.translate.pods import PodView
from gfs.live.translate.quantities import rfc3339
from gfs.live.translate.shape import Json

log = logging.getLogger("gfs.live")
LONGEST = 1000
"""Characters of a message; the API server takes 1,024 in an event."""
SHARE = 4
"""Writes use one in so many of the requests in flight."""
AT_ONCE = 5
"""Changes of a sentence that are written without a pause."""

Spawn = Callable[[Coroutine[Any, Any, None]], None]
Write = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class _Written:
    """What was written on a pod: the sentence that says why it waits, and events."""

    shape: str = ""
    """Reason and sentence without numbers; empty: the pod carries none."""
    sentence: str = ""
    at: float = -inf
    """When the sentence was written."""
    pause: float = 0.0
    """Seconds after it in which other numbers are not written."""
    sentences: int = 0
    """Number of sentences that the pod has carried, not counting other numbers."""
    events: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """Reason and shape of a message -> when an event was last written, and how often it happened."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the sentence is being written."""


class PodEvents:
    """Writes conditions and events."""

    def __init__(
        self,
        api: Client,
        settings: LiveSettings,
        spawn: Spawn,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        is_busy: Callable[[], bool] = lambda: False,
        *,
        silent: bool = False,
    ) -> None:
        """`is_busy`: whether pods are being bound. `silent`: nothing is written (shadow)."""
        self._api, self._settings, self._spawn = api, settings, spawn
        self._monotonic, self._wall = monotonic, wall
        self._silent, self._is_busy = silent, is_busy
        self._most = max(1, settings.in_flight // SHARE)
        self._written: dict[str, _Written] = defaultdict(_Written)
        """By the uid of the pod."""
        self._queue: OrderedDict[Hashable, Write] = OrderedDict()
        """A pod's uid (why it waits) or what identifies an event -> how to write it."""
        self._workers = 0
        self.sent = 0

    def waits(self, pod: PodView, reason: str, sentence: str) -> None:
        """Write on a pod why it is not placed: the reason of its condition, and the sentence."""
        sentence, written, now = sentence[:LONGEST], self._written[pod.uid], self._monotonic()
        shape, shortest = f"{reason} {_shape(sentence)}", self._settings.message_interval
        is_first, same = not written.shape, shape == written.shape
        otherwise = 0.0 if written.sentences <= AT_ONCE else shortest
        pause = written.pause if same else otherwise
        if (same and sentence == written.sentence) or now - written.at < pause:
            return
        written.pause = min(2 * pause, max(self._settings.event_interval, shortest)) if same else shortest
        written.sentences += not same
        written.shape, written.sentence, written.at = shape, sentence, now
        self._enqueue(pod.uid, partial(self._write_condition, pod, written, reason, sentence, is_first))
        if not same:
            self.event(pod, "FailedScheduling", sentence)

    def why(self, uid: str) -> str:
        """Returns the sentence last written on a pod."""
        return self._written[uid].sentence if uid in self._written else ""

    def event(self, pod: PodView, reason: str, message: str, kind: str = "Warning") -> None:
        """Write an event on a pod. `kind`: Warning or Normal."""
        message, now = message[:LONGEST], self._monotonic()
        events, key = self._written[pod.uid].events, (reason, _shape(message))
        at, count = events.get(key, (-inf, 0))
        if now - at < self._settings.event_interval:
            events[key] = at, count + 1
            return
        events[key] = now, count + 1
        involved = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        self._enqueue((pod.uid, *key), partial(self._write_event, involved, kind, reason, message, count + 1))

    def announce(self, namespace: str, reason: str, message: str) -> None:
        """Write an event that concerns no pod: on the lease."""
        involved = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": namespace}
        involved |= {"name": self._settings.lease_name, "uid": ""}
        self._enqueue(("", reason, message), partial(self._write_event, involved, "Normal", reason, message, 1))

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._written.pop(uid, None)
        self._queue.pop(uid, None)

    def forget_all_but(self, uids: Container[str]) -> None:
        """Forget all other pods. Late events may have left entries of pods that are gone."""
        for uid in [uid for uid in self._written if uid not in uids]:
            self.forget(uid)

    async def withdraw(self, uid: str) -> None:
        """Write no more why a pod waits, because it is about to be bound; returns when no write is under way."""
        written = self._written[uid]
        if self._queue.pop(uid, None) is not None:
            written.shape = ""  # to be written if it waits on after all
        async with written.lock:
            pass

    # -- the queue ---------------------------------------------------------------------------------

    def _enqueue(self, what: Hashable, write: Write) -> None:
        if not self._silent:
            self._queue[what] = write
            self._add_worker()

    def _add_worker(self) -> None:
        if self._workers < (1 if self._is_busy() else self._most):
            self._workers += 1
            self._spawn(self._work())

    async def _work(self) -> None:
        """Write what is in the queue; while pods are being bound, one worker goes on."""
        try:
            while self._queue and (self._workers == 1 or not self._is_busy()):
                _, write = self._queue.popitem(last=False)
                if self._queue:
                    self._add_worker()
                try:
                    await write()
                    self.sent += 1
                except ApiError as error:  # decisions do not depend on it
                    log.debug(f"not written: {error}")
        finally:
            self._workers -= 1

    # -- writes ------------------------------------------------------------------------------------

    async def _write_condition(
        self, pod: PodView, written: _Written, reason: str, sentence: str, is_first: bool
    ) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": sentence}
        if is_first:
            condition["lastTransitionTime"] = rfc3339(self._wall())
        async with written.lock:
            try:
                await self.patch_status(pod, {"conditions": [condition]})
            except ApiError:
                if written.sentence == sentence:
                    written.shape = ""  # to be written at the next look
                raise

    async def patch_status(self, pod: PodView, status: dict[str, Any], version: str = "") -> Json:
        """Change a pod's status, if it is still the same pod (of this version); returns the changed pod."""
        metadata = {"uid": pod.uid} | ({"resourceVersion": version} if version else {})
        body = {"metadata": metadata, "status": status}
        return await self._api.patch(f"{pod_path(pod.namespace, pod.name)}/status", body)

    async def mark_disrupted(self, pod: PodView, reason: str, message: str, version: str = "") -> Json:
        """Mark a pod before its deletion, which its controller need not count as a failure; returns the changed pod."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message[:LONGEST]}
        condition["lastTransitionTime"] = rfc3339(self._wall())
        return await self.patch_status(pod, {"conditions": [condition]}, version)

    async def _write_event(self, involved: dict[str, str], kind: str, reason: str, message: str, count: int) -> None:
        namespace, when = involved["namespace"], rfc3339(self._wall())
        digest = hashlib.sha256(f"{involved['uid']} {reason} {_shape(message)}".encode()).hexdigest()[:16]
        name, path = f"{involved['name'][:200]}.{digest}", f"/api/v1/namespaces/{namespace}/events"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "count": count,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "source": {"component": self._settings.scheduler_name},
            "reportingComponent": self._settings.scheduler_name,
        }
        try:
            await self._api.create(path, body)
        except Conflict:  # it was written before
            change = {"count": count, "lastTimestamp": when, "message": message}
            await self._api.patch(f"{path}/{name}", change)


def _shape(message: str) -> str:
    """Returns a message without its numbers."""
    return re.sub(r"\d[\d.,]*", "#", message)
