"""A recorded watch: what the API server said of nodes, pods and pod groups, one JSON object a line."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from bench.client import SECONDS, ApiError, Client, Manifest

KINDS = ("nodes", "podgroups", "podgroups.scheduling.x-k8s.io", "pods")
"""In this order at the start: pods speak of the others."""
ANSWER = 300.0
"""Seconds after which a watch is taken up again, in case its connection died silently."""


class Recorder:
    """Records while it is open: `with Recorder(client, file): ...`.

    Each line has the type of the event, the object and `received`, seconds since 1970. Watches are independent
    streams, and a busy machine may delay one by any time. But one etcd counts all changes, so that the file is put in
    the order of resource versions when the recorder closes.
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
        self._lines: list[tuple[int, int, int]] = []
        """Resource version of each line, and where it begins and ends in the file."""
        self._lock = threading.Condition()
        self._seen: dict[str, int] = {}
        self._known: dict[str, dict[str, Manifest]] = {}
        """Kind -> uid -> the object as its watch told it last."""
        self._over = False
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Recorder:
        self._file = self._path.open("w+b")
        for kind in self._kinds:
            try:
                items, version = self._client.list_with_version(kind)
            except ApiError as error:
                if error.code == 404:  # a kind this cluster has not
                    continue
                raise
            self._known[kind] = {item["metadata"]["uid"]: item for item in items}
            for item in items:
                self._write("ADDED", item, 0)  # before all that the watches tell
            self._seen[kind] = int(version)
            self._threads.append(threading.Thread(target=self._follow, args=(kind, version), daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.catch_up()
        with self._lock:
            self._over = True
            self._sort()
            self._file.close()

    def _sort(self) -> None:
        """Put the lines in the order of the server."""
        sorted_path = self._path.with_name(f"{self._path.name}.sorted")
        with sorted_path.open("wb") as target:
            for _, begin, end in sorted(self._lines):
                self._file.seek(begin)
                target.write(self._file.read(end - begin))
        sorted_path.replace(self._path)

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
        if word != "BOOKMARK":
            self._listener(word, item)
        with self._lock:
            self._seen[kind] = max(self._seen[kind], version)
            if word != "BOOKMARK" and not self._over:
                self._write(word, item, version)
                self._known[kind].pop(item["metadata"]["uid"], None)
                if word != "DELETED":
                    self._known[kind][item["metadata"]["uid"]] = item
            self._lock.notify_all()

    def _write(self, word: str, item: Manifest, version: int) -> None:
        begin = self._file.tell()
        self._file.write(json.dumps({"type": word, "received": round(time.time(), 3), "object": item}).encode() + b"\n")
        self._lines.append((version, begin, self._file.tell()))


def _version(item: Manifest) -> int:
    return int(item["metadata"]["resourceVersion"])
