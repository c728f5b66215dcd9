"""Traces of days that several properties are looked at on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from gfs import Workload, generate


@cache
def five_busy_days() -> Workload:
    """Five days of a small busy cluster, tasks with guarantees of 1, 2 and 4 hours."""
    work = generate("paper", nodes=12, days=5, spot_scale=4, seed=3)
    hours = (1.0, 2.0, 4.0)
    tasks = (replace(task, guarantee_hours=hours[task.index % 3]) if task.is_spot else task for task in work.tasks)
    return replace(work, tasks=tuple(tasks))
