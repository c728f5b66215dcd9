"""A cluster under load: a controller as a process of its own, thousands of pods, and what it all cost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench import manifests
from bench.bench import Bench, free_ports
from bench.client import Manifest
from bench.many import create_all, for_all
from gfs.live.api import Api, Json
from gfs.live.problems import NotFound

CONFIG = """
[live]
lease_name = "load"
snapshot_interval = 10.0
[parameters]
quota = "none"
"""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Seen:
    """What the watch said of one pod: when it came, was bound, was marked, went, by the clock of who watches."""

    came: float
    node: str = ""
    bound: float = 0.0
    marks: int = 0
    over: bool = False
    gone: float = 0.0


@dataclass
class Watcher:
    """Told of every line of the recorded watch."""

    pods: dict[str, Seen] = field(default_factory=dict)
    """By uid."""
    uids: dict[str, str] = field(default_factory=dict)
    """The last uid of a name."""
    done: list[Manifest] = field(default_factory=list)
    """Pods that have succeeded and are still there."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, word: str, item: Manifest) -> None:
        if item.get("kind") != "Pod":
            return
        now, uid = time.monotonic(), item["metadata"]["uid"]
        with self.changed:
            seen = self.pods.setdefault(uid, Seen(now))
            self.uids[item["metadata"]["name"]] = uid
            node, status = item["spec"].get("nodeName") or "", item.get("status") or {}
            if node and not seen.node:
                seen.node, seen.bound = node, now
            victim = any(
                each["type"] == "DisruptionTarget" and each.get("reason") == "PreemptionByScheduler"
                for each in status.get("conditions") or ()
            )
            seen.marks = max(seen.marks, int(victim))
            if status.get("phase") in ("Succeeded", "Failed") and not seen.over:
                seen.over = True
                if word != "DELETED":
                    self.done.append(item)
            if word == "DELETED":
                seen.gone = now
            self.changed.notify_all()

    def wait(self, so: Callable[[], object], seconds: float) -> None:
        """Until something is so, at most so long."""
        with self.changed:
            assert self.changed.wait_for(so, seconds), self.text()

    def alive(self) -> list[Seen]:
        return [seen for seen in self.pods.values() if not seen.gone and not seen.over]

    def named(self, begins: str) -> list[Seen]:
        return [self.pods[uid] for name, uid in list(self.uids.items()) if name.startswith(begins)]

    def text(self) -> str:
        states = Counter(
            "gone" if s.gone else "over" if s.over else "bound" if s.node else "waits" for s in list(self.pods.values())
        )
        return f"pods: {dict(states)}"


@dataclass(frozen=True)
class Usage:
    """What processes had used at a moment."""

    cpu: dict[str, float]
    """Program -> CPU seconds."""
    memory: int
    """Bytes of the controller."""
    metrics: dict[str, float]

    @property
    def longest(self) -> float:
        """The longest instant so far, in seconds."""
        return self.metrics["gfs_longest_step_seconds"]

    def since(self, before: Usage) -> dict[str, float]:
        """CPU seconds used since then."""
        return {name: self.cpu[name] - before.cpu[name] for name in self.cpu}

    def counted(self, before: Usage, name: str) -> float:
        return self.metrics[name] - before.metrics[name]


class Loaded:
    """The bench, the controller, and hands to create many objects at once."""

    def __init__(self, bench: Bench, folder: Path, watcher: Watcher) -> None:
        self.bench, self.folder, self.watcher = bench, folder, watcher
        (self.port,) = free_ports(1)
        self.process: subprocess.Popen[bytes]

    @contextmanager
    def controller(self) -> Iterator[None]:
        """`gfs live run` until the block ends."""
        (self.folder / "gfs.toml").write_text(CONFIG)
        self.start()
        try:
            yield
        finally:
            self.process.terminate()
            try:
                self.process.wait(60)
            finally:
                self.process.kill()
                self.process.wait()

    def start(self) -> None:
        """Start the controller, and wait until it decides."""
        words = [sys.executable, "-m", "gfs.cli.main", "live", "run", "--kubeconfig", str(self.bench.kubeconfig)]
        words += ["--config", str(self.folder / "gfs.toml"), "--no-elect", "--speed", "60"]
        words += ["--http", f"127.0.0.1:{self.port}", "--state", str(self.folder / "state")]
        words += ["--record", str(self.folder / "record")]
        with (self.folder / "controller.log").open("ab") as log:
            self.process = subprocess.Popen(words, stderr=log, stdout=log)
        self._until_ready()

    def kill(self) -> None:
        """Kill the controller as a power failure would."""
        self.process.kill()
        self.process.wait()

    def _until_ready(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "controller.log").read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the controller is not ready after two minutes")

    def usage(self) -> Usage:
        """What has been used up to now."""
        pids = {name: self.bench.processes.pid(name) for name in ("kube-apiserver", "etcd", "kwok")}
        cpu = {name: cpu_of(pid) for name, pid in {**pids, "gfs": self.process.pid}.items()}
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        metrics = {name: float(value) for name, value in re.findall(r"^(gfs_\w+) (\S+)$", text, re.MULTILINE)}
        return Usage(cpu, memory_of(self.process.pid), metrics)

    def until_quiet(self, seconds: float) -> Usage:
        """Wait until the controller asks nothing of the API server for ten seconds; what was used by then."""
        deadline, before = time.monotonic() + seconds, self.usage()
        while time.monotonic() < deadline:
            time.sleep(10)
            after = self.usage()
            if after.counted(before, "gfs_api_requests_total") <= 5:
                return after
            before = after
        raise AssertionError("the controller does not come to rest")

    # -- many requests at once -------------------------------------------------------------------------

    def create(self, objects: Sequence[Manifest]) -> float:
        """Create objects as fast as the API server takes them; the seconds it took."""
        return create_all(self.bench.kubeconfig, objects)

    def remove_done(self) -> None:
        """Delete the pods that have succeeded, as whoever created them would."""
        with self.watcher.changed:
            done, self.watcher.done = self.watcher.done, []
        self.delete([pod for pod in done if not pod["metadata"].get("ownerReferences")])

    def delete(self, pods: Sequence[Manifest]) -> None:
        """Delete pods at once."""

        async def remove(api: Api, pod: Json) -> None:
            where = pod["metadata"]
            with suppress(NotFound):
                await api.delete(f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}", grace=0)

        for_all(self.bench.kubeconfig, remove, pods)


def nodes(count: int) -> list[Manifest]:
    return [manifests.node(f"n{i:04}", gpus=8) for i in range(count)]


def cpu_of(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_of(pid: int) -> int:
    """Bytes of memory that are no file's: whether other processes use the same libraries does not count."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
