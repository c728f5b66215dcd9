"""A recorded watch has the order of the server, however far one stream is behind another."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from bench import recorder
from bench.client import Client, Manifest


def thing(kind: str, version: int) -> Manifest:
    return {"kind": kind, "metadata": {"name": kind.lower(), "uid": kind, "resourceVersion": str(version)}}


class LateNodes:
    """A server whose watch of nodes is behind: it tells of a node only when `nodes_may_speak`."""

    def __init__(self) -> None:
        self.nodes_may_speak = threading.Event()
        self.over = threading.Event()
        self.present: dict[str, list[Manifest]] = {"nodes": [], "pods": []}

    def list_with_version(self, kind: str) -> tuple[list[Manifest], str]:
        items = self.present[kind]
        return items, max((item["metadata"]["resourceVersion"] for item in items), default="1")

    def watch(self, kind: str, version: str, **_: Any) -> Iterator[Manifest]:
        if kind == "nodes":
            self.nodes_may_speak.wait()
        if int(version) < 5:
            name, number = ("Node", 5) if kind == "nodes" else ("Pod", 6)
            yield {"type": "ADDED", "object": thing(name, number)}
        self.over.wait()


def test_a_node_stands_before_the_pod_that_was_bound_to_it(tmp_path: Path) -> None:
    server, file = LateNodes(), tmp_path / "watch.jsonl"
    with recorder.Recorder(cast(Client, server), file, ("nodes", "pods")) as recording:
        server.present["pods"] = [thing("Pod", 6)]
        recording.catch_up()
        server.present["nodes"] = [thing("Node", 5)]
        server.nodes_may_speak.set()
    server.over.set()
    kinds = [json.loads(line)["object"]["kind"] for line in file.read_text().splitlines()]
    assert kinds == ["Node", "Pod"]
