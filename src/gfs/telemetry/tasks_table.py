"""What became of every task, one row each: for frames in a notebook."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gfs.domain.execution import ExecutionRules
from gfs.domain.units import HOUR
from gfs.domain.workload import Workload
from gfs.telemetry.metrics import task_times, useful_and_wasted
from gfs.telemetry.runs import Bools, Floats, TaskColumns, runs_table


def tasks_table(events: pa.Table, workload: Workload, rules: ExecutionRules | None = None) -> pa.Table:
    """All tasks in the order of submission; times in seconds, empty where something never happened."""
    tasks, runs = TaskColumns.of(workload), runs_table(events, workload)
    count = len(workload.tasks)
    completion, waited, finished = task_times(runs, count)
    _, wasted = useful_and_wasted(runs, tasks, rules or ExecutionRules())
    first = np.full(count, np.nan)
    np.fmin.at(first, runs.task, runs.start)

    def per_task(which: Bools) -> pa.Array:
        return pa.array(np.bincount(runs.task[which], minlength=count))

    def seconds(values: Floats) -> pa.Array:
        return pa.array(values, pa.float64(), from_pandas=True)  # NaN: never

    columns = {
        "task": [task.name for task in workload.tasks],
        "kind": [task.priority.label for task in workload.tasks],
        "organization": [task.organization for task in workload.tasks],
        "gpu_model": [task.gpu_model for task in workload.tasks],
        "pods": tasks.pods,
        "gpus": tasks.gpus,
        "submit_time": seconds(runs.submitted),
        "first_start": seconds(first),
        "finish_time": seconds(np.where(finished, runs.submitted + completion, np.nan)),
        "wait": seconds(np.where(np.isfinite(first), waited, np.nan)),
        "duration": tasks.duration,
        "runs": per_task(np.ones(len(runs.task), np.bool_)),
        "evictions": per_task(runs.evicted),
        "suspensions": per_task(runs.suspended),
        "lost": per_task(runs.lost),
        "wasted_gpu_hours": np.bincount(runs.task[runs.ended], wasted[runs.ended], count) / HOUR,
        "cancelled": np.isfinite(runs.withdrawn),
    }
    return pa.table(
        {name: pa.array(values) if not isinstance(values, pa.Array) else values for name, values in columns.items()}
    )
