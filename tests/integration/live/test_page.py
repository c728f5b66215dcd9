"""The page of `gfs live run` in a real browser, on a real API server: it shows what the cluster has and catches up."""

from __future__ import annotations

import csv
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bench.bench import Bench
from bench.cluster import Cluster, node_of
from bench.processes import _die_with_parent
from browser import Browser
from page_reading import chart, rows, tiles
from waiting import LONGEST, wait_until

CONFIG = """
[live]
burst = 0.01
lease_name = "page"
lease_seconds = 6.0
[parameters]
quota = "none"
"""


@contextmanager
def controller(bench: Bench, folder: Path) -> Iterator[int]:
    """`gfs live run --http` with a record, as a process of its own; the port it serves on."""
    (folder / "gfs.toml").write_text(CONFIG)
    words = [
        "run",
        "--kubeconfig",
        str(bench.kubeconfig),
        "--config",
        str(folder / "gfs.toml"),
        "--http",
        "127.0.0.1:0",
    ]
    command = [sys.executable, "-m", "gfs.cli.main", "live", *words, "--record", str(folder / "record")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=_die_with_parent) as process:
        try:
            assert process.stderr is not None
            port = next(found[1] for line in process.stderr if (found := re.search(r"serves on port (\d+)", line)))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(port)
        finally:
            process.terminate()
            process.wait(LONGEST)


class Wire:
    """A line between browser and controller that can be cut: it hands bytes on, or refuses."""

    def __init__(self, port: int) -> None:
        self._to, self._open = port, set[socket.socket]()
        self._threads: list[threading.Thread] = []
        self.port = 0
        self.mend()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self._begin(self._accept, self._listener)

    def cut(self) -> None:
        """No connection is left open, and no new one is taken."""
        for end in (self._listener, *self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        while self._threads:
            self._threads.pop().join()

    close = cut

    def _begin(self, does: Callable[..., None], *ends: socket.socket) -> threading.Thread:
        thread = threading.Thread(target=does, args=ends, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError), listener:
            while True:
                self._begin(self._serve, listener.accept()[0])

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._to)) as far:
            self._open |= {near, far}
            back = self._begin(_hand_on, far, near)
            _hand_on(near, far)
            back.join()
            self._open -= {near, far}


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def asked(port: int, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=LONGEST) as answer:
        told: dict[str, Any] = json.loads(answer.read())
    return told


def shows(browser: Browser, key: str, value: object) -> None:
    browser.wait(f"document.querySelector('[data-key={key}] .value')?.textContent === '{value}'")


def test_the_page_shows_the_cluster_and_catches_up(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    for name in ("n1", "n2"):
        cluster.add_node(name, gpus=8)
    with (
        controller(bench, tmp_path) as port,
        closing(Wire(port)) as wire,
        Browser(tmp_path / "profile") as browser,
    ):
        browser.look()
        browser.open(f"http://127.0.0.1:{wire.port}/")
        browser.wait("document.querySelector('.connection')?.textContent === 'Live'")
        shows(browser, "idle", 16)
        # Two spot pods start; what the page shows is what the API server has.
        cluster.pod("s1", gpus=8, priority_class="gfs-spot")
        cluster.pod("s2", gpus=4, priority_class="gfs-spot")
        bound = cluster.wait_bound("s1", "s2")
        shows(browser, "spot", 12)
        assert tiles(browser)["hp"] == "0"
        browser.run(f"location.hash = 'view=nodes&node={bound['s1']}'")
        browser.wait("document.querySelector('#node tbody tr') !== null")
        here = [pod for pod in ("s1", "s2") if node_of(cluster.get(pod)) == bound["s1"]]
        assert {row[0] for row in rows(browser, "#node")} == {f"{cluster.namespace}/{pod}" for pod in here}
        # An HP pod that needs a whole node evicts somebody.
        cluster.pod("big", gpus=8, priority_class="gfs-hp")
        cluster.wait_bound("big")
        browser.run("location.hash = 'view=now'")
        shows(browser, "hp", 8)
        shows(browser, "evictions", 1)
        told = asked(port, "status")["pools"][0]
        assert (told["gpus"]["hp"], told["tasks"]["HP"]["running"]) == (8, 1)

        wire.cut()  # the connection breaks, and the cluster goes on
        browser.wait("document.querySelector('.connection').textContent.includes('lost')")
        before = tiles(browser)
        cluster.pod("more", gpus=4, priority_class="gfs-hp")
        cluster.wait_bound("more")
        cluster.delete_pod("big", grace=0)
        wait_until(lambda: asked(port, "status")["pools"][0]["gpus"]["hp"] == 4)
        assert tiles(browser) == before
        wire.mend()
        browser.wait("document.querySelector('.connection').textContent === 'Live'")
        shows(browser, "hp", 4)

        # The chart is the event log: GPU-seconds of HP tasks by the rows that were written.
        browser.settle()
        drawn = chart(browser, "gpus")
        width = drawn["time"][1] - drawn["time"][0]
        end = drawn["time"][-1] + width / 2
        with (tmp_path / "record" / "events.csv").open(newline="") as file:
            log = list(csv.DictReader(file))
        held = began = 0.0
        running: dict[tuple[str, str], float] = {}
        for row in log:
            if row["kind"] != "HP" or row["run"] == "0" or float(row["time"]) > end:
                continue
            who = (row["task"], row["run"])
            if row["event"] == "start":
                running[who] = float(row["time"])
            else:
                held += float(row["gpus"]) * (float(row["time"]) - running.pop(who))
        for (task, _), began in running.items():
            held += next(float(r["gpus"]) for r in log if r["task"] == task and r["event"] == "start") * (end - began)
        assert held > 0
        assert sum(drawn["lines"]["HP"]) * width == pytest.approx(held, rel=0.01)

        # Why the one that was evicted had to go, with what was weighed.
        victim = next(row["task"] for row in log if row["event"] == "evict")
        life = asked(port, f"tasks/{victim.replace('/', '%2F')}")
        (evicted,) = [step for step in life["steps"] if step["what"] == "evicted"]
        assert evicted["taker"] == f"{cluster.namespace}/big"
        assert evicted["weighed"][0]["victims"] == [victim]
        notes = [json.loads(line) for line in (tmp_path / "record" / "decisions.jsonl").read_text().splitlines()]
        takers = [note["task"] for note in notes if note["what"] == "eviction"]
        assert takers == [f"{cluster.namespace}/{name}" for name in ("big", "more")]

        # What if: the day so far with another scheduler, beside what happened.
        browser.run("location.hash = 'view=whatif'")
        browser.wait("document.getElementById('whatif-run') !== null")
        browser.run("document.getElementById('whatif-scheduler').value = 'static'")
        browser.run("document.getElementById('whatif-run').click()")
        browser.wait("document.querySelector('#whatif-outcome tbody tr') !== null")
        assert "static" in browser.run("document.getElementById('whatif-status').textContent")
        browser.wait("document.getElementById('whatif-after').data !== undefined")
        assert chart(browser, "whatif-after")["lines"]["all GPUs"][0] == 16
        assert [problem for problem in browser.problems if "ERR_" not in problem] == []  # but for the cut line


def test_what_was_recorded_is_shown_by_gfs_view(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    """The folder of `--record` has all that the page shows, and the page can be made of it."""
    cluster.add_node("n1", gpus=8)
    with controller(bench, tmp_path):
        cluster.pod("s1", gpus=8, priority_class="gfs-spot")
        cluster.wait_bound("s1")
        cluster.pod("big", gpus=8, priority_class="gfs-hp")
        cluster.wait_bound("big")
        folder = tmp_path / "record"
        files = {"events.csv", "nodes.csv", "quota.csv", "decisions.jsonl"}
        wait_until(lambda: {path.name for path in folder.iterdir()} >= files)
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "gfs.cli.main", "view", str(folder), "--export", str(page)]
    subprocess.run(command, check=True, env=os.environ, timeout=LONGEST)
    with Browser(tmp_path / "profile") as browser:
        browser.look()
        browser.open(f"{page.as_uri()}#task={cluster.namespace}%2Fs1")
        assert "in favour of" in browser.run("document.getElementById('life').innerText")
        assert len(browser.run("[...document.querySelectorAll('#life details')].map((d) => d.innerText)")) == 1
        assert browser.problems == []
