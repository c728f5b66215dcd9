"""The demonstration: a synthetic day on the bench, decided by `gfs live run`, in two minutes.

`python -m bench.demo` (`make live-demo`) runs it and writes the event log, the trace and a recorded watch.
"""

from __future__ import annotations

import argparse
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from bench.bench import Bench, free_ports
from bench.cluster import Cluster
from bench.command import run, within
from bench.recorder import Recorder
from bench.submission import Submission, nodes, organizations, submissions, window
from bench.tally import Tally
from gfs.assembly.parameters import parse_settings
from gfs.cli.console import say
from gfs.cli.live import need_live
from gfs.cli.outputs import make_folder
from gfs.domain.errors import InputError
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload
from gfs.files import record_ours
from gfs.live.settings import read_config

EVERY = 3.0
"""Seconds between two lines."""
BEGIN = 3 * DAY
"""Where in the trace it begins."""
LONGEST = 6 * HOUR
"""Runs are cut to this, so that the demonstration ends: one HP task in a hundred would run for weeks."""
DRAIN = 120.0
"""Seconds to wait after the last submission until everything has finished."""
RETURN = 25.0
"""Seconds in which nothing runs after which nobody is waited for: a Job brings a pod back after 10, then after 20."""
FILES = ("events.csv", "jobs.csv", "nodes.csv", "watch.jsonl", "gfs.toml")
READY_WITHIN, STOP_WITHIN = 60.0, 20.0
IN_FLIGHT = 4
CONFIG = """# written by python -m bench.demo; in real seconds, each is {speed:g} s of the trace
[live]
scheduler = "gfs-plus"
hang_timeout = 20
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

    def workload(self) -> Workload:
        """Some hours of a synthetic trace that asks for more than the cluster has."""
        from gfs.workloads import generate

        whole = generate("demo", nodes=3 * self.nodes, days=7, spot_scale=2, seed=self.seed)
        part = window(whole, BEGIN, BEGIN + self.hours * HOUR)
        kept = replace(part, nodes=part.nodes[: self.nodes])
        total = sum(kept.capacity().values())
        fitting = kept.with_tasks(task for task in kept.tasks if task.gpus <= total / 2)
        return replace(fitting, durations=tuple(min(each, LONGEST) for each in fitting.durations))


def run_demo(demo: Demo, say: Callable[[str], None]) -> Tally:
    """Start everything, submit the work, tell how it goes, stop everything; what came of it."""
    workload = demo.workload()
    with Bench(say, keep_logs=demo.out) as bench:
        homes = [Cluster(bench.client, name) for name in organizations(workload)]
        homes[0].add_nodes(nodes(workload))
        gpus = sum(workload.capacity().values())
        say(f"{demo.nodes} nodes with {gpus} GPUs, {len(homes)} organizations, a namespace each")
        tally = Tally(gpus)
        with Recorder(bench.client, demo.out / "watch.jsonl", listener=tally.take):
            _start_controller(bench, demo, say)
            _submit(bench, demo, workload, tally, say)
            _drain(bench, demo, tally, say)
            bench.processes.end("gfs-live-run", STOP_WITHIN)
            tally.withdrawn = sum(not line.endswith(",") for line in _jobs(demo))
        say("stopping the bench")
    return tally


def _start_controller(bench: Bench, demo: Demo, say: Callable[[str], None]) -> None:
    config = demo.out / "gfs.toml"
    config.write_text(CONFIG.format(speed=demo.speed), encoding="utf-8")
    words: list[str | Path] = [sys.executable, "-m", "gfs.cli.main", "live", "run", "--kubeconfig", bench.kubeconfig]
    words += ["--config", config, "--record", demo.out, "--state", bench.folder / "state", "--speed", f"{demo.speed:g}"]
    words += [word for setting in demo.settings for word in ("--set", setting)]
    address = f"127.0.0.1:{free_ports(1)[0]}"
    ours = {"TMPDIR": str(bench.folder)}  # what a killed process leaves behind goes with the bench
    bench.processes.start("gfs-live-run", [*words, "--http", address], ours)
    _wait_ready(bench, address)
    say(f"gfs live run decides; time runs {demo.speed:g} times as fast: {demo.seconds:g} s are {demo.hours:g} h")
    say(f"its page, as long as it runs: http://{address}/")


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
    due = list(submissions(workload, demo.speed, BEGIN))
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


def main() -> None:
    """Run the demonstration with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description=__doc__)
    add = parser.add_argument
    add("--out", type=Path, default=Path("live-demo-output"), metavar="DIR", help="for the results (%(default)s)")
    add("--nodes", type=within(int, 4, 500), default=24, metavar="N", help="nodes of 8 GPUs (%(default)s)")
    add("--seconds", type=within(float, 10, 3600), default=120.0, metavar="S", help="how long work comes (%(default)g)")
    add("--hours", type=within(float, 1, 72), default=18.0, metavar="H", help="of the trace in this time (%(default)g)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of gfs live run; may be repeated")
    add("--seed", type=within(int, 0, 2**32), default=0, metavar="N", help="of the trace (%(default)s)")
    add("--force", action="store_true", help="overwrite files in DIR even if gfs did not write them")
    given = parser.parse_args()
    run(lambda: _show(Demo(given.out, given.nodes, given.hours, given.seconds, given.seed, given.set), given.force))


def _show(demo: Demo, force: bool) -> None:
    """Check what can be wrong before anything starts, run the demonstration, say what came of it."""
    need_live()
    read_config(None, dict(parse_settings(demo.settings)))
    make_folder(demo.out, FILES, force)
    for name in FILES:  # logs are appended to
        (demo.out / name).unlink(missing_ok=True)
    began = time.monotonic()
    tally = run_demo(demo, say)
    record_ours(demo.out, FILES)
    say()
    done = f"{tally.submitted} tasks submitted, {tally.bound} pods bound, {tally.finished} finished"
    say(f"{done}, {tally.evicted} evicted. Nothing is left running. It took {time.monotonic() - began:.0f} s.")
    if tally.withdrawn:
        why = "bare pods that were evicted, and what had not finished by the end"
        say(f"{tally.withdrawn} of the tasks count as withdrawn: {why}.")
    say(f"In {demo.out}: events.csv (what was decided), jobs.csv and nodes.csv (the trace),")
    say("watch.jsonl (what the API server said) and a log of each program.")


if __name__ == "__main__":
    main()
