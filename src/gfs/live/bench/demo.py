"""The demonstration: a synthetic day on the bench, decided by `gfs live run`, in two minutes."""

from __future__ import annotations

import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from gfs.assembly.parameters import parse_settings
from gfs.domain.errors import InputError
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload
from gfs.live.bench.bench import Bench, free_ports
from gfs.live.bench.cluster import Cluster
from gfs.live.bench.past import past_demand, save_past
from gfs.live.bench.recorder import Recorder
from gfs.live.bench.submission import Submission, nodes, organizations, submissions, window
from gfs.live.bench.tally import Tally
from gfs.live.settings import read_config

EVERY = 3.0
"""Seconds between two lines."""
BEFORE = 3 * DAY
"""What the trace has before the hours that are shown: the controller knows the demand of that time."""
LONGEST = 6 * HOUR
"""Runs are cut to this, so that the demonstration ends: one HP task in a hundred would run for weeks."""
DRAIN = 120.0
"""Seconds to wait after the last submission until everything has finished."""
RETURN = 25.0
"""Seconds in which nothing runs after which nobody is waited for: a Job brings a pod back after 10, then after 20."""
READY_WITHIN, STOP_WITHIN = 60.0, 20.0
IN_FLIGHT = 4
CONFIG = """# written by gfs live demo: real seconds: each is {speed:g} s of the trace
[live]
scheduler = "gfs-plus"
hang_timeout = 20
return_timeout = 20
start_timeout = 20
close_record = true
"""


@dataclass(frozen=True, slots=True)
class Demo:
    """What is shown."""

    out: Path
    nodes: int = 24
    hours: float = 18.0
    seconds: float = 120.0
    seed: int = 0
    settings: Sequence[str] = ()
    """Further `--set` for gfs live run."""

    @property
    def speed(self) -> float:
        """Seconds of the trace a second."""
        return self.hours * HOUR / self.seconds

    def workload(self) -> tuple[Workload, Workload]:
        """Some hours of a synthetic trace that asks for more than the cluster has, and the days before."""
        from gfs.workloads import generate

        whole = generate("demo", nodes=3 * self.nodes, days=7, spot_scale=2, seed=self.seed)
        whole = replace(whole, nodes=whole.nodes[: self.nodes])
        total = sum(whole.capacity().values())
        fitting = whole.with_tasks(task for task in whole.tasks if task.gpus <= total / 2)
        cut = replace(fitting, durations=tuple(min(each, LONGEST) for each in fitting.durations))
        return window(cut, BEFORE, BEFORE + self.hours * HOUR), window(cut, 0.0, BEFORE)


def run_demo(demo: Demo, say: Callable[[str], None]) -> Tally:
    """Start everything, submit the work, tell how it goes, stop everything; what came of it."""
    workload, before = demo.workload()
    with Bench(say, keep_logs=demo.out) as bench:
        homes = [Cluster(bench.client, name) for name in organizations(workload)]
        homes[0].add_nodes(nodes(workload))
        gpus = sum(workload.capacity().values())
        say(f"{demo.nodes} nodes with {gpus} GPUs, {len(homes)} organizations, a namespace each")
        tally = Tally(gpus)
        with Recorder(bench.client, demo.out / "watch.jsonl", listener=tally.take):
            _start_controller(bench, demo, before, say)
            _submit(bench, demo, workload, tally, say)
            _drain(bench, demo, tally, say)
            bench.processes.end("gfs-live-run", STOP_WITHIN)
            tally.withdrawn = sum(not line.endswith(",") for line in _jobs(demo))
        say("stopping the bench")
    return tally


def _start_controller(bench: Bench, demo: Demo, before: Workload, say: Callable[[str], None]) -> None:
    config = demo.out / "gfs.toml"
    config.write_text(CONFIG.format(speed=demo.speed), encoding="utf-8")
    live, parameters = read_config(config, dict(parse_settings(demo.settings)))
    now = time.time()
    save_past(past_demand(before, 0.0, BEFORE, now), live, parameters, bench.folder / "state", now)
    words: list[str | Path] = [sys.executable, "-m", "gfs.cli.main", "live", "run", "--kubeconfig", bench.kubeconfig]
    words += ["--config", config, "--record", demo.out, "--state", bench.folder / "state", "--speed", f"{demo.speed:g}"]
    words += [word for setting in demo.settings for word in ("--set", setting)]
    address = f"127.0.0.1:{free_ports(1)[0]}"
    ours = {"TMPDIR": str(bench.folder)}  # what a killed process leaves behind goes with the bench
    bench.processes.start("gfs-live-run", [*words, "--http", address], ours)
    _wait_ready(bench, address)
    say(f"gfs live run decides; time runs {demo.speed:g} times as fast: {demo.seconds:g} s are {demo.hours:g} h")
    say(f"it knows the demand of the three days before; its page, as long as it runs: http://{address}/")


def _wait_ready(bench: Bench, address: str) -> None:
    """Wait until the controller decides: it may take seconds to start, which would be an hour of the trace."""
    until = time.monotonic() + READY_WITHIN
    while time.monotonic() < until:
        bench.processes.check()
        with suppress(OSError), urllib.request.urlopen(f"http://{address}/readyz", timeout=5):
            return
        time.sleep(0.1)
    raise InputError(f"gfs live run was not ready in {READY_WITHIN:g} s: {bench.processes.last_line('gfs-live-run')}")


def _submit(bench: Bench, demo: Demo, workload: Workload, tally: Tally, say: Callable[[str], None]) -> None:
    """Create what the users of the trace create, each at its moment."""
    began = told = time.monotonic()
    due = list(submissions(workload, demo.speed, BEFORE))
    sent: list[Future[None]] = []
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        for submission in due:
            while (wait := began + submission.second - time.monotonic()) > 0:
                time.sleep(min(wait, max(0.05, told + EVERY - time.monotonic())))
                told = _tell(bench, demo, tally, told, began, len(sent), say)
            sent.append(pool.submit(_create, bench, submission))
            told = _tell(bench, demo, tally, told, began, len(sent), say)
        for each in sent:
            each.result()
    tally.submitted = len(sent)
    say(f"all {len(sent)} tasks are submitted; waiting for the last to finish")


def _create(bench: Bench, submission: Submission) -> None:
    for each in submission.objects:
        kind = {"Pod": "pods", "Job": "jobs", "PodGroup": "podgroups"}[each["kind"]]
        bench.client.create(kind, each)


def _drain(bench: Bench, demo: Demo, tally: Tally, say: Callable[[str], None]) -> None:
    """Wait, for a while, until every task has ended, or none has run for so long that nobody comes back any more."""
    began = told = time.monotonic()
    idle = inf
    while time.monotonic() < min(began + DRAIN, idle + RETURN) and len(_jobs(demo)) < tally.submitted:
        idle = min(idle, time.monotonic()) if tally.is_idle(1.0) else inf
        told = _tell(bench, demo, tally, told, began - demo.seconds, tally.submitted, say)
        time.sleep(0.1)


def _jobs(demo: Demo) -> list[str]:
    """The tasks that the controller has recorded as finished or withdrawn, which has a time at the end."""
    jobs = demo.out / "jobs.csv"
    return jobs.read_text(encoding="utf-8").splitlines()[1:] if jobs.exists() else []


def _tell(
    bench: Bench, demo: Demo, tally: Tally, told: float, began: float, submitted: int, say: Callable[[str], None]
) -> float:
    """One line every few seconds; returns when the last was."""
    now = time.monotonic()
    if now - told < EVERY:
        return told
    bench.processes.check()
    if now - began > 30 and not tally.bound:
        raise InputError(f"nothing was bound in 30 s: {bench.processes.last_line('gfs-live-run')}")
    hours = (now - began) * demo.speed / HOUR
    say(f"{now - began:4.0f} s = {hours:4.1f} h: {submitted} tasks submitted, {tally.line()}")
    return now
