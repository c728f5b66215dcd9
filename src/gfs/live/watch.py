"""Reflectors keep the mirror: each lists the objects of one kind, then follows a watch.

A watch that ends resumes where it ended; after `Gone` the reflector lists again. The mirror gets the first list when it
is complete, and the differences of later lists. A resync repairs what a watch lost. Old events are ignored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from math import inf

from gfs.live.api import WATCH_SECONDS, Api
from gfs.live.mirror import Mirror
from gfs.live.problems import ApiError, Gone, NotFound
from gfs.live.translate.gangs import NATIVE, PLUGIN
from gfs.live.translate.shape import Json, table, text

Changed = Callable[[Json | None, Json | None], None]
"""Called with the object before and after a change; None: not there."""

Find = Callable[[], Awaitable[str]]
"""Returns the path of a kind; empty: the API server does not have the kind."""

FIRST_WAIT, LONGEST_WAIT = 0.2, 3.0
ABSENT = 60.0
"""Seconds until a kind is looked for again that the API server does not have."""
log = logging.getLogger("gfs.live")


def uid_of(thing: Json) -> str:
    """Returns what distinguishes an object from another one of the same name."""
    return text(table(thing, "metadata"), "uid")


def _name_of(thing: Json) -> tuple[str, str]:
    metadata = table(thing, "metadata")
    return text(metadata, "namespace"), text(metadata, "name")


def _version_of(thing: Json) -> str:
    return text(table(thing, "metadata"), "resourceVersion")


class Reflector:
    """Keeps `objects` like those of the API server."""

    def __init__(
        self,
        api: Api,
        find: Find,
        changed: Changed,
        woken: Callable[[], None],
        resync: float = inf,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`woken`: called when `current` is set. `resync`: seconds until the list is read again."""
        self._api, self._find, self._changed, self._woken = api, find, changed, woken
        self._resync, self._monotonic = resync, monotonic
        self._path = self._version = ""
        self._due = -inf
        """When to read the list next."""
        self.objects: dict[tuple[str, str], Json] = {}
        """By namespace and name."""
        self.current = asyncio.Event()
        """Set while a watch is open, or ended a moment ago. Otherwise the objects may be outdated."""
        self._late: asyncio.TimerHandle | None = None
        """Clears `current` if the next watch is not open in time."""
        self.last_received = monotonic()
        """The time of the last answer or line of the API server."""

    async def run(self) -> None:
        """Mirror until cancelled."""
        wait = FIRST_WAIT
        while True:
            opened = self._monotonic()
            try:
                if opened >= self._due:
                    await self._list()
                before = self._version
                await self._watch()
                # The server also ends a watch that lags behind a burst: it goes on at once where it ended.
                if self._version != before or self._monotonic() - opened >= FIRST_WAIT:
                    wait = FIRST_WAIT
                    continue
            except Gone:
                self._due = -inf
            except Exception as error:  # whatever it is, a mirror that stands still would be worse
                if isinstance(error, NotFound) or not isinstance(error, ApiError):
                    self._due = -inf  # the API server may offer another version now
                log.warning(f"{self._path}: {error or repr(error)}; it is tried again in {wait:.1f} s")
            if self._monotonic() - opened >= LONGEST_WAIT:  # it had worked for a while
                wait = FIRST_WAIT
            self.current.clear()
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _list(self) -> None:
        if self._path:
            self.current.clear()
        self._path = await self._find()
        if self._path:  # a kind that is still absent has no objects that could be outdated
            self.current.clear()
        objects, self._version = await self._api.list_all(self._path) if self._path else ([], "")
        present = {_name_of(thing) for thing in objects}
        for name in [name for name in self.objects if name not in present]:
            self._changed(self.objects.pop(name), None)
        for thing in objects:
            self._put(thing)
        self.last_received = self._monotonic()
        self._due = self.last_received + self._resync

    async def _watch(self) -> None:
        """Follow until the watch ends, or the list is due."""
        if not self._path:
            self._opened()
            await asyncio.sleep(ABSENT)
            self._due = -inf
            return
        seconds = min(WATCH_SECONDS, max(1.0, self._due - self._monotonic()))
        watched = self._api.watch(self._path, self._version, seconds=seconds, opened=self._opened)
        self._late = asyncio.get_running_loop().call_later(FIRST_WAIT, self.current.clear)
        try:
            async with aclosing(watched) as events:
                async for kind, thing in events:
                    self._take(kind, thing)
        finally:
            self._late.cancel()

    def _take(self, kind: str, thing: Json) -> None:
        """Take in an event of the watch."""
        self.last_received = self._monotonic()
        version = _version_of(thing)
        if int(version) <= int(self._version):
            return
        if kind == "DELETED":
            if self.objects.pop(_name_of(thing), None) is not None:
                self._changed(thing, None)
        elif kind != "BOOKMARK":
            self._put(thing)
        self._version = version

    def _opened(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self.last_received = self._monotonic()
        if not self.current.is_set():
            self.current.set()
            self._woken()

    def _put(self, thing: Json) -> None:
        before = self.objects.get(_name_of(thing))
        self.objects[_name_of(thing)] = thing
        if before is not None and uid_of(before) != uid_of(thing):  # deleted and created again, unseen
            self._changed(before, None)
            before = None
        if before is None or _version_of(before) != _version_of(thing):
            self._changed(before, thing)


async def known_path(path: str) -> str:
    """Returns the path of a kind that every API server has."""
    return path


async def group_path(api: Api, group: str) -> str:
    """Returns the path of the PodGroups of an API group, in the version that the server prefers; empty: it has none."""
    for offered in (await api.get("/apis")).get("groups") or ():
        for version in offered["versions"] if offered["name"] == group else ():  # the preferred one comes first
            path = f"/apis/{version['groupVersion']}"
            resources = (await api.find(path) or {}).get("resources") or ()
            if any(each["name"] == "podgroups" for each in resources):
                return f"{path}/podgroups"
    return ""


class Reflectors:
    """All reflectors of a mirror."""

    def __init__(self, api: Api, mirror: Mirror) -> None:
        kinds: list[tuple[Find, Changed]] = [
            (partial(known_path, "/api/v1/namespaces"), mirror.namespace_changed),
            (partial(group_path, api, NATIVE), partial(mirror.group_changed, kind=NATIVE)),
            (partial(group_path, api, PLUGIN), partial(mirror.group_changed, kind=PLUGIN)),
            (partial(known_path, "/apis/policy/v1/poddisruptionbudgets"), mirror.budget_changed),
            (partial(known_path, "/api/v1/nodes"), mirror.node_changed),
            (partial(known_path, "/api/v1/pods"), mirror.pod_changed),
        ]
        resync = mirror.settings.resync_interval
        self._reflectors = [Reflector(api, find, changed, mirror.wake, resync) for find, changed in kinds]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to mirror, and wait until each list is complete and followed."""
        self._tasks = [asyncio.create_task(each.run()) for each in self._reflectors]
        await asyncio.gather(*(each.current.wait() for each in self._reflectors))

    async def stop(self) -> None:
        """Stop mirroring."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def silence(self) -> float:
        """Returns the seconds since the most silent watch got something; an open one gets a bookmark every minute."""
        return time.monotonic() - min(each.last_received for each in self._reflectors)

    def are_current(self) -> bool:
        """Whether all watches are open; otherwise a node may be closed that looks open here."""
        return all(each.current.is_set() for each in self._reflectors)
