"""Traces with the columns of Alibaba's cluster-trace-v2026-spot-gpu: a job and a node table (docs/reference/files.md).

Times are seconds. Columns of Arrow type are read as what they are: durations as seconds whatever their unit,
timestamps as seconds since the midnight before the first submission, in UTC if the column has a time zone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.limits import MOST_CPUS, MOST_GPUS, MOST_GPUS_A_NODE, MOST_SECONDS
from gfs.domain.node import NodeEvent, NodeSpec
from gfs.domain.task import MEMORY, PODS, Priority, Requests, Role, Task
from gfs.domain.units import DAY, HOUR, MICRO
from gfs.domain.workload import EmptyNodes, Workload, pods_held
from gfs.gc_paused import gc_paused
from gfs.workloads.readers.checks import TIME_KINDS, Bools, Checks, Floats, since_day
from gfs.workloads.readers.json_cells import read_labels, read_name, read_resources, read_roles
from gfs.workloads.readers.node_events import read_node_events
from gfs.workloads.readers.tables import Table, TableSource, read_table

JOB_COLUMNS = (
    *("job_name", "organization", "gpu_model", "cpu_request", "gpu_request", "worker_num"),
    *("submit_time", "duration", "job_type"),
)
OPTIONAL_JOB_COLUMNS = ("guarantee_hours", "checkpoint_interval")
CANCEL_COLUMN = "cancel_time"
"""Optional: when the owner withdraws the task; blank for never."""
ROLES_COLUMN = "roles"
"""Optional: a JSON array of the task's roles; blank for equal pods, as the other columns describe them."""
TOPOLOGY_COLUMN = "topology_key"
"""Optional: a node label of which all pods must share one value; blank for any nodes."""
NODE_COLUMNS = ("node_name", "gpu_model", "gpu_capacity_num", "cpu_num")
OPTIONAL_NODE_COLUMNS = ("resources", "labels")
"""JSON objects: what else a node has by name, and its labels."""

Roles = tuple[Role, ...]

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
    node_table = read_table(nodes, NODE_COLUMNS, OPTIONAL_NODE_COLUMNS, name="nodes")
    specs, bad_nodes = read_node_specs(node_table)
    nodes_known = skip_bad_rows or not bad_nodes  # what fits cannot be said before the nodes are right
    optional = (*OPTIONAL_JOB_COLUMNS, CANCEL_COLUMN, ROLES_COLUMN, TOPOLOGY_COLUMN)
    job_table = read_table(jobs, JOB_COLUMNS, optional, name="jobs")
    empty = EmptyNodes(specs) if nodes_known else None
    read, bad_jobs = _read_jobs(job_table, empty, guarantee_hours, checkpoint_interval)
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
    resources: list[Requests] = checks.parsed("resources", read_resources, ())
    labels: list[tuple[tuple[str, str], ...]] = checks.parsed("labels", read_labels, ())
    specs = []
    for i, row in enumerate(np.flatnonzero(checks.good).tolist()):
        stated = dict(resources[row])
        memory, most_pods = stated.pop(MEMORY, 0.0), int(stated.pop(PODS, 0))
        usual = (names[row], models[row], int(gpus[row]), float(cpus[row]), memory, most_pods)
        specs.append(NodeSpec(i, *usual, resources=tuple(stated.items()), labels=labels[row]))
    return tuple(specs), checks.bad_rows()


def _read_jobs(
    table: Table, empty: EmptyNodes | None, guarantee_hours: float, checkpoint_interval: float
) -> tuple[_Jobs, tuple[BadRow, ...]]:
    """The usable jobs, and what is wrong with the other rows."""
    checks = Checks(table)
    names, owners, models = (checks.text(name) for name in ("job_name", "organization", "gpu_model"))
    kinds = checks.text("job_type")
    roles: list[Roles] = checks.parsed(ROLES_COLUMN, read_roles, ())
    keys = checks.parsed(TOPOLOGY_COLUMN, read_name, "")
    cpus, gpus, pods = _numbers_of_pods(checks, roles)
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
    if empty is not None:
        _check_fit(checks, models, gpus, pods, empty, roles)
        if any(roles) or any(keys):
            _check_fit_of_roles(checks, models, gpus, pods, empty, roles, keys)
    numbers = (cpus, gpus, pods, submit, duration, guarantee, interval, cancel)
    read = _build(checks.good, names, owners, models, kinds, numbers, day)
    if any(roles) or any(keys):
        rows = {names[row]: (roles[row], keys[row]) for row in np.flatnonzero(checks.good).tolist()}
        read = read._replace(tasks=tuple(_with_roles(task, *rows[task.name]) for task in read.tasks))
    return read, checks.bad_rows()


def _numbers_of_pods(checks: Checks, roles: list[Roles]) -> tuple[Floats, Floats, Floats]:
    """Returns CPUs and GPUs per pod and the number of pods; where a row has roles, these say so, and it must agree."""
    said = np.full((3, len(roles)), math.nan)
    for row, each in enumerate(roles):
        if each:
            most_cpus = max(role.cpus_per_pod for role in each)
            most_gpus = max(role.gpus_per_pod for role in each)
            said[:, row] = most_cpus, most_gpus, sum(role.pods for role in each)
    fine = checks.fine(ROLES_COLUMN)
    said[:, ~fine] = 1.0  # that the roles are wrong is all that is said of such a row

    def column(name: str, most: float, stated: Floats, words: str) -> Floats:
        values = checks.number(name, most=most, missing=stated)
        differs = fine & ~np.isnan(stated) & (values != stated)
        checks.reject(name, differs, lambda row: f"{words} {stated[row]:g}")
        return values

    cpus = column("cpu_request", MOST_CPUS, said[0], "the most CPUs that a role asks for are")
    gpus = column("gpu_request", MOST_GPUS, said[1], "the most GPUs that a role asks for are")
    return cpus, gpus, column("worker_num", MOST_GPUS, said[2], "the pods of all roles together are")


def _with_roles(task: Task, roles: Roles, topology_key: str) -> Task:
    """Returns the task with these roles; a single one is that of a task of equal pods."""
    if len(roles) == 1:
        memory, resources = roles[0].memory_per_pod, roles[0].resources
        return replace(task, memory_per_pod=memory, resources=resources, topology_key=topology_key)
    if roles:
        return replace(task, cpus_per_pod=0.0, mixed=roles, topology_key=topology_key)
    return replace(task, topology_key=topology_key) if topology_key else task


def _check_fit_of_roles(
    checks: Checks,
    models: list[str],
    gpus: Floats,
    pods: Floats,
    empty: EmptyNodes,
    roles: list[Roles],
    keys: list[str],
) -> None:
    """Reject tasks with roles or a topology key that could never start, even on an empty cluster."""
    for column, stated in ((ROLES_COLUMN, roles), (TOPOLOGY_COLUMN, keys)):
        whys = {}
        for row, value in enumerate(stated):
            if value and checks.good[row]:
                each = roles[row] or (Role(int(pods[row]), float(gpus[row])),)
                whys[row] = empty.why_never(models[row], each, keys[row] if column == TOPOLOGY_COLUMN else "")
        which = np.zeros(len(models), dtype=bool)
        which[[row for row, why in whys.items() if why]] = True
        checks.reject(column, which, whys.__getitem__)


def _check_fit(
    checks: Checks, models: list[str], gpus: Floats, pods: Floats, empty: EmptyNodes, roles: list[Roles]
) -> None:
    """Reject tasks of equal pods that could never start, even on an empty cluster."""
    pools = empty.pools
    ids = {model: i for i, model in enumerate(dict.fromkeys(models))}
    codes = np.fromiter((ids[model] for model in models), np.int64, len(models))
    known = np.asarray([model in pools for model in ids], dtype=bool)
    checks.reject("gpu_model", ~known[codes], "no node has this GPU model")
    largest = np.asarray([max(pools.get(model, {0: 0})) for model in ids], dtype=np.float64)
    alike = np.fromiter((not each for each in roles), bool, len(roles))
    usable: Bools = checks.fine("gpu_model") & checks.fine("gpu_request") & alike
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
