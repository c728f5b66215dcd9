"""A recorded watch: what the API server said of nodes, pods and pod groups, one JSON object a line."""

from __future__ import annotations

import heapq
import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from types import TracebackType

from bench.client import SECONDS, ApiError, Client, Manifest

KINDS = ("nodes", "podgroups", "podgroups.scheduling.x-k8s.io", "pods")
"""In this order at the start: pods speak of the others."""
HELD = 10.0
"""Seconds a line is held back, so that lines of several watches can be put in the order of the server: on a busy
machine one watch may be seconds behind another."""
ANSWER = 300.0
"""Seconds after which a watch is taken up again, in case its connection died silently."""


class Recorder:
    """Records while it is open: `with Recorder(client, file): ...`.

    Each line has the type of the event, the object and `received`, seconds since 1970. Watches are independent
    streams, but one etcd counts all changes: lines are held back for a while and ordered by resource version.
    """

    def __init__(
        self,
        client: Client,
        file: Path,
        kinds: Sequence[str] = KINDS,
        listener: Callable[[str, Manifest], None] = lambda word, item: None,
    ) -> None:
        """`listener` is told of every line, in the thread that received it."""
        self._listener = listener
        self._client = client
        self._path = file
        self._kinds = tuple(kinds)
        self._heap: list[tuple[int, int, float, str]] = []
        self._lock = threading.Condition()
        self._lines = 0
        self._seen: dict[str, int] = {}
        self._known: dict[str, dict[str, Manifest]] = {}
        """Kind -> uid -> the object as its watch told it last."""
        self._over = False
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Recorder:
        self._file = self._path.open("w", encoding="utf-8")
        for kind in self._kinds:
            try:
                items, version = self._client.list_with_version(kind)
            except ApiError as error:
                if error.code == 404:  # a kind this cluster has not
                    continue
                raise
            self._known[kind] = {item["metadata"]["uid"]: item for item in items}
            for item in items:
                self._write("ADDED", item, time.time())
            self._seen[kind] = int(version)
            self._threads.append(threading.Thread(target=self._follow, args=(kind, version), daemon=True))
        self._threads.append(threading.Thread(target=self._flush, daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.catch_up()
        with self._lock:
            self._over = True
            self._lock.notify_all()
        self._threads[-1].join()
        self._file.close()

    def catch_up(self) -> None:
        """Wait until all that has happened up to now is recorded."""
        deadline = time.monotonic() + SECONDS
        for kind in self._seen:
            items, version = self._client.list_with_version(kind)
            done = partial(self._is_up_to, kind, items, int(version))
            with self._lock:
                if not self._lock.wait_for(done, max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"the watch of {kind} does not follow")

    def _is_up_to(self, kind: str, items: Sequence[Manifest], version: int) -> bool:
        """Whether the watch of a kind has told of all that a list has, and of what had been deleted by then."""
        listed = {item["metadata"]["uid"]: _version(item) for item in items}
        gone = (uid for uid, item in self._known[kind].items() if uid not in listed and _version(item) <= version)
        return self._seen[kind] >= max(listed.values(), default=0) and not any(gone)

    def _follow(self, kind: str, version: str) -> None:
        while not self._over:
            try:
                for event in self._client.watch(kind, version, seconds=ANSWER):
                    if self._over:
                        return
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._take(kind, event["type"], event["object"], int(version))
            except ApiError as error:
                if error.code == 410:
                    version = self._compare(kind) or version
                else:  # it is just starting, or ending
                    time.sleep(0.1)
            except (OSError, ValueError, http.client.HTTPException):  # it cut the line, or is gone
                time.sleep(0.1)

    def _compare(self, kind: str) -> str:
        """After 410 Gone: what has changed since, as far as a list can tell; the version of it, '': none was had."""
        known = self._known[kind]
        try:
            items, version = self._client.list_with_version(kind)
        except (ApiError, OSError, ValueError, http.client.HTTPException):
            return ""
        present = {item["metadata"]["uid"]: item for item in items}
        for uid in [uid for uid in known if uid not in present]:
            self._take(kind, "DELETED", known[uid], int(version))
        for uid, item in present.items():
            if uid not in known or _version(known[uid]) != _version(item):
                word = "MODIFIED" if uid in known else "ADDED"
                self._take(kind, word, item, _version(item))
        return version

    def _take(self, kind: str, word: str, item: Manifest, version: int) -> None:
        received = time.time()
        if word != "BOOKMARK":
            self._listener(word, item)
        with self._lock:
            self._seen[kind] = max(self._seen[kind], version)
            if word != "BOOKMARK":
                line = json.dumps({"type": word, "received": round(received, 3), "object": item})
                heapq.heappush(self._heap, (version, self._lines, received, line))
                self._lines += 1
                self._known[kind].pop(item["metadata"]["uid"], None)
                if word != "DELETED":
                    self._known[kind][item["metadata"]["uid"]] = item
            self._lock.notify_all()

    def _flush(self) -> None:
        over = False
        while not over:
            with self._lock:
                over = self._lock.wait_for(lambda: self._over, 1.0)
            self.write_due(inf if over else time.time() - HELD)

    def write_due(self, until: float) -> None:
        """Write the lines received until then, and all that come before them in the order of the server."""
        with self._lock:
            while self._heap and self._heap[0][2] <= until:
                self._file.write(heapq.heappop(self._heap)[3] + "\n")
            self._file.flush()

    def _write(self, word: str, item: Manifest, received: float) -> None:
        self._file.write(json.dumps({"type": word, "received": round(received, 3), "object": item}) + "\n")


def _version(item: Manifest) -> int:
    return int(item["metadata"]["resourceVersion"])
