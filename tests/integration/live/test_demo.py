"""`python -m bench.demo`, shorter than its default: what it writes is audited from outside, nothing stays behind."""

from __future__ import annotations

import csv
import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from started import environment, started_by

import needs
from bench.demo import BEGIN, Demo, run_demo
from conftest import audit_events
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.units import HOUR
from gfs.domain.workload import Workload

WORDS = [sys.executable, "-m", "bench.demo", "--nodes", "8", "--hours", "2", "--seconds", "12"]
Audit = Callable[..., subprocess.CompletedProcess[str] | None]


@pytest.fixture(autouse=True)
def programs() -> None:
    needs.bench_programs()


def test_the_demo_runs_is_audited_clean_and_leaves_nothing(tmp_path: Path, audit_watch: Audit) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        [*WORDS, "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " GPUs in use (HP " in done.stdout
    assert "Nothing is left running." in done.stdout
    assert {"events.csv", "jobs.csv", "nodes.csv", "watch.jsonl", "gfs-live-run.log"} <= {
        file.name for file in out.iterdir()
    }
    kinds = {json.loads(line)["object"]["kind"] for line in (out / "watch.jsonl").read_text().splitlines()}
    assert {"Node", "Pod", "PodGroup"} <= kinds
    assert not started_by(tmp_path / "tmp")
    assert not list((tmp_path / "tmp").iterdir())
    audited = audit_watch(out / "watch.jsonl")
    assert audited is None or audited.returncode == 0, audited.stdout
    audit_events(out)


@dataclass(frozen=True, slots=True)
class Crowded(Demo):
    """Four nodes full of spot work, gangs and a bare pod among it, when HP work comes for some of them."""

    def workload(self) -> Workload:
        specs = tuple(NodeSpec(i, f"n{i}", "A100", 8, 64.0) for i in range(4))
        asks = [("spot", 1, 4.0, 0.0)] * 4 + [("spot", 2, 8.0, 0.0)] + [("hp", 1, 8.0, 1.0), ("hp", 2, 8.0, 1.5)]
        tasks = tuple(
            Task(i, f"{kind}{i}", "lab", "A100", Priority.SPOT if kind == "spot" else Priority.HP, pods, gpus, at)
            for i, (kind, pods, gpus, at) in enumerate(
                (kind, pods, gpus, BEGIN + HOUR * at) for kind, pods, gpus, at in asks
            )
        )
        return Workload(tasks, specs, durations=tuple(HOUR * (2.0 if task.is_spot else 0.5) for task in tasks))


def test_a_record_with_evictions_is_audited_clean(tmp_path: Path, audit_watch: Audit) -> None:
    lines: list[str] = []
    tally = run_demo(Crowded(tmp_path, nodes=4, hours=3.0, seconds=15.0, settings=("quota=none",)), lines.append)
    assert tally.evicted >= 2, "HP work takes whole nodes"
    events = Counter(row["event"] for row in csv.DictReader((tmp_path / "events.csv").read_text().splitlines()))
    assert events["evict"] >= 2
    audited = audit_watch(tmp_path / "watch.jsonl")
    assert audited is None or audited.returncode == 0, audited.stdout
    audit_events(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*WORDS, "--out", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(tmp_path),
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "gfs live run decides" in line:
                break
        children = started_by(tmp_path / "tmp")
        assert len(children) >= 4, children
        handles = [os.pidfd_open(child) for child in children]
        demo.send_signal(number)
        demo.communicate()
    if number != signal.SIGKILL:  # who is killed cannot tidy up, but its programs die with it
        assert not list((tmp_path / "tmp").iterdir())
    for handle in handles:
        assert select.select([handle], [], [], 60)[0], "it still runs"
        os.close(handle)
    assert not started_by(tmp_path / "tmp")
