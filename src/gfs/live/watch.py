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
from gfs.live.translate.shape import Json

Name = tuple[str, str]
"""Namespace ('' for none) and name."""

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
    return str((thing.get("metadata") or {}).get("uid") or "")


def _name_of(thing: Json) -> Name:
    metadata = thing.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


class Reflector:
    """Keeps `objects` like those of the API server."""

    def __init__(
        self,
        api: Api,
        path: str | Find,
        changed: Changed,
        *,
        resync: float = inf,
        woken: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`resync`: seconds until the list is read again. `woken`: called when `current` becomes true."""
        self._api = api
        self._find: Find | None = None
        self._path = ""
        if isinstance(path, str):
            self._path = path
        else:
            self._find = path
        self._changed = changed
        self._resync, self._woken, self._monotonic = resync, woken, monotonic
        self._version = ""
        self._due = -inf
        """When to read the list next."""
        self.objects: dict[Name, Json] = {}
        self.synced = asyncio.Event()
        """Set when the first list is complete."""
        self.current = False
        """Whether a watch is open. Otherwise the objects may be outdated."""
        self._heard = monotonic()
        """The time of the last answer or line of the API server."""

    async def run(self) -> None:
        """Mirror until cancelled."""
        wait = FIRST_WAIT
        while True:
            opened = self._monotonic()
            try:
                if opened >= self._due:
                    await self._list()
                if not self._path:
                    self._opened()
                    await asyncio.sleep(ABSENT)
                    self._due = -inf
                    continue
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
            self.current = False
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _list(self) -> None:
        if self._find is not None:
            self._path = await self._find()
        objects, self._version = await self._api.list_all(self._path) if self._path else ([], "")
        found = {_name_of(thing): thing for thing in objects}
        for name in [name for name in self.objects if name not in found]:
            self._remove(name, self.objects[name])
        for name, thing in found.items():
            self._put(name, thing)
        self._heard = self._monotonic()
        self._due = self._heard + self._resync
        self.synced.set()

    async def _watch(self) -> None:
        """Follow until the watch ends, or the list is due."""
        seconds = min(WATCH_SECONDS, max(1.0, self._due - self._monotonic()))
        watched = self._api.watch(self._path, self._version, seconds=seconds, opened=self._opened)
        async with aclosing(watched) as events:
            async for kind, thing in events:
                self._heard = self._monotonic()
                version = str((thing.get("metadata") or {}).get("resourceVersion") or "")
                if not _is_after(version, self._version):
                    continue
                if kind == "DELETED":
                    self._remove(_name_of(thing), thing)
                elif kind != "BOOKMARK":
                    self._put(_name_of(thing), thing)
                self._version = version

    def silence(self) -> float:
        """Returns the seconds since the API server sent something. An open watch gets a bookmark about every minute."""
        return self._monotonic() - self._heard

    def _opened(self) -> None:
        self._heard = self._monotonic()
        if not self.current:
            self.current = True
            self._woken()

    def _remove(self, name: Name, last: Json) -> None:
        if self.objects.pop(name, None) is not None:
            self._changed(last, None)

    def _put(self, name: Name, thing: Json) -> None:
        before = self.objects.get(name)
        self.objects[name] = thing
        if before is not None and uid_of(before) != uid_of(thing):  # deleted and created again, unseen
            self._changed(before, None)
            before = None
        if before is None or before["metadata"].get("resourceVersion") != thing["metadata"].get("resourceVersion"):
            self._changed(before, thing)


def _is_after(version: str, known: str) -> bool:
    """Whether a resource version is later than another; where they are no numbers, whether they differ."""
    if version.isdigit() and known.isdigit():
        return int(version) > int(known)
    return version != known


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

    def __init__(self, api: Api, mirror: Mirror, woken: Callable[[], None] = lambda: None) -> None:
        """`woken`: called when a watch that had ended is open again."""
        kinds: list[tuple[str | Find, Changed]] = [
            ("/api/v1/namespaces", mirror.namespace_changed),
            (partial(group_path, api, NATIVE), partial(mirror.group_changed, kind=NATIVE)),
            (partial(group_path, api, PLUGIN), partial(mirror.group_changed, kind=PLUGIN)),
            ("/apis/policy/v1/poddisruptionbudgets", mirror.budget_changed),
            ("/api/v1/nodes", mirror.node_changed),
            ("/api/v1/pods", mirror.pod_changed),
        ]
        resync = mirror.settings.resync_interval
        self._reflectors = [Reflector(api, path, changed, resync=resync, woken=woken) for path, changed in kinds]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to mirror, and wait until all first lists are complete."""
        self._tasks = [asyncio.create_task(each.run()) for each in self._reflectors]
        await asyncio.gather(*(each.synced.wait() for each in self._reflectors))

    async def stop(self) -> None:
        """Stop mirroring."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def silence(self) -> float:
        """Returns the longest silence of a reflector, in seconds."""
        return max(each.silence() for each in self._reflectors)

    def are_current(self) -> bool:
        """Whether all watches are open; otherwise a node may be closed that looks open here."""
        return all(each.current for each in self._reflectors)
