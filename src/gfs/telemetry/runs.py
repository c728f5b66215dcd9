"""Runs: the event log folded into one row per stay of a task on the cluster.

Metrics, the life of a task and the reports are all built from these columns. Everything is an array
over tasks or runs: a log of a million rows is folded in well under a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gfs.domain.errors import InputError
from gfs.domain.execution import LEASE_END
from gfs.domain.task import Task
from gfs.domain.workload import Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SIZES: Final[tuple[tuple[str, float], ...]] = (
    ("<1", 1.0 - 1e-6),
    ("1", 1.0),
    ("2", 2.0),
    ("3-4", 4.0),
    ("5-8", 8.0),
    ("9-16", 16.0),
    ("17-64", 64.0),
    (">64", float("inf")),
)
"""Groups of tasks by GPUs of the whole task: label and largest size."""


@dataclass(frozen=True, slots=True, eq=False)
class TaskColumns:
    """The tasks of a workload as columns; position = task index."""

    spot: Bools
    submit: Floats
    """Submission time the trace gives."""
    duration: Floats
    """Seconds of useful work it needs."""
    wanted: Floats
    """Seconds it would run if it started at once: its duration, or less if it is cancelled before."""
    pods: Ints
    gpus: Floats
    """GPUs of the whole task."""
    guarantee: Floats
    """Promised undisturbed seconds."""
    checkpoint: Floats
    """Seconds of progress between two checkpoints."""
    model: Ints
    """Position in `models`."""
    models: tuple[str, ...]
    """GPU models: those of the nodes in their order, then any that only tasks name."""
    organization: Ints
    """Position in `organizations`."""
    organizations: tuple[str, ...]

    @classmethod
    def of(cls, workload: Workload) -> TaskColumns:
        """Turn the tasks of a workload into columns."""
        tasks = workload.tasks
        submit, duration = _floats(tasks, "submit_time"), np.array(workload.durations, np.float64)
        wanted = duration
        if workload.cancel_times:
            wanted = np.minimum(duration, np.array(workload.cancel_times, np.float64) - submit)
        model, models = _codes((t.gpu_model for t in tasks), list(workload.capacity()))
        organization, organizations = _codes((t.organization for t in tasks), [])
        return cls(
            spot=np.fromiter((t.is_spot for t in tasks), np.bool_, len(tasks)),
            submit=submit,
            duration=duration,
            wanted=wanted,
            pods=np.fromiter((t.pods for t in tasks), np.int64, len(tasks)),
            gpus=_floats(tasks, "gpus"),
            guarantee=_floats(tasks, "guarantee_seconds"),
            checkpoint=_floats(tasks, "checkpoint_interval"),
            model=model,
            models=models,
            organization=organization,
            organizations=organizations,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """One row per run, ordered by task and run; and what the log says of every task."""

    task: Ints
    """Index of the task in the workload."""
    run: Ints
    """1 for the first stay, 2 after the first one was evicted, suspended or lost, and so on."""
    start: Floats
    end: Floats
    """NaN while the run still lasts."""
    evicted: Bools
    suspended: Bools
    """Stopped at the end of a lease: all progress kept."""
    lost: Bools
    """Ended by no decision of the scheduler, such as by the failure of a node; queued again."""
    cancelled: Bools
    """Ended because its owner withdrew the task."""
    finished: Bools
    wait: Floats
    """Seconds queued before this run: since submission, or since the run before was stopped."""
    submitted: Floats
    """Per task: time of its submission; NaN if the log has none."""
    withdrawn: Floats
    """Per task: when its owner cancelled it, running or waiting; NaN if nobody did."""
    last_event: float

    @property
    def ended(self) -> Bools:
        """Runs that are over."""
        return self.evicted | self.suspended | self.lost | self.cancelled | self.finished

    @property
    def length(self) -> Floats:
        """Seconds each run lasted; a run that still lasts is measured up to the last event."""
        return np.where(self.ended, self.end, self.last_event) - self.start


def runs_table(events: pa.Table, workload: Workload) -> Runs:
    """Fold an event log (one row a pod) into one row per run.

    Raises InputError when the log lacks a column or names a task the workload does not have.
    """
    missing = [c for c in ("time", "event", "task", "run") if c not in events.column_names]
    if missing:
        raise InputError(f"The event log has no column {', '.join(missing)}: was it written by GFS?")
    time = numbers(events["time"])
    event, event_names = categories(events["event"])
    name_code, names = categories(events["task"])
    task = _indices(names, workload)[name_code] if len(time) else name_code
    run = numbers(events["run"]).astype(np.int64)

    def rows(name: str) -> Bools:
        return np.equal(event, event_names.index(name) if name in event_names else -1)

    submitted, withdrawn = (np.full(len(workload.tasks), np.nan) for _ in range(2))
    submits, cancels = rows("submit"), rows("cancel")
    submitted[task[submits]] = time[submits]
    withdrawn[task[cancels]] = time[cancels]

    # One number per (task, run), so that a single sort groups the pods of a gang.
    stride = int(run.max(initial=0)) + 1
    key = task * stride + run
    started, finished, evicted = (rows(e) for e in ("start", "finish", "evict"))
    suspended = evicted & _at_lease_end(events)
    evicted &= ~suspended
    keys, first = np.unique(key[started], return_index=True)
    start = time[started][first]
    end = np.full(len(keys), np.nan)
    ways = {
        "finished": finished,
        "evicted": evicted,
        "suspended": suspended,
        "lost": rows("lost"),
        "cancelled": cancels & (run > 0),  # run 0: it only waited
    }
    ended_by = {way: np.zeros(len(keys), np.bool_) for way in ways}
    for way, mask in ways.items():
        end_keys, first = np.unique(key[mask], return_index=True)
        at = np.searchsorted(keys, end_keys)
        known = np.isin(end_keys, keys, assume_unique=True)
        if not known.all():
            stray = workload.tasks[int(end_keys[~known][0]) // stride].name
            raise InputError(f"The event log ends a run of task {stray} that it never started: is it complete?")
        end[at] = time[mask][first]
        ended_by[way][at] = True

    run_task, run_number = keys // stride, keys % stride
    since = submitted[run_task]
    again = np.flatnonzero(run_number > 1)
    gap = (again == 0) | (run_task[again - 1] != run_task[again]) | (run_number[again - 1] != run_number[again] - 1)
    if gap.any():
        torn = again[np.argmax(gap)]
        name = workload.tasks[int(run_task[torn])].name
        raise InputError(
            f"The event log has run {run_number[torn]} of task {name} but not the one before: is it complete?"
        )
    since[again] = end[again - 1]  # sorted by (task, run), so the run before is the row before
    return Runs(
        task=run_task,
        run=run_number,
        start=start,
        end=end,
        wait=start - since,
        submitted=submitted,
        withdrawn=withdrawn,
        **ended_by,
        last_event=float(time.max()) if len(time) else 0.0,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Pods:
    """One row per pod that started: where it ran."""

    run_row: Ints
    """Row of its run in `Runs`."""
    node: Ints
    """Index of the node in the workload."""
    gpus: Floats


def pods_table(events: pa.Table, workload: Workload, runs: Runs) -> Pods:
    """Where every pod of every run sat. Pods on nodes the workload does not have are left out."""
    event, event_names = categories(events["event"])
    starts = np.flatnonzero(event == (event_names.index("start") if "start" in event_names else -1))
    name_code, names = categories(events["task"])
    node_code, node_names = categories(events["node"])
    position = {node.name: node.index for node in workload.nodes}
    node_index = np.fromiter((position.get(n, -1) for n in node_names), np.int64, len(node_names))
    stride = int(runs.run.max(initial=0)) + 1
    run = numbers(events["run"])[starts].astype(np.int64)
    task = _indices(names, workload)[name_code[starts]] if len(starts) else starts
    row = np.searchsorted(runs.task * stride + runs.run, task * stride + run)
    node = node_index[node_code[starts]] if len(starts) else starts
    known = node >= 0
    return Pods(row[known], node[known], numbers(events["gpus"])[starts][known])


def _at_lease_end(events: pa.Table) -> Bools:
    """Rows whose reason is the end of a lease."""
    if "reason" not in events.column_names:
        return np.zeros(events.num_rows, np.bool_)
    reason, reasons = categories(events["reason"])
    return np.equal(reason, reasons.index(LEASE_END) if LEASE_END in reasons else -1)


def size_classes(gpus: Floats) -> Ints:
    """The position in `SIZES` of tasks with so many GPUs."""
    classes: Ints = np.searchsorted(np.array([limit for _, limit in SIZES]), gpus - 1e-9)
    return classes


def numbers(column: Any) -> Floats:
    """A numeric table column as floats."""
    return np.asarray(column.to_numpy(), dtype=np.float64)


def categories(column: Any) -> tuple[Ints, list[str]]:
    """A text column, plain or dictionary-encoded, as codes and the names they stand for."""
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if not pa.types.is_dictionary(chunked.type):
        chunked = chunked.dictionary_encode()
    chunked = chunked.unify_dictionaries()
    if chunked.num_chunks == 0:
        return np.empty(0, np.int64), []
    codes = np.concatenate([np.asarray(chunk.indices, dtype=np.int64) for chunk in chunked.chunks])
    return codes, [str(name) for name in chunked.chunk(0).dictionary.to_pylist()]


def _indices(names: list[str], workload: Workload) -> Ints:
    """Task index of every name of the log, in the order of the names."""
    index = {task.name: task.index for task in workload.tasks}
    found = np.fromiter((index.get(name, -1) for name in names), np.int64, len(names))
    if (found < 0).any():
        stranger = names[int(np.argmin(found))]
        raise InputError(
            f"The event log speaks of task {stranger!r}, which the workload does not have: "
            "give the jobs file the log was made from."
        )
    return found


def _floats(tasks: tuple[Task, ...], attribute: str) -> Floats:
    return np.fromiter(map(attrgetter(attribute), tasks), np.float64, len(tasks))


def _codes(values: Iterable[str], known: list[str]) -> tuple[Ints, tuple[str, ...]]:
    """Number values in order of first appearance, after those already known."""
    code = {name: i for i, name in enumerate(known)}
    codes = np.fromiter((code.setdefault(v, len(code)) for v in values), np.int64)
    return codes, tuple(code)


@dataclass(frozen=True, slots=True)
class Bins:
    """Equal bins of time: bin b covers [origin + b*width, origin + (b+1)*width), in seconds."""

    origin: float
    width: float
    bins: int


def time_average(
    start: Floats, end: Floats, weight: Floats, over: Bins, group: Ints | None = None, groups: int = 1
) -> Floats:
    """Average total weight running in each bin, per group: an array of shape (groups, bins).

    An interval that starts at t in bin b adds weight * (end of b - t) there and weight * width to every later bin; its
    end takes the same away.
    """
    if group is None:
        group = np.zeros(len(start), np.int64)
    bins = over.bins
    cells = groups * (bins + 1)
    partial = np.zeros(cells)
    step = np.zeros(cells)
    for moment, sign in ((start, 1.0), (end, -1.0)):
        offset = np.clip((moment - over.origin) / over.width, 0.0, float(bins))
        into = np.minimum(offset.astype(np.int64), bins)  # bin `bins` is outside: what falls there is dropped
        cell = group * (bins + 1) + into
        partial += np.bincount(cell, sign * weight * (into + 1 - offset), cells)
        step += np.bincount(cell, sign * weight, cells)
    steps = step.reshape(groups, bins + 1)
    before = np.cumsum(steps, axis=1) - steps
    average: Floats = (partial.reshape(groups, bins + 1) + before)[:, :bins]
    average[np.abs(average) < 1e-9] = 0.0  # what rounding leaves of shares that cancel
    return average


def quota_by_pool(quota: pa.Table) -> dict[str, Ints]:
    """The rows of a quota log by GPU model, in order of time: those of the shortest guarantee of each."""
    model, models = categories(quota["gpu_model"])
    time, hours = numbers(quota["time"]), numbers(quota["guarantee_hours"])
    found = {}
    for code, name in enumerate(models):
        rows = np.flatnonzero(model == code)
        if len(rows):
            rows = rows[hours[rows] == hours[rows].min()]
            found[name] = rows[np.argsort(time[rows], kind="stable")]
    return found
