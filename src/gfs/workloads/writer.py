"""Write a workload as CSV files that `read_trace` reads (docs/reference/files.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from gfs.domain.errors import InputError
from gfs.domain.node import NodeEvent
from gfs.domain.task import MEMORY, PODS, Task
from gfs.domain.workload import Workload
from gfs.files import write_atomically
from gfs.forecasting.history import DemandHistory
from gfs.telemetry.tables import escaped_cells
from gfs.workloads.readers.alibaba import (
    CANCEL_COLUMN,
    JOB_COLUMNS,
    NODE_COLUMNS,
    OPTIONAL_JOB_COLUMNS,
    ROLES_COLUMN,
    TOPOLOGY_COLUMN,
)
from gfs.workloads.readers.json_cells import object_text, roles_text
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
        raise InputError(f"{folder}: cannot be made ({error.strerror or error}). Choose another directory.") from error
    _save(_job_columns(workload), jobs)
    _save(_node_columns(workload), nodes)
    if workload.node_events:
        write_node_events(workload.node_events, folder / "node_events.csv")
    return jobs, nodes


def write_node_events(events: Sequence[NodeEvent], path: Path) -> None:
    """Write what happens to nodes; without events the file has its header alone."""
    _save({name: [getattr(event, name) for event in events] for name in NODE_EVENT_COLUMNS}, path)


def write_demand(history: DemandHistory, path: Path) -> None:
    """Write hourly demand as `read_demand` reads it: a row per series and hour, from the series' first hour on."""
    begin = datetime.combine(history.first_day or date(1970, 1, 1), time(), UTC) + timedelta(hours=history.start)
    rows = [(row, hour) for row in range(len(history.keys)) for hour in range(int(history.first[row]), history.hours)]
    if not rows:
        raise InputError(f"{path}: there is no demand to write")
    times: Sequence[Any] = [history.start + hour for _, hour in rows]
    if history.first_day is not None:
        times = [f"{begin + timedelta(hours=hour):%Y-%m-%dT%H:%M}" for _, hour in rows]
    keys = [history.keys[row] for row, _ in rows]
    columns: dict[str, Sequence[Any]] = {
        "time": times,
        "organization": [key.organization for key in keys],
        "gpu_model": [key.gpu_model for key in keys],
        "gpus": [float(history.gpus[place]) for place in rows],
    }
    if any(key.cluster for key in history.keys):
        columns["cluster"] = [key.cluster for key in keys]
    _save(columns, path)


def _job_columns(workload: Workload) -> dict[str, Sequence[Any]]:
    """The job columns, in the order of `JOB_COLUMNS`; an optional one only if some task differs from the default.

    So a trace that says nothing of guarantees can be run with any (`--set guarantee_hours=4`).
    """
    tasks = workload.tasks
    fields = ("name", "organization", "gpu_model", "cpus_per_pod", "gpus_per_pod", "pods", "submit_time")
    columns: dict[str, Sequence[Any]] = {
        column: [getattr(task, field) for task in tasks] for column, field in zip(JOB_COLUMNS, fields, strict=False)
    }
    columns |= {"duration": workload.durations, "job_type": [task.priority.label for task in tasks]}
    if any(task.mixed for task in tasks):
        columns["cpu_request"] = [max(role.cpus_per_pod for role in task.roles) for task in tasks]
    for name in OPTIONAL_JOB_COLUMNS:
        values = [getattr(task, name) for task in tasks]
        if any(value != TASK_DEFAULTS[name] for value in values):
            columns[name] = values
    if any(time != inf for time in workload.cancel_times):
        columns[CANCEL_COLUMN] = ["" if time == inf else _number(time) for time in workload.cancel_times]
    texts = {ROLES_COLUMN: list(map(roles_text, tasks)), TOPOLOGY_COLUMN: [task.topology_key for task in tasks]}
    return columns | {name: values for name, values in texts.items() if any(values)}


def _node_columns(workload: Workload) -> dict[str, Sequence[Any]]:
    """The node columns; an optional one only if some node states something in it."""
    fields = ("name", "gpu_model", "gpus", "cpus")
    columns: dict[str, Sequence[Any]] = {
        column: [getattr(node, field) for node in workload.nodes]
        for column, field in zip(NODE_COLUMNS, fields, strict=True)
    }
    stated = [((MEMORY, node.memory), (PODS, node.pods)) for node in workload.nodes]
    texts = {
        "resources": [
            object_text((*[each for each in usual if each[1]], *node.resources))
            for usual, node in zip(stated, workload.nodes, strict=True)
        ],
        "labels": [object_text(node.labels) for node in workload.nodes],
    }
    return columns | {name: values for name, values in texts.items() if any(values)}


def _save(columns: Mapping[str, Sequence[Any]], path: Path) -> None:
    """Text so that no spreadsheet takes it for a formula, and numbers."""
    arrays = [
        escaped_cells(pa.array(values, pa.string())) if values and isinstance(values[0], str) else _numbers(values)
        for values in columns.values()
    ]
    write_atomically(path, partial(_write, pa.Table.from_arrays(arrays, names=list(columns))))


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
            pacsv.write_csv(table, file, pacsv.WriteOptions(include_header=False, quoting_style="none"))
        except pa.ArrowInvalid:  # some name holds a comma or a quote: quote all text
            file.seek(start)
            file.truncate()
            pacsv.write_csv(table, file, pacsv.WriteOptions(include_header=False, quoting_style="needed"))
