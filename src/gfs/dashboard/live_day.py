"""The day of a running controller as a trace and its event log, so that it can be simulated with something else.

The day ends now: what runs counts as done, with the work that it has done so far, what waits as withdrawn. Only GPUs
count there, no CPUs, memory or node selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

import pyarrow as pa

from gfs.core.actions import CANCEL, FINISH, START, SUBMIT
from gfs.dashboard.files import RunTables
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeEvent, NodeSpec
from gfs.domain.task import Task
from gfs.domain.workload import Workload
from gfs.telemetry.event_log import EVENTS, SCHEMA


class Heard(NamedTuple):
    """An entry of the record as it was heard."""

    time: float
    what: int
    task: Task
    run: int
    pods: tuple[tuple[str, float], ...]
    """Of a start: the node of each pod, and its number of GPUs."""
    reason: str


@dataclass(slots=True)
class _Life:
    """What is known of a task by the entries so far."""

    task: Task
    submitted: float
    pods: tuple[tuple[str, float], ...] = ()
    began: float | None = None
    run: int = 0
    work: float = 0.0
    """Seconds of useful work in runs that are over."""
    duration: float | None = None
    cancelled: float = inf
    rows: list[tuple[int, float, int, int, tuple[tuple[str, float], ...], str]] = field(default_factory=list)
    """Place in the log, time, event, run, pods and reason of each of its entries."""


def day_of(
    heard: Sequence[Heard],
    nodes: Sequence[NodeSpec],
    node_events: Iterable[NodeEvent],
    now: float,
    rules: ExecutionRules,
) -> tuple[RunTables, Workload]:
    """The tables and the trace of everything that was heard up to now."""
    lives: dict[str, _Life] = {}
    for place, entry in enumerate(heard):
        life = lives.setdefault(entry.task.name, _Life(entry.task, entry.time))
        _live_on(life, place, entry, rules)
    for place, life in enumerate(lives.values(), len(heard)):
        if life.duration is None:
            what, run = (FINISH, life.run) if life.began is not None else (CANCEL, 0)
            _live_on(life, place, Heard(now, what, life.task, run, (), ""), rules)
    ordered = sorted(lives.values(), key=lambda life: (life.submitted, life.task.name))
    tasks = tuple(replace(life.task, index=i, submit_time=life.submitted, rules=()) for i, life in enumerate(ordered))
    workload = Workload(
        tasks,
        tuple(nodes),
        "this cluster",
        durations=tuple(max(life.duration or 0.0, 1.0) for life in ordered),
        cancel_times=tuple(life.cancelled for life in ordered),
        node_events=tuple(node_events),
    )
    promises = {task.name: (task.guarantee_seconds, task.checkpoint_interval) for task in tasks}
    return RunTables(_table(ordered), workload.nodes, promises, None, workload.node_events), workload


def _live_on(life: _Life, place: int, entry: Heard, rules: ExecutionRules) -> None:
    """What an entry means for the task, as the record of a cluster counts it."""
    time, what, task, run, pods, reason = entry
    if what == START:
        life.began, life.run, life.pods = time, run, pods
    life.rows.append((place, time, what, run, life.pods if run else (), reason))
    if what in (SUBMIT, START):
        return
    ran = 0.0 if life.began is None else max(0.0, time - life.began - rules.overhead(task, life.run))
    life.began = None
    if what == FINISH:
        life.duration = life.work + ran
    elif what == CANCEL:
        life.duration, life.cancelled = max(time - life.submitted, 0.0) + 1.0, time  # it would have run on
    else:
        life.work += rules.saved_at_loss(task, ran)


def _table(lives: list[_Life]) -> pa.Table:
    """The event log, one row a pod."""
    rows = []
    for life in lives:
        task = life.task
        about = (task.name, task.priority.label, task.organization, task.gpu_model)
        for place, time, what, run, pods, reason in life.rows:
            for node, gpus in pods or (("", task.gpus),):
                rows.append((place, (time, EVENTS[what], *about, run, node, "", gpus, reason)))
    rows.sort(key=lambda row: row[0])
    columns = list(zip(*(row for _, row in rows), strict=True)) or [()] * len(SCHEMA)
    plain = [pa.array(column, _value_type(field.type)) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(plain, names=SCHEMA.names)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
