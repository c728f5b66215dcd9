"""Are the units of a trace right? Its span, its load, what looks odd, and how long it would take to simulate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from gfs.domain.errors import InputError
from gfs.domain.limits import MOST_TICKS
from gfs.domain.units import DAY, HOUR, format_seconds
from gfs.domain.workload import Workload
from gfs.telemetry.runs import TaskColumns

YEAR = 365.25 * DAY
LONG_AGO = 1e8
"""Seconds: a trace that begins more than three years after its second 0 counts from some other moment."""


@dataclass(frozen=True, slots=True)
class Plausibility:
    """What a person can check at a glance, and what looks wrong."""

    first: float
    """Second of the first submission."""
    span: float
    """Seconds from the first submission to the last."""
    load: float
    """GPU-seconds that tasks ask for / (GPUs x span, at least an hour)."""
    median_duration: float
    warnings: tuple[str, ...]

    def text(self) -> str:
        """Such as 'span 7.0 days, load 0.84 of the GPUs, median duration 28 min'."""
        return (
            f"span {format_seconds(self.span)}, load {self.load:.2g} of the GPUs,"
            f" median duration {format_seconds(self.median_duration)}"
        )


def plausibility(workload: Workload) -> Plausibility:
    """Look at the times of a workload that has tasks and nodes."""
    tasks = TaskColumns.of(workload)
    first, span = float(tasks.submit[0]), float(tasks.submit[-1] - tasks.submit[0])
    work = float((tasks.gpus * tasks.wanted).sum())
    load = work / (sum(workload.capacity().values()) * max(span, HOUR))
    median = float(np.median(tasks.duration))
    warnings = []
    if first >= LONG_AGO:
        warnings.append(
            f"the first submission is at second {first:,.0f}. As seconds since 1970 that is"
            f" {_date(first)}; hours of the day are then those of UTC"
        )
    if span > 10 * YEAR:
        warnings.append(f"submissions span {span / YEAR:,.0f} years: are they in milliseconds? They must be seconds")
    if median > 30 * DAY:
        warnings.append(
            f"half of the tasks run longer than {median / DAY:,.0f} days: are durations in milliseconds?"
            " They must be seconds"
        )
    elif 0 < median < 1:
        warnings.append(f"half of the tasks run less than {median:.2g} s: are durations in hours or days?")
    if load > 3:
        warnings.append(
            f"tasks ask for {load:,.0f} times what the nodes have: are the units of submit_time and duration the same?"
        )
    elif load < 0.001:
        warnings.append(f"tasks ask for {load:.1g} of what the nodes have: are durations in seconds?")
    return Plausibility(first, span, load, median, tuple(warnings))


def check_run_length(workload: Workload, tick: float) -> None:
    """Raise if a simulation would take more than `MOST_TICKS` ticks: the units of such a trace are wrong.

    Counted is the time in which anything runs, if every task started at once, or the time the busiest pool
    needs for its work if that is longer. Idle times cost nothing.
    """
    if not workload.tasks:
        return
    tasks = TaskColumns.of(workload)
    ends = np.maximum.accumulate(tasks.submit + tasks.wanted)
    busy = float((ends - np.maximum(tasks.submit, np.append(tasks.submit[0], ends[:-1]))).clip(0).sum())
    gpus = np.array([max(workload.capacity().get(model, 0), 1) for model in tasks.models], np.float64)
    work = np.bincount(tasks.model, tasks.gpus * tasks.wanted, len(gpus)) / gpus
    seconds = max(busy, float(work.max()))
    if seconds / tick > MOST_TICKS:
        raise InputError(
            f"this run would take about {seconds / tick:,.0f} ticks of {tick:g} s ({seconds / YEAR:,.0f} years in which"
            f" tasks run); the most is {MOST_TICKS:,}. Are the times of the trace in seconds, not milliseconds?"
            " `gfs trace check` prints its span and load. If they are right, simulate a part of the trace or set a"
            " longer tick (--set tick=3600)."
        )


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return "no date"
