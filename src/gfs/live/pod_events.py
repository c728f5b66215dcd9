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
from collections import OrderedDict
from collections.abc import Callable, Container, Coroutine, Hashable
from functools import partial
from math import inf
from typing import Any, NamedTuple

from gfs.live.api import Api, pod_path
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


class _Said(NamedTuple):
    """The sentence that a pod carries."""

    shape: str = ""
    """Reason and message without numbers; empty: the pod carries none."""
    message: str = ""
    at: float = -inf
    repeats: int = 0
    """Number of writes since in which only numbers changed."""
    sentences: int = 0
    """Number of sentences that the pod has carried."""


class PodEvents:
    """Writes conditions and events."""

    def __init__(
        self,
        api: Api,
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
        self._most = max(1, settings.in_flight // SHARE)
        self._said: dict[str, _Said] = {}
        """Pod uid -> why it waits, as last written."""
        self._events: dict[str, dict[tuple[str, str], tuple[float, int]]] = {}
        """Pod uid -> reason and shape of a message -> when an event was last written, and how often it happened."""
        self._silent, self._is_busy = silent, is_busy
        self.sent = 0
        self._line: OrderedDict[Hashable, Write] = OrderedDict()
        """The queue: a pod's uid (why it waits) or what identifies an event -> how to write it."""
        self._workers = 0
        self._writing: dict[str, asyncio.Lock] = {}
        """Pod uid -> held while its condition is being written."""

    def waits(self, pod: PodView, reason: str, message: str) -> None:
        """Write on a pod why it is not placed: the reason of its condition, and the sentence."""
        message, known = message[:LONGEST], self._said.get(pod.uid, _Said())
        shape, now = f"{reason} {_shape(message)}", self._monotonic()
        same = shape == known.shape
        if (same and message == known.message) or now - known.at < self._pause(known, same):
            return
        if same:
            self._said[pod.uid] = known._replace(message=message, at=now, repeats=known.repeats + 1)
        else:
            self._said[pod.uid] = _Said(shape, message, now, sentences=known.sentences + 1)
        if self._silent:
            return
        self._say(pod.uid, partial(self._condition, pod, reason, message, first=not known.shape))
        if not same:
            self.event(pod, "Warning", "FailedScheduling", message)

    def _pause(self, known: _Said, same: bool) -> float:
        """Returns the seconds after a sentence in which it, or another one, is not written."""
        settings = self._settings
        if not same:
            return 0.0 if known.sentences <= AT_ONCE else settings.message_interval
        longest = max(settings.event_interval, settings.message_interval)
        return min(settings.message_interval * 2.0 ** min(known.repeats, 10), longest)

    def why(self, uid: str) -> str:
        """Returns the sentence last written on a pod."""
        return self._said.get(uid, _Said()).message

    def warn(self, pod: PodView, reason: str, message: str) -> None:
        """Write a warning event on a pod."""
        self.event(pod, "Warning", reason, message)

    def event(self, pod: PodView, kind: str, reason: str, message: str) -> None:
        """Write an event on a pod."""
        if self._silent:
            return
        message, now = message[:LONGEST], self._monotonic()
        sent, key = self._events.setdefault(pod.uid, {}), (reason, _shape(message))
        at, count = sent.get(key, (-inf, 0))
        if now - at < self._settings.event_interval:
            sent[key] = at, count + 1
            return
        sent[key] = now, count + 1
        involved = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        self._say((pod.uid, *key), partial(self._event, involved, kind, reason, message, count + 1))

    def announce(self, namespace: str, reason: str, message: str) -> None:
        """Write an event that concerns no pod: on the lease."""
        if not self._silent:
            involved = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": namespace}
            involved |= {"name": self._settings.lease_name, "uid": ""}
            self._say(("", reason, message), partial(self._event, involved, "Normal", reason, message, 1))

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._said.pop(uid, None)
        self._events.pop(uid, None)
        self._line.pop(uid, None)
        self._writing.pop(uid, None)

    def forget_all_but(self, uids: Container[str]) -> None:
        """Forget all other pods. Late writes may have left entries of pods that are gone."""
        for uid in [uid for uid in {**self._said, **self._events, **self._writing} if uid not in uids]:
            self.forget(uid)

    async def hush(self, uid: str) -> None:
        """Stop writing why a pod waits, because it is about to be bound; returns when no write is under way."""
        if self._line.pop(uid, None) is not None:
            self._said.pop(uid, None)  # to be written if it waits on after all
        if (writing := self._writing.get(uid)) is not None:
            async with writing:
                pass

    def _say(self, what: Hashable, write: Write) -> None:
        self._line[what] = write
        self._add_worker()

    def _add_worker(self) -> None:
        if self._workers < (1 if self._is_busy() else self._most):
            self._workers += 1
            self._spawn(self._work())

    async def _work(self) -> None:
        """Write what is in the queue; while pods are being bound, one worker goes on."""
        try:
            while self._line and (self._workers == 1 or not self._is_busy()):
                _, write = self._line.popitem(last=False)
                if self._line:
                    self._add_worker()
                try:
                    await write()
                    self.sent += 1
                except ApiError as error:  # decisions do not depend on it
                    log.debug(f"not written: {error}")
        finally:
            self._workers -= 1

    async def _condition(self, pod: PodView, reason: str, message: str, *, first: bool) -> None:
        condition: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        if first:
            condition["lastTransitionTime"] = rfc3339(self._wall())
        async with self._writing.setdefault(pod.uid, asyncio.Lock()):
            said = self._said.get(pod.uid)
            try:
                await self.patch_status(pod, {"conditions": [condition]})
            except ApiError:
                if said is not None and self._said.get(pod.uid) is said:
                    self._said[pod.uid] = said._replace(shape="", message="")  # to be written at the next look
                raise

    async def patch_status(self, pod: PodView, status: dict[str, Any], version: str = "") -> Json:
        """Change a pod's status, if it is still the same pod (of this version); returns the changed pod."""
        metadata = {"uid": pod.uid} | ({"resourceVersion": version} if version else {})
        body = {"metadata": metadata, "status": status}
        return await self._api.patch(f"{pod_path(pod.namespace, pod.name)}/status", body)

    async def mark_disrupted(self, pod: PodView, reason: str, message: str, version: str = "") -> Json:
        """Mark a pod that is about to be deleted: its controller need not count that as a failure.

        Returns the changed pod.
        """
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message[:LONGEST]}
        condition["lastTransitionTime"] = rfc3339(self._wall())
        return await self.patch_status(pod, {"conditions": [condition]}, version)

    async def _event(self, involved: dict[str, str], kind: str, reason: str, message: str, count: int) -> None:
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
