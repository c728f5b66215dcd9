"""The life of one task: when it waited, ran, was evicted or lost, and why."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from gfs.domain.errors import InputError
from gfs.domain.execution import LEASE_END
from gfs.telemetry.runs import categories, numbers

What = Literal["submitted", "waited", "ran", "evicted", "suspended", "lost", "cancelled", "finished"]
"""What a task does or what happens to it."""

_ENDS: dict[str, What] = {"finish": "finished", "evict": "evicted", "lost": "lost", "cancel": "cancelled"}
"""Events that end a run; one that was cancelled while it waited ends no run."""


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One stretch or moment in the life of a task."""

    time: float
    """When it began."""
    what: What
    length: float = 0.0
    """Seconds it lasted: 0 for a moment; up to the end of the log if it still lasts."""
    run: int = 0
    """Which stay on the cluster, from 1; a wait belongs to the run that follows."""
    nodes: tuple[str, ...] = ()
    """Nodes of its pods, each once."""
    gpus: float = 0.0
    reason: str = ""
    ongoing: bool = False
    """The log ends before this step does."""


def task_life(events: pa.Table, task_name: str) -> list[TaskStep]:
    """Tell the life of a task in order, from the event log alone.

    Waits of no length are left out. The reason of a start explains the wait before it, or, if there was none,
    the run. Raises InputError, with similar names, for a task the log does not know.
    """
    code, names = categories(events["task"])
    rows = np.flatnonzero(code == (names.index(task_name) if task_name in names else -1))
    if not len(rows):
        raise InputError(_unknown(task_name, names))
    end_of_log = float(numbers(events["time"]).max())
    steps: list[TaskStep] = []
    since: float | None = None
    running: dict[int, TaskStep] = {}
    for (event, run), pods in _moments(events.take(pa.array(rows))):
        time, reason = pods[0]["time"], next((p["reason"] for p in pods if p["reason"]), "")
        if event == "submit":
            steps.append(TaskStep(time, "submitted", gpus=pods[0]["gpus"], reason=reason))
            since = time
            continue
        nodes, gpus = tuple(dict.fromkeys(p["node"] for p in pods)), float(sum(p["gpus"] for p in pods))
        if event == "start":
            waited = time - since if since is not None else 0.0
            if waited > 0:
                steps.append(TaskStep(time - waited, "waited", waited, run, gpus=gpus, reason=reason))
            running[run] = TaskStep(time, "ran", 0.0, run, nodes, gpus, "" if waited > 0 else reason)
            since = None
        elif event == "cancel" and not run:
            if since is not None and time > since:
                steps.append(TaskStep(since, "waited", time - since, _next_run(steps), gpus=gpus))
            steps.append(TaskStep(time, "cancelled", gpus=gpus, reason=reason))
            since = None
        elif event in _ENDS:
            began = running.pop(run, None)
            if began is not None:
                steps.append(TaskStep(began.time, "ran", time - began.time, run, nodes, gpus, began.reason))
            what = "suspended" if event == "evict" and reason == LEASE_END else _ENDS[event]
            steps.append(TaskStep(time, what, 0.0, run, nodes, gpus, reason))
            since = time if event in ("evict", "lost") else None
    steps += [replace(s, length=end_of_log - s.time, ongoing=True) for s in running.values()]
    if since is not None and not running:
        steps.append(TaskStep(since, "waited", end_of_log - since, _next_run(steps), ongoing=True))
    return steps


def _next_run(steps: list[TaskStep]) -> int:
    return max((step.run for step in steps), default=0) + 1


def _moments(rows: pa.Table) -> list[tuple[tuple[str, int], list[dict[str, Any]]]]:
    """The rows of one task with the pods of each moment together, in the order of the log."""
    moments: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        row["reason"] = row.get("reason") or ""
        moments.setdefault((row["event"], int(row["run"] or 0)), []).append(row)
    return list(moments.items())


def _unknown(name: str, names: list[str]) -> str:
    """Say that a task is unknown and which names look like it."""
    if not names:
        return f"The event log is empty: it knows no task {name!r}."
    # Comparing is slow, so a long list is narrowed to names of about the same length first.
    near = [n for n in names if abs(len(n) - len(name)) <= 2] if len(names) > 20_000 else names
    similar = difflib.get_close_matches(name, near[:200_000], n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(similar)}?" if similar else f" It has {len(names)} tasks, such as {names[0]}."
    return f"The event log has no task {name!r}.{hint}"
