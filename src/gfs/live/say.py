"""What is said to people on their pods: why one waits (a condition), and what was done (events), without a flood.

A sentence in which only numbers have changed is told again after a minute, then two, and so on up to ten; another one
at once, from the fifth on once a minute. An event that says the same is sent every ten minutes, with a count.

What is said waits in a line of its own, of which a few requests at a time are sent, one while pods are being bound:
under load it never delays what is done. In that line a pod has one sentence, the last one, and none when it is about to
be bound.
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

from gfs.live.api import MERGE, STRATEGIC, Api, pod_path
from gfs.live.problems import ApiError, Conflict, NotFound
from gfs.live.settings import LiveSettings
from gfs.live.translate.pods import PodView
from gfs.live.translate.quantities import rfc3339
from gfs.live.translate.shape import Json

log = logging.getLogger("gfs.live")
LONGEST = 1000
"""Characters of a message; the API server takes 1,024 in an event."""
SHARE = 4
"""What is said takes one in so many of the requests in flight: thousands of messages delay no binding."""
AT_ONCE = 5
"""Changes of a sentence that are told without a pause."""
IN_FLIGHT = 8
"""Requests that only say something, at a time: a quarter of those that a controller has in flight by default."""

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class _Said(NamedTuple):
    shape: str
    message: str
    at: float
    repeats: int = 0
    """How often only its numbers have changed since."""
    changes: int = 0
    """How often it was another sentence."""


class Speaker:
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
        """`is_busy`: whether something is being done; meanwhile one request at a time says something.

        `silent`: a shadow says nothing.
        """
        self._api, self._settings, self._spawn = api, settings, spawn
        self._monotonic, self._wall = monotonic, wall
        self._free = asyncio.Semaphore(max(1, settings.in_flight // SHARE))
        self._said: dict[str, _Said] = {}
        """Pod uid -> why it waits, as last told."""
        self._events: dict[str, dict[tuple[str, str], tuple[float, int]]] = {}
        """Pod uid -> reason and shape of a message -> when an event was last sent, and how often it was said."""
        self._silent, self._is_busy = silent, is_busy
        self.sent = 0
        self._line: OrderedDict[Hashable, Callable[[], Coroutine[Any, Any, None]]] = OrderedDict()
        """What is to be said: a pod's uid (why it waits) or an event's name -> how."""
        self._speaking = 0
        self._under_way: dict[str, asyncio.Event] = {}
        """Pod uid -> set when the request is over that says why it waits."""

    def waits(self, pod: PodView, reason: str, message: str) -> None:
        """A pod is not placed: the reason of its condition, and the sentence."""
        message, known = message[:LONGEST], self._said.get(pod.uid)
        shape, now = f"{reason} {_shape(message)}", self._monotonic()
        if known is not None and (known.shape, known.message) == (shape, message):
            return
        if known is not None and now - known.at < self._pause(known, shape):
            return
        if known is None:
            self._said[pod.uid] = _Said(shape, message, now)
        elif known.shape == shape:
            self._said[pod.uid] = known._replace(message=message, at=now, repeats=known.repeats + 1)
        else:
            self._said[pod.uid] = _Said(shape, message, now, 0, known.changes + 1)
        if self._silent:
            return
        self._say(pod.uid, partial(self._condition, pod, reason, message, first=known is None))
        if known is None or known.shape != shape:
            self.event(pod, "Warning", "FailedScheduling", message)

    def _pause(self, known: _Said, shape: str) -> float:
        """Seconds after a sentence in which another one is not told."""
        settings = self._settings
        if shape != known.shape:
            return 0.0 if known.changes < AT_ONCE else settings.message_interval
        longest = max(settings.event_interval, settings.message_interval)
        return min(settings.message_interval * 2.0 ** min(known.repeats, 10), longest)

    def why(self, uid: str) -> str:
        """What was last said of a pod."""
        known = self._said.get(uid)
        return known.message if known else ""

    def warn(self, pod: PodView, reason: str, message: str) -> None:
        """Something about a pod is not as it should be."""
        self.event(pod, "Warning", reason, message)

    def event(self, pod: PodView, kind: str, reason: str, message: str) -> None:
        """Something was done with a pod."""
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
        self._say((pod.uid, *key), partial(self._send, involved, kind, reason, message, count + 1))

    def announce(self, namespace: str, reason: str, message: str) -> None:
        """Something concerns no pod in particular: an event of the lease."""
        if not self._silent:
            involved = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": namespace}
            involved |= {"name": self._settings.lease_name, "uid": ""}
            self._say(("", reason, message), partial(self._send, involved, "Normal", reason, message, 1))

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._said.pop(uid, None)
        self._events.pop(uid, None)
        self._line.pop(uid, None)

    def forget_all_but(self, uids: Container[str]) -> None:
        """Only these pods are there: what was said after others had gone is forgotten, too."""
        for uid in [uid for uid in {**self._said, **self._events} if uid not in uids]:
            self.forget(uid)

    async def hush(self, uid: str) -> None:
        """A pod is about to be bound: that it waits must not be written on it any more."""
        if self._line.pop(uid, None) is not None:
            self._said.pop(uid, None)  # if it waits on after all, that is to be said
        while (writing := self._under_way.get(uid)) is not None:
            await writing.wait()

    def _say(self, what: Hashable, how: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._line[what] = how
        self._hire()

    def _hire(self) -> None:
        if self._speaking < (1 if self._is_busy() else IN_FLIGHT):
            self._speaking += 1
            self._spawn(self._speak())

    async def _speak(self) -> None:
        """Say what is to be said, one after the other, until there is nothing more or others have something to do."""
        try:
            while self._line and (self._speaking == 1 or not self._is_busy()):
                _, how = self._line.popitem(last=False)
                if self._line:
                    self._hire()
                await how()
        finally:
            self._speaking -= 1

    async def _condition(self, pod: PodView, reason: str, message: str, *, first: bool) -> None:
        condition: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        if first:
            condition["lastTransitionTime"] = rfc3339(self._wall())
        while (writing := self._under_way.get(pod.uid)) is not None:  # one after the other
            await writing.wait()
        said = self._said.get(pod.uid)
        over = self._under_way[pod.uid] = asyncio.Event()
        try:
            done = await self._try(self.patch_status(pod, {"conditions": [condition]}))
        finally:
            over.set()
            del self._under_way[pod.uid]
        if not done and said is not None and self._said.get(pod.uid) is said:
            self._said[pod.uid] = said._replace(message="")  # it is told again after the pause

    async def patch_status(self, pod: PodView, status: dict[str, Any], version: str = "") -> Json:
        """Change a pod's status, if it is still the same pod (of this version); returns the pod as it is then."""
        metadata = {"uid": pod.uid} | ({"resourceVersion": version} if version else {})
        body = {"metadata": metadata, "status": status}
        return await self._api.patch(f"{pod_path(pod.namespace, pod.name)}/status", body, STRATEGIC)

    async def mark_disrupted(self, pod: PodView, reason: str, message: str, version: str = "") -> Json:
        """Say on a pod that it is about to be deleted by us: its controller need not count that as its failure.

        Returns the pod as it is then.
        """
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message[:LONGEST]}
        condition["lastTransitionTime"] = rfc3339(self._wall())
        return await self.patch_status(pod, {"conditions": [condition]}, version)

    async def _send(self, involved: dict[str, str], kind: str, reason: str, message: str, count: int) -> None:
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
        if count == 1:
            try:
                async with self._free:
                    await self._api.create(path, body)
                self.sent += 1
                return
            except Conflict:  # said by ourselves before a restart
                pass
            except ApiError as error:
                log.debug(f"an event of {namespace}/{involved['name']} was not written: {error}")
                return
        change = {"count": count, "lastTimestamp": when, "message": message}
        await self._try(self._api.patch(f"{path}/{name}", change, MERGE))

    async def _try(self, request: Coroutine[Any, Any, Any]) -> bool:
        """What is said matters less than what is done: nothing fails because it cannot be said. False: try again."""
        try:
            async with self._free:
                await request
            self.sent += 1
        except NotFound:
            pass
        except ApiError as error:
            log.debug(f"not said: {error}")
            return False
        finally:
            request.close()  # told to stop before its turn came
        return True


def _shape(message: str) -> str:
    """A message without its numbers."""
    return re.sub(r"\d[\d.,]*", "#", message)
