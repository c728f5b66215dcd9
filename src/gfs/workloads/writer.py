"""Write a workload as CSV files (docs/reference/files.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from gfs.domain.errors import InputError
from gfs.domain.node import NodeEvent
from gfs.domain.task import Task
from gfs.domain.workload import Workload
from gfs.files import write_atomically
from gfs.workloads.readers.alibaba import CANCEL_COLUMN, JOB_COLUMNS, NODE_COLUMNS, OPTIONAL_JOB_COLUMNS
from gfs.workloads.readers.node_events import NODE_EVENT_COLUMNS

TASK_DEFAULTS = {field.name: field.default for field in fields(Task) if field.name in OPTIONAL_JOB_COLUMNS}


def write_trace(workload: Workload, out_dir: Path | str) -> tuple[Path, Path]:
    """Write `jobs.csv` and `nodes.csv` into `out_dir`, made if need be, and return their paths.

    If anything happens to nodes, `node_events.csv` stands beside them. Each file appears complete or not at all.
    `read_trace` reads back the same tasks, nodes and events.
    """
    folder = Path(out_dir)
    jobs, nodes = folder / "jobs.csv", folder / "nodes.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({_reason(error)}). Choose another directory.") from error
    for path, table in ((jobs, _jobs_table(workload)), (nodes, _nodes_table(workload))):
        write_atomically(path, partial(_write, table))
    if workload.node_events:
        write_node_events(workload.node_events, folder / "node_events.csv")
    return jobs, nodes


def write_node_events(events: Sequence[NodeEvent], path: Path) -> None:
    """Write what happens to nodes; without events the file has its header alone."""
    columns = [
        _numbers([event.time for event in events]),
        pa.array([event.node for event in events], pa.string()),
        pa.array([event.event for event in events], pa.string()),
    ]
    write_atomically(path, partial(_write, pa.Table.from_arrays(columns, names=list(NODE_EVENT_COLUMNS))))


def _jobs_table(workload: Workload) -> pa.Table:
    """The job columns, in their usual order; an optional one only if some task differs from the default.

    So a trace that says nothing of guarantees can be run with any (`--set guarantee_hours=4`).
    """
    tasks = workload.tasks
    columns = [
        pa.array([t.name for t in tasks], pa.string()),
        pa.array([t.organization for t in tasks], pa.string()),
        pa.array([t.gpu_model for t in tasks], pa.string()),
        _numbers([t.cpus_per_pod for t in tasks]),
        _numbers([t.gpus_per_pod for t in tasks]),
        pa.array([t.pods for t in tasks], pa.int64()),
        _numbers([t.submit_time for t in tasks]),
        _numbers(workload.durations),
        pa.array([t.priority.label for t in tasks], pa.string()),
    ]
    names = list(JOB_COLUMNS)
    for name in OPTIONAL_JOB_COLUMNS:
        values = [getattr(task, name) for task in tasks]
        if any(value != TASK_DEFAULTS[name] for value in values):
            columns.append(_numbers(values))
            names.append(name)
    if any(time != inf for time in workload.cancel_times):
        columns.append(pa.array(["" if t == inf else _number(t) for t in workload.cancel_times], pa.string()))
        names.append(CANCEL_COLUMN)
    return pa.Table.from_arrays(columns, names=names)


def _nodes_table(workload: Workload) -> pa.Table:
    """The node columns, in their usual order."""
    nodes = workload.nodes
    columns = [
        pa.array([n.name for n in nodes], pa.string()),
        pa.array([n.gpu_model for n in nodes], pa.string()),
        pa.array([n.gpus for n in nodes], pa.int64()),
        _numbers([n.cpus for n in nodes]),
    ]
    return pa.Table.from_arrays(columns, names=list(NODE_COLUMNS))


def _numbers(values: Sequence[float]) -> Any:
    """Whole numbers without a point; others with all the digits they need to be read back."""
    floats = [float(value) for value in values]
    if all(value.is_integer() and abs(value) < 2**53 for value in floats):
        return pa.array([int(value) for value in floats], pa.int64())
    return pa.array([_number(value) for value in floats], pa.string())


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _write(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        file.write(",".join(table.column_names).encode() + b"\n")
        start = file.tell()
        try:
            pacsv.write_csv(table, file, _options("none"))
        except pa.ArrowInvalid:  # some name holds a comma or a quote: quote all text
            file.seek(start)
            file.truncate()
            pacsv.write_csv(table, file, _options("needed"))


def _options(quoting: str) -> pacsv.WriteOptions:
    return pacsv.WriteOptions(include_header=False, quoting_style=quoting)


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
