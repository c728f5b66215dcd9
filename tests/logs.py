"""Event logs written by hand, or at random, and the outside auditor that reads them."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import needs
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.telemetry.metrics import compute_metrics

AUDITOR = needs.SHARED / "tools" / "audit_events.py"

Row = tuple[float, str, str, int, str, str]
"""time, event, task, run, node, cards"""


def log(
    rows: Sequence[Row], workload: Workload, *, encoded: bool = False, reasons: Mapping[int, str] | None = None
) -> pa.Table:
    """The rows as the event table GFS writes (docs/reference/files.md), text plain or dictionary-encoded.

    `reasons` by number of the row, from 0.
    """
    tasks = {t.name: t for t in workload.tasks}
    stranger = Task(0, "stranger", "lab", "A100", Priority.SPOT, 1, 1.0, 0.0)
    owner = [tasks.get(r[2], stranger) for r in rows]
    table = pa.table(
        {
            "time": pa.array([r[0] for r in rows], pa.float64()),
            "event": pa.array([r[1] for r in rows], pa.string()),
            "task": pa.array([r[2] for r in rows], pa.string()),
            "kind": pa.array([t.priority.label for t in owner], pa.string()),
            "organization": pa.array([t.organization for t in owner], pa.string()),
            "gpu_model": pa.array([t.gpu_model for t in owner], pa.string()),
            "run": pa.array([r[3] for r in rows], pa.int64()),
            "node": pa.array([r[4] for r in rows], pa.string()),
            "cards": pa.array([r[5] for r in rows], pa.string()),
            "gpus": pa.array(
                [t.gpus_per_pod if r[3] else t.gpus for r, t in zip(rows, owner, strict=True)], pa.float64()
            ),
            "reason": pa.array([(reasons or {}).get(i, "") for i in range(len(rows))], pa.string()),
        }
    )
    if encoded:
        for i, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                table = table.set_column(i, field.name, table[field.name].dictionary_encode())
    return table


def scrambled(seed: int, *, troubled: bool = False) -> tuple[Workload, list[Row]]:
    """Eighty tasks, each on a node of its own, with evictions at random moments.

    `troubled`: runs of both classes are lost, too, and some tasks are cancelled, running or waiting.
    """
    rng = random.Random(seed)
    tasks: list[Task] = []
    nodes: list[NodeSpec] = []
    rows: list[Row] = []
    durations: list[float] = []
    drawn = sorted(round(rng.uniform(0, 50_000), 3) for _ in range(80))
    for i, submit in enumerate(drawn):
        kind, gpus = Priority(rng.randint(0, 1)), rng.choice([0.25, 0.5, 1.0, 2.0, 8.0, 16.0])
        model = rng.choice(["A100", "T4"])
        duration, interval = round(rng.uniform(1, 20_000), 3), rng.choice([600.0, 1800.0, 3600.0])
        task = Task(i, f"t{i}", "o", model, kind, 1, gpus, submit, checkpoint_interval=interval)
        tasks.append(task)
        durations.append(duration)
        nodes.append(NodeSpec(i, f"n{i}", model, 16))
        cards = f"0:{gpus}" if gpus < 1 else "+".join(map(str, range(int(gpus))))
        rows.append((submit, "submit", task.name, 0, "", ""))
        now, left, run = submit, duration, 1
        rules = ExecutionRules()
        while True:
            now = round(now + rng.choice([0.0, rng.uniform(0, 4000)]), 3)
            if troubled and rng.random() < 0.1:
                rows.append((now, "cancel", task.name, 0, "", ""))
                break
            rows.append((now, "start", task.name, run, f"n{i}", cards))
            need = rules.overhead(task, run) + left
            ends = ["lost", "cancel", "finish"] if troubled else ["finish"]
            end = "evict" if kind is Priority.SPOT and rng.random() < 0.5 else rng.choice(ends)
            if end != "finish":
                length = round(rng.uniform(0, need), 3)
                now = round(now + length, 3)
                left -= rules.saved(task, run, length)
                rows.append((now, end, task.name, run, f"n{i}", cards))
                if end == "cancel":
                    break
                run += 1
            else:
                rows.append((now + need, "finish", task.name, run, f"n{i}", cards))
                break
    return Workload(tuple(tasks), tuple(nodes), durations=tuple(durations)), sorted(rows, key=lambda r: r[0])


def agrees_with_auditor(
    folder: Path, workload: Workload, rows: Sequence[Row], window: tuple[float, float] | None
) -> None:
    """The auditor finds nothing broken in this log, and in it the numbers that we find."""
    events = log(rows, workload)
    said = compute_metrics(events, workload, window=window).to_dict()
    audited = _audit(folder, workload, events, said, window)
    for name in ("hp", "spot"):
        for key, value in audited[name].items():
            if value == value:  # NaN: a class without tasks
                assert said[name][key] == pytest.approx(value, rel=1e-6, abs=1e-6), (name, key)
    assert said["allocation_rate"] == pytest.approx(audited["allocation_rate"], rel=1e-6)
    assert said["useful_gpu_hours"] == pytest.approx(audited["useful_gpu_hours"], rel=1e-6)


def _audit(
    folder: Path,
    workload: Workload,
    events: pa.Table,
    said: dict[str, Any],
    window: tuple[float, float] | None,
) -> dict[str, Any]:
    _write(folder / "events.csv", events.column_names, [list(r.values()) for r in events.to_pylist()])
    job_columns = "job_name organization gpu_model cpu_request gpu_request worker_num submit_time duration job_type"
    _write(
        folder / "jobs.csv",
        [*job_columns.split(), "checkpoint_interval"],
        [
            [
                t.name,
                t.organization,
                t.gpu_model,
                0,
                t.gpus_per_pod,
                t.pods,
                t.submit_time,
                workload.durations[t.index],
                t.priority.label,
                t.checkpoint_interval,
            ]
            for t in workload.tasks
        ],
    )
    _write(
        folder / "nodes.csv",
        ["node_name", "gpu_model", "gpu_capacity_num", "cpu_num"],
        [[n.name, n.gpu_model, n.gpus, 0] for n in workload.nodes],
    )
    (folder / "summary.json").write_text(json.dumps({"runs": [{"metrics": said}]}))
    command = [sys.executable, str(AUDITOR), "--json", str(folder / "summary.json")]
    for name in ("jobs", "nodes", "events"):
        command += [f"--{name}", str(folder / f"{name}.csv")]
    if window:
        command += ["--window", f"{window[0]}:{window[1]}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _write(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
