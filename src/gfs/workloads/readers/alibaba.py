"""Traces with the columns of Alibaba's cluster-trace-v2026-spot-gpu: a job and a node table (docs/reference/files.md).

Times are seconds. Columns of Arrow type are read as what they are: durations as seconds whatever their unit,
timestamps as seconds since the midnight before the first submission, in UTC if the column has a time zone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.limits import MOST_CPUS, MOST_GPUS, MOST_GPUS_A_NODE, MOST_SECONDS
from gfs.domain.node import NodeEvent, NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.units import DAY, HOUR, MICRO
from gfs.domain.workload import NodeSizes, Workload, node_sizes, pods_held
from gfs.gc_paused import gc_paused
from gfs.workloads.readers.checks import TIME_KINDS, Bools, Checks, Floats, since_day
from gfs.workloads.readers.node_events import read_node_events
from gfs.workloads.readers.tables import Table, TableSource, read_table

JOB_COLUMNS = (
    *("job_name", "organization", "gpu_model", "cpu_request", "gpu_request", "worker_num"),
    *("submit_time", "duration", "job_type"),
)
OPTIONAL_JOB_COLUMNS = ("guarantee_hours", "checkpoint_interval")
CANCEL_COLUMN = "cancel_time"
"""Optional: when the owner withdraws the task; blank for never."""
NODE_COLUMNS = ("node_name", "gpu_model", "gpu_capacity_num", "cpu_num")

_KINDS = {"HP": Priority.HP, "Spot": Priority.SPOT}


@dataclass(frozen=True, slots=True)
class TraceRead:
    """What a trace holds."""

    workload: Workload
    skipped: tuple[BadRow, ...]
    """The values for which rows were left out; empty unless `skip_bad_rows` was given."""
    first_day: date | None = None
    """The day that second 0 begins, if the trace has timestamps."""

    def __repr__(self) -> str:
        return f"<TraceRead: {self.workload!r}, {len(self.skipped):,} bad values skipped>"


class _Jobs(NamedTuple):
    """The usable rows of a jobs file, in the order of submission."""

    tasks: tuple[Task, ...]
    durations: tuple[float, ...]
    cancel_times: tuple[float, ...]
    day: int | None
    """Days from 1970 to second 0, if submissions were timestamps."""


def read_trace(
    jobs: TableSource,
    nodes: TableSource,
    *,
    node_events: TableSource | None = None,
    skip_bad_rows: bool = False,
    guarantee_hours: float = 1.0,
    checkpoint_interval: float = HOUR,
) -> TraceRead:
    """Read and check a trace: CSV, gzipped CSV, Parquet or frames. `node_events`: what happens to nodes, if anything.

    `guarantee_hours` (above 0; 1, 2 or 4 as a rule) and `checkpoint_interval` (seconds, above 0) are for
    tasks that do not say. Raises `BadRows` for rows that cannot be used, unless they are to be skipped, and
    `InputError` for a file that cannot. Tasks are put in the order of (submit_time, job_name); nodes keep the
    order of the file.
    """
    for name, value in (("guarantee_hours", guarantee_hours), ("checkpoint_interval", checkpoint_interval)):
        if not (math.isfinite(value) and 0 < value <= MOST_SECONDS):
            raise InputError(f"{name} must be above 0 and no more than {MOST_SECONDS:g}, not {value:g}.")
    node_table = read_table(nodes, NODE_COLUMNS, name="nodes")
    specs, bad_nodes = read_node_specs(node_table)
    pools = node_sizes(specs)
    nodes_known = skip_bad_rows or not bad_nodes  # what fits cannot be said before the nodes are right
    job_table = read_table(jobs, JOB_COLUMNS, (*OPTIONAL_JOB_COLUMNS, CANCEL_COLUMN), name="jobs")
    read, bad_jobs = _read_jobs(job_table, pools if nodes_known else None, guarantee_hours, checkpoint_interval)
    events: tuple[NodeEvent, ...] = ()
    bad_events: tuple[BadRow, ...] = ()
    if node_events is not None:
        events, bad_events = read_node_events(node_events, specs if nodes_known else None, read.day)
    bad = (*bad_nodes, *bad_jobs, *bad_events)
    if bad and not skip_bad_rows:
        raise BadRows(bad)
    for what, rows, table in (("node", specs, node_table), ("job", read.tasks, job_table)):
        if not rows:
            raise InputError(f"{table.file}: there is no usable {what} in this file.")
    name = Path(jobs).name if isinstance(jobs, Path | str) else "jobs"
    workload = Workload(read.tasks, specs, name, read.durations, read.cancel_times, events)
    first_day = None if read.day is None else date.fromordinal(date(1970, 1, 1).toordinal() + read.day)
    return TraceRead(workload, bad, first_day)


def read_node_specs(table: Table) -> tuple[tuple[NodeSpec, ...], tuple[BadRow, ...]]:
    """The usable nodes, and what is wrong with the others."""
    checks = Checks(table)
    names, models = checks.text("node_name"), checks.text("gpu_model")
    gpus = checks.number("gpu_capacity_num", most=MOST_GPUS_A_NODE)
    cpus = checks.number("cpu_num", most=MOST_CPUS)
    checks.reject("gpu_capacity_num", (gpus < 1) | (gpus != np.floor(gpus)), "must be a whole number of 1 or more")
    checks.reject("cpu_num", cpus < 0, "must not be negative")
    checks.reject_duplicates("node_name", names)
    good = np.flatnonzero(checks.good).tolist()
    specs = (NodeSpec(i, names[r], models[r], int(gpus[r]), float(cpus[r])) for i, r in enumerate(good))
    return tuple(specs), checks.bad_rows()


def _read_jobs(
    table: Table, pools: dict[str, NodeSizes] | None, guarantee_hours: float, checkpoint_interval: float
) -> tuple[_Jobs, tuple[BadRow, ...]]:
    """The usable jobs, and what is wrong with the other rows."""
    checks = Checks(table)
    names, owners, models = (checks.text(name) for name in ("job_name", "organization", "gpu_model"))
    kinds = checks.text("job_type")
    cpus = checks.number("cpu_request", most=MOST_CPUS)
    gpus, pods = (checks.number(name, most=MOST_GPUS) for name in ("gpu_request", "worker_num"))
    submit = checks.number("submit_time", most=MOST_SECONDS, kinds=TIME_KINDS)
    duration = checks.number("duration", most=MOST_SECONDS, kinds=("duration",))
    guarantee = checks.number("guarantee_hours", missing=guarantee_hours, most=MOST_SECONDS / HOUR)
    interval = checks.number("checkpoint_interval", missing=checkpoint_interval, most=MOST_SECONDS, kinds=("duration",))
    cancel = checks.number(CANCEL_COLUMN, missing=math.inf, most=MOST_SECONDS, kinds=TIME_KINDS)
    day = None
    if table.kind("submit_time") == "timestamp":
        known = submit[checks.fine("submit_time")]
        day = int(known.min() // DAY) if len(known) else 0
        submit = np.where(checks.fine("submit_time"), submit - day * DAY, 1.0)
    if CANCEL_COLUMN in table.columns and np.isfinite(cancel).any():
        cancel = since_day(checks, table, CANCEL_COLUMN, cancel, day)
    for name, values in (("cpu_request", cpus), ("submit_time", submit), ("duration", duration)):
        checks.reject(name, values < 0, "must not be negative")
    checks.reject("gpu_request", gpus < 0, "must not be negative")
    checks.reject("gpu_request", gpus == 0, "must be above 0")
    checks.reject("gpu_request", gpus * MICRO <= 0.5, "rounds to nothing: the least is a millionth of a card")
    checks.reject("gpu_request", (gpus > 1) & (gpus != np.floor(gpus)), "above 1 it must be a whole number of cards")
    checks.reject("worker_num", (pods < 1) | (pods != np.floor(pods)), "must be a whole number of 1 or more")
    checks.reject("guarantee_hours", guarantee <= 0, "must be above 0")
    checks.reject("checkpoint_interval", interval <= 0, "must be above 0")
    checks.reject(CANCEL_COLUMN, (cancel < submit) & checks.fine("submit_time"), "must not be before submit_time")
    if not _KINDS.keys() >= set(kinds):
        unknown = np.fromiter((kind not in _KINDS for kind in kinds), bool, len(kinds))
        checks.reject("job_type", unknown, "must be HP or Spot")
    checks.reject_duplicates("job_name", names)
    if pools is not None:
        _check_fit(checks, models, gpus, pods, pools)
    numbers = (cpus, gpus, pods, submit, duration, guarantee, interval, cancel)
    return _build(checks.good, names, owners, models, kinds, numbers, day), checks.bad_rows()


def _check_fit(checks: Checks, models: list[str], gpus: Floats, pods: Floats, pools: dict[str, NodeSizes]) -> None:
    """Reject tasks that could never start, even on an empty cluster."""
    ids = {model: i for i, model in enumerate(dict.fromkeys(models))}
    codes = np.fromiter((ids[model] for model in models), np.int64, len(models))
    known = np.asarray([model in pools for model in ids], dtype=bool)
    checks.reject("gpu_model", ~known[codes], "no node has this GPU model")
    largest = np.asarray([max(pools.get(model, {0: 0})) for model in ids], dtype=np.float64)
    usable: Bools = checks.fine("gpu_model") & checks.fine("gpu_request")
    checks.reject(
        "gpu_request",
        usable & (gpus > largest[codes]),
        lambda row: f"a pod must fit on one node; the largest {models[row]} node has {largest[codes[row]]:.0f} cards",
    )
    usable = usable & checks.fine("gpu_request") & checks.fine("worker_num")
    room = np.full(len(models), np.inf)
    by_code = list(ids)
    sizes = pa.array(gpus[usable]).dictionary_encode()
    pairs = pa.array(codes[usable] * (len(sizes.dictionary) + 1) + sizes.indices.to_numpy()).dictionary_encode()
    rooms = []
    for pair in pairs.dictionary.to_pylist():
        code, size = divmod(pair, len(sizes.dictionary) + 1)
        rooms.append(pods_held(pools[by_code[code]], sizes.dictionary[size].as_py()))
    room[usable] = np.asarray(rooms, dtype=np.float64)[pairs.indices.to_numpy()]
    checks.reject(
        "worker_num",
        usable & (pods > room),
        lambda row: f"the whole pool {models[row]} holds only {room[row]:.0f} pods of {gpus[row]:g} GPUs",
    )


def _build(
    good: Bools,
    names: list[str],
    owners: list[str],
    models: list[str],
    kinds: list[str],
    numbers: tuple[Floats, ...],
    day: int | None,
) -> _Jobs:
    """Task objects of the good rows, and beside them what a scheduler may not know."""
    rows = np.flatnonzero(good)
    keys = pa.table({"submit": numbers[3][rows], "name": pa.array(names).take(pa.array(rows))})
    order = pc.sort_indices(keys, sort_keys=[("submit", "ascending"), ("name", "ascending")]).to_numpy()
    rows = rows[order]
    cpus, gpus, pods, submit, duration, guarantee, interval, cancel = (c[rows].tolist() for c in numbers)
    picked = rows.tolist()
    with gc_paused():  # to collect takes half of the time
        words = ([column[row] for row in picked] for column in (names, owners, models))
        priorities = [_KINDS[kinds[row]] for row in picked]
        asked = (map(int, pods), gpus, submit, cpus, guarantee, interval)
        tasks = tuple(map(Task, range(len(picked)), *words, priorities, *asked))
    cancels = any(time != math.inf for time in cancel)
    never = math.inf  # one object for all, not one a task
    withdrawn = tuple(never if t == never else t for t in cancel) if cancels else ()
    return _Jobs(tasks, tuple(duration), withdrawn, day)
