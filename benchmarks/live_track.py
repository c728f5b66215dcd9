"""The track of a race: a bench with KWOK nodes, one scheduler at a time, a recorder, and what each process used."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench import manifests
from bench.bench import API_GATES, Bench, free_ports
from bench.client import Manifest, path
from bench.many import create_all, for_all
from gfs.domain.errors import InputError
from gfs.live.api import Api
from gfs.live.problems import NotFound
from gfs.live.translate.shape import Json
from live_judge import Judge

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
SPACE = "race"
ACCOUNT = "racer"
"""The service account of whoever races: its requests, and nobody else's, are in the audit log."""
RACER = "racer"
"""The process name of whoever races."""
CONFIG = "[live]\nscheduler = {scheduler!r}\n[parameters]\n{parameters}\n"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [f"system:serviceaccount:default:{ACCOUNT}"]},
        {"level": "None"},
    ],
}
FREE = ("--kube-api-qps=5000", "--kube-api-burst=10000")


@dataclass(frozen=True)
class Contender:
    """A scheduler as it is started for the race."""

    name: str
    gates: str = ""
    options: tuple[str, ...] = ()
    """Of kube-scheduler."""
    gfs: str = ""
    """Which of GFS's schedulers; empty: kube-scheduler."""

    @property
    def scheduler(self) -> str:
        """What pods name as their scheduler."""
        return manifests.SCHEDULER if self.gfs else "default-scheduler"


CONTENDERS = {
    each.name: each
    for each in (
        Contender("gfs", gfs="gfs-plus"),
        Contender("kube-default"),
        Contender("kube-unthrottled", options=FREE),
        Contender("kube-gang", gates=API_GATES, options=FREE),
    )
}


@dataclass
class Usage:
    """What processes had used at a moment."""

    cpu: dict[str, float]
    """Program -> CPU seconds."""
    peak: int
    """Bytes that the scheduler has held at most."""
    own: dict[str, float] = field(default_factory=dict)
    """Figures that GFS tells of itself."""


class Track:
    """A bench on which one scheduler races at a time."""

    def __init__(self, bench: Bench, folder: Path, audit: Path, settings: Sequence[str] = ()) -> None:
        """`settings`: parameters of GFS, such as "beta = 2"."""
        self.bench, self.folder, self._audit, self._settings = bench, folder, audit, settings
        self.account = bench.kubeconfig_of_account(ACCOUNT)
        self._token = bench.folder / "admin.token"
        self._token.write_text(bench.client.token, encoding="utf-8")
        self._port = 0
        self._races = 0
        bench.client.create("namespaces", manifests.namespace(SPACE))

    # -- who races ---------------------------------------------------------------------------------

    @contextmanager
    def racing(self, contender: Contender, speed: float = 1.0, quota: str = "") -> Iterator[None]:
        """A scheduler decides until the block ends. `quota`: that of GFS; empty: its own."""
        if contender.gfs:
            self._start_gfs(contender, speed, quota)
        else:
            self.bench.start_scheduler(self.account, contender.gates, contender.options)
            time.sleep(3.0)  # it has no port that would tell
            self.bench.processes.check()
        name = self.process_of(contender)
        try:
            yield
        finally:
            self.bench.processes.end(name, 30.0)

    @staticmethod
    def process_of(contender: Contender) -> str:
        """The name of its process."""
        return RACER if contender.gfs else "kube-scheduler"

    def _start_gfs(self, contender: Contender, speed: float, quota: str) -> None:
        config = self.bench.folder / "gfs.toml"
        parameters = [f'quota = "{quota}"'] if quota else []
        text = CONFIG.format(scheduler=contender.gfs, parameters="\n".join([*parameters, *self._settings]))
        config.write_text(text, encoding="utf-8")
        (self._port,) = free_ports(1)
        words: list[str | Path] = [sys.executable, "-m", "gfs.cli.main", "live", "run", "--kubeconfig", self.account]
        words += ["--config", config, "--no-elect", "--speed", f"{speed:g}", "--http", f"127.0.0.1:{self._port}"]
        words += ["--record", self.bench.folder / f"record-{self._races}"]
        self._races += 1
        self.bench.processes.start(RACER, words)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            self.bench.processes.check()
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=5):
                return
            time.sleep(0.1)
        raise InputError("gfs live run was not ready in two minutes")

    def usage(self, contender: Contender) -> Usage:
        """What has been used up to now."""
        pids = {name: self.bench.processes.pid(name) for name in ("kube-apiserver", "etcd", "kwok")}
        racer = self.bench.processes.pid(self.process_of(contender))
        own: dict[str, float] = {}
        if contender.gfs:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=60) as answer:
                text = answer.read().decode()
            own = {name: float(value) for name, value in re.findall(r"^(gfs_\w+) (\S+)$", text, re.MULTILINE)}
        cpu = {name: cpu_of(pid) for name, pid in {**pids, "scheduler": racer}.items()}
        return Usage(cpu, peak_of(racer), own)

    # -- what is recorded --------------------------------------------------------------------------

    @contextmanager
    def recorded(self, name: str, speed: float = 1.0) -> Iterator[Follower]:
        """Record the watch in NAME.jsonl until the block ends."""
        client, file = self.bench.client, self.folder / f"{name}.jsonl"
        log = self.bench.folder / "recorder.log"
        log.write_text("", encoding="utf-8")
        words = [sys.executable, HERE / "live_recorder.py", client.host, str(client.port), client.ca_file]
        self.bench.processes.start("recorder", [*words, self._token, file])
        while "ready" not in log.read_text(encoding="utf-8"):
            self.bench.processes.check()
            time.sleep(0.05)
        follower = Follower(file, Judge(speed))
        try:
            yield follower
            time.sleep(1.0)
        finally:
            self.bench.processes.end("recorder", 10.0)
            follower.look()

    def settle(self, seconds: float = 30.0) -> None:
        """Wait until the racer asks nothing any more, at most so long; the audit log is written every second."""
        deadline, size = time.monotonic() + seconds, -1
        while (now := self._audit.stat().st_size) != size and time.monotonic() < deadline:
            size = now
            time.sleep(2.0)

    def requests(self, since: int) -> tuple[Counter[str], int]:
        """What the racer asked of the API server after that place of the audit log, and where the log ends."""
        counted: Counter[str] = Counter()
        with self._audit.open("rb") as log:
            log.seek(since)
            for line in log:
                event = json.loads(line)
                what = event.get("objectRef") or {}
                if event["verb"] == "watch" and event["stage"] != "ResponseStarted":
                    continue  # counted when it began
                parts = (what.get("resource", event["requestURI"].partition("?")[0]), what.get("subresource", ""))
                counted[f"{event['verb']} {'/'.join(part for part in parts if part)}"] += 1
            return counted, log.tell()

    # -- what users do -----------------------------------------------------------------------------

    def create(self, objects: Sequence[Manifest], rate: float = 0.0) -> float:
        """Create objects, as fast as the server takes them or so many a second; the seconds it took."""
        return create_all(self.bench.kubeconfig, objects, rate)

    def bind(self, pods: Sequence[tuple[str, str]]) -> float:
        """Bind pods to nodes as fast as the server takes it; the seconds it took."""

        async def post(api: Api, item: Json) -> None:
            await api.bind(SPACE, item["pod"], "", item["node"], {})

        return for_all(self.bench.kubeconfig, post, [{"pod": pod, "node": node} for pod, node in pods])

    def clear(self) -> None:
        """Delete all pods and groups, at once."""
        client = self.bench.client
        pods = client.items("pods", SPACE)

        async def remove(api: Api, pod: Json) -> None:
            with suppress(NotFound):
                await api.delete(path("pods", SPACE, pod["metadata"]["name"]), grace=0)

        for_all(self.bench.kubeconfig, remove, pods)
        client.delete(path("podgroups", SPACE))
        client.wait("pods", lambda pods: not pods, SPACE, 120.0)


@dataclass
class Follower:
    """Reads a record while it is being written, for a judge."""

    file: Path
    judge: Judge
    _at: int = 0

    def look(self) -> Judge:
        """Read what has come since."""
        with self.file.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._at += len(line)
                self.judge.take(line)
        return self.judge

    def until(self, so: Callable[[Judge], object], seconds: float, every: float = 0.25) -> bool:
        """Wait until something is so, at most so long; whether it is."""
        deadline = time.monotonic() + seconds
        while not so(self.look()):
            if time.monotonic() > deadline:
                return False
            time.sleep(every)
        return True


@contextmanager
def track(
    folder: Path, say: Callable[[str], None] = lambda line: None, settings: Sequence[str] = ()
) -> Iterator[Track]:
    """A new bench to race on; records go to the folder. `settings`: parameters of GFS."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT), encoding="utf-8")
    audit = folder / "audit.log"
    audit.unlink(missing_ok=True)
    options = (
        f"--audit-policy-file={policy}", f"--audit-log-path={audit}", "--audit-log-mode=batch",
        "--audit-log-batch-buffer-size=100000", "--audit-log-batch-max-wait=1s", "--audit-log-maxsize=10000",
    )  # fmt: skip
    with Bench(say, keep_logs=folder, api_options=options) as bench:
        yield Track(bench, folder, audit, settings)


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def peak_of(pid: int) -> int:
    """Bytes of memory that a process has held at most."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
