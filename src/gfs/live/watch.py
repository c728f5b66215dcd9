"""A mirror of one kind of object: listed once, then kept by a watch.

A watch that ends is taken up where it ended; one that is too old means list again and compare. Nothing is told
before the first list is read to its end, and a list read again is told as the differences. Now and then it is read
again in any case: an event that was lost on the way is made up for. One that repeats the past is passed over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from math import inf
from typing import Any

from gfs.live.api import WATCH_SECONDS, Api
from gfs.live.client import Json
from gfs.live.problems import ApiError, Gone

Key = tuple[str, str]
"""Namespace ('' for none) and name."""

Changed = Callable[[Json | None, Json | None], None]
"""Told of a change: the object before and after; None: not there."""

FIRST_WAIT, LONGEST_WAIT = 0.2, 3.0
log = logging.getLogger("gfs.live")


def key_of(thing: Json) -> Key:
    """Namespace and name of an object."""
    metadata = thing.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def uid_of(thing: Json) -> str:
    """What tells an object from another one of the same name."""
    return str((thing.get("metadata") or {}).get("uid") or "")


class Reflector:
    """Keeps `objects` like those of the API server."""

    def __init__(
        self,
        api: Api,
        path: str,
        changed: Changed,
        *,
        resync: float = inf,
        woken: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
        **query: Any,
    ) -> None:
        """`resync`: seconds after which the list is read again; `woken` is told when `current` has become true."""
        self._api = api
        self._path = path
        self._changed = changed
        self._resync, self._woken, self._monotonic = resync, woken, monotonic
        self._query = query
        self._version = ""
        self._due = -inf
        """When the list is to be read next."""
        self.objects: dict[Key, Json] = {}
        self.synced = asyncio.Event()
        """Set when the whole list has been read once."""
        self.current = False
        """Whether a watch is open: without one, what is known may be of long ago."""
        self.lists = 0
        self._heard = monotonic()
        """When the API server last told anything."""

    async def run(self) -> None:
        """Mirror until cancelled."""
        wait = FIRST_WAIT
        while True:
            opened = self._monotonic()
            try:
                if self._monotonic() >= self._due:
                    await self._list()
                await self._watch()
            except Gone:
                self._due = -inf
            except ApiError as error:
                log.warning(f"{self._path}: {error}; it is tried again in {wait:.1f} s")
            else:
                if self._monotonic() - opened >= FIRST_WAIT:
                    wait = FIRST_WAIT
                    continue
            if self._monotonic() - opened >= LONGEST_WAIT:  # it had worked for a while
                wait = FIRST_WAIT
            self.current = False
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _list(self) -> None:
        objects, self._version = await self._api.list_all(self._path, **self._query)
        self.lists += 1
        found = {key_of(thing): thing for thing in objects}
        for key in [key for key in self.objects if key not in found]:
            self._put(key, None)
        for key, thing in found.items():
            self._put(key, thing)
        self._due = self._monotonic() + self._resync
        self._heard = self._monotonic()
        self.synced.set()

    async def _watch(self) -> None:
        """Follow until the watch ends, or the list is to be read again."""
        seconds = min(WATCH_SECONDS, max(1.0, self._due - self._monotonic()))
        watched = self._api.watch(self._path, self._version, seconds=seconds, opened=self._opened, **self._query)
        async with aclosing(watched) as events:
            async for kind, thing in events:
                self._heard = self._monotonic()
                version = str((thing.get("metadata") or {}).get("resourceVersion") or "")
                if not _is_after(version, self._version):
                    continue
                if kind != "BOOKMARK":
                    self._put(key_of(thing), None if kind == "DELETED" else thing, last=thing)
                self._version = version

    def silence(self) -> float:
        """Seconds since the API server last told anything; while a watch is open bookmarks come every minute or so."""
        return self._monotonic() - self._heard

    def _opened(self) -> None:
        self._heard = self._monotonic()
        if not self.current:
            self.current = True
            self._woken()

    def _put(self, key: Key, thing: Json | None, last: Json | None = None) -> None:
        before = self.objects.get(key)
        if thing is None:
            if before is not None:
                del self.objects[key]
                self._changed(last or before, None)
            return
        self.objects[key] = thing
        if before is not None and uid_of(before) != uid_of(thing):  # deleted and created again, unseen
            self._changed(before, None)
            before = None
        if before is None or before["metadata"].get("resourceVersion") != thing["metadata"].get("resourceVersion"):
            self._changed(before, thing)


def _is_after(version: str, known: str) -> bool:
    """Whether a resource version is later than another; where they are no numbers, whether it is another."""
    if version.isdigit() and known.isdigit():
        return int(version) > int(known)
    return version != known
