"""A mirror of one kind of object: listed once, then kept by a watch.

A watch that ends is taken up where it ended; one that is too old means list again and compare. Nothing is told
before the first list is read to its end, and a list read again is told as the differences.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from gfs.live.api import Api, Json
from gfs.live.problems import ApiError, Gone

Key = tuple[str, str]
"""Namespace ('' for none) and name."""

Changed = Callable[[Json | None, Json | None], None]
"""Told of a change: the object before and after; None: not there."""

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
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

    def __init__(self, api: Api, path: str, changed: Changed, **query: Any) -> None:
        self._api = api
        self._path = path
        self._changed = changed
        self._query = query
        self._version = ""
        self._listed = False
        self.objects: dict[Key, Json] = {}
        self.synced = asyncio.Event()
        """Set when the whole list has been read once."""
        self.lists = 0
        self.heard = 0.0
        """When the API server last told anything, by the clock of the loop."""

    async def run(self) -> None:
        """Mirror until cancelled."""
        wait = FIRST_WAIT
        while True:
            try:
                if not self._listed:
                    await self._list()
                await self._watch()
                wait = FIRST_WAIT
            except Gone:
                self._listed = False
            except ApiError as error:
                log.warning(f"{self._path}: {error}; it is tried again in {wait:.1f} s")
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
        self._listed = True
        self.heard = asyncio.get_running_loop().time()
        self.synced.set()

    async def _watch(self) -> None:
        async with aclosing(self._api.watch(self._path, self._version, **self._query)) as events:
            async for kind, thing in events:
                self.heard = asyncio.get_running_loop().time()
                version = (thing.get("metadata") or {}).get("resourceVersion")
                if kind != "BOOKMARK":
                    self._put(key_of(thing), None if kind == "DELETED" else thing, last=thing)
                self._version = version or self._version
        self.heard = asyncio.get_running_loop().time()  # it ended as agreed

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
