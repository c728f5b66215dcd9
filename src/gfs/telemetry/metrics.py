"""The metrics (docs/concepts/metrics.md), worked out from the event log alone.

A simulated and a live run go through the same code, and an outside program that reads the same log must
find the same numbers. Counted are the tasks submitted inside the window; each runs to its end, wherever
that is. A run that still lasts when the log ends takes GPUs (allocation) but has no outcome yet, so it
enters nothing else. A task that its owner cancels has no completion time; what its last run did is neither useful
nor wasted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gfs.domain.execution import PROGRESS_EPS, ExecutionRules
from gfs.domain.units import HOUR
from gfs.domain.workload import Workload
from gfs.telemetry.runs import Bools, Floats, Runs, TaskColumns, numbers, quota_by_pool, runs_table

EPS: Final = PROGRESS_EPS
"""Seconds by which two moments may differ and still be the same."""

PROMISES: Final = ("eviction_rate", "evictions_per_guarantee_period", "guarantee_hit_rate")
"""Metrics of spot tasks that mean nothing where tasks hold leases."""

Window = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """How long the tasks of one class took and waited. Times in seconds; all 0 for a class without tasks."""

    tasks: int
    """Counted tasks that finished."""
    jct_mean: float
    """Job completion time: submission to finish."""
    jct_p99: float
    jqt_mean: float
    """Job queuing time: the sum of all waits of a task."""
    jqt_p99: float
    jqt_p50: float
    jqt_max: float
    slowdown_mean: float
    """JCT / duration, over tasks with a duration above 0."""
    suspensions: int
    """Runs of counted tasks that a lease's end stopped; they keep their progress."""
    lost: int
    """Runs of counted tasks that ended by no decision of the scheduler, such as by the failure of a node."""
    lost_gpu_hours: float
    """GPU-hours of progress that these losses threw away: since the last checkpoint."""
    cancelled: int
    """Counted tasks that their owners withdrew, running or waiting."""


@dataclass(frozen=True, slots=True)
class SpotMetrics(ClassMetrics):
    """What spot tasks have besides: they can be evicted."""

    runs: int
    evictions: int
    eviction_rate: float
    """Evictions / runs. Not reported (None in the summary) for a scheduler of leases: it evicts nobody."""
    wasted_gpu_hours: float
    """Allocated minus useful, counted tasks of both classes (what evictions, suspensions and losses cost)."""
    guarantee_periods: int
    """Guarantee periods completed: one per H hours a run lasts, and one for finishing inside a period."""
    evictions_per_guarantee_period: float
    """Evicted runs / (evicted runs + completed guarantee periods)."""
    guarantee_hit_rate: float
    """Share of runs that were not evicted before their first H hours; without those lost or cancelled before."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Every metric of one run of one scheduler."""

    hp: ClassMetrics
    spot: SpotMetrics
    allocation_rate: dict[str, float]
    """Time-weighted share of the GPUs of each model that is allocated to any task."""
    allocation_rate_total: float
    goodput_rate: dict[str, float]
    """The useful part of it: time-weighted share of the GPUs of each model that do work that is kept."""
    goodput_rate_total: float
    wasted_rate: dict[str, float]
    """The wasted part of it: work that was lost and done again, and restarts. What is neither belongs to runs that
    were cancelled or have not ended."""
    wasted_rate_total: float
    useful_gpu_hours: float
    """GPU-hours of progress that was kept, counted tasks of both classes."""
    objective: float
    """Eviction rate - alpha x useful GPU time of the counted tasks / (all GPUs x span). Lower is better."""
    alpha: float
    quota_use: float | None
    """Time average of spot GPUs in use / quota, at most 1, where the quota is above 0; None without a quota."""
    span: tuple[float, float]
    """First and last second the allocation rate looks at."""
    leases: bool
    """The scheduler suspends at lease ends: it promises no hours and evicts nobody."""

    def __repr__(self) -> str:
        spot = self.spot
        stopped = f"{spot.suspensions:,} suspended" if self.leases else f"{spot.eviction_rate:.2%} of spot runs evicted"
        return (
            f"<Metrics: {self.hp.tasks:,} HP tasks waited {self.hp.jqt_mean:.1f} s on average, {spot.tasks:,} spot"
            f" tasks {spot.jqt_mean:.1f} s; {stopped}; {self.allocation_rate_total:.1%} of GPUs allocated>"
        )

    def to_dict(self) -> dict[str, Any]:
        """The object that stands under "metrics" in the JSON summary."""
        spot = asdict(self.spot)
        if self.leases:
            spot.update(dict.fromkeys(PROMISES))
        return {**asdict(self), "spot": spot, "span": list(self.span)}

    def figures(self) -> dict[str, Any]:
        """The metrics of the whole pool as one row of a table: `hp_` and `spot_` before those of a class."""
        values = self.to_dict()
        return {
            **{f"hp_{name}": value for name, value in values["hp"].items()},
            **{f"spot_{name}": value for name, value in values["spot"].items()},
            "allocation_rate": self.allocation_rate_total,
            "goodput_rate": self.goodput_rate_total,
            "wasted_rate": self.wasted_rate_total,
            "useful_gpu_hours": self.useful_gpu_hours,
            "lost": self.hp.lost + self.spot.lost,
            "cancelled": self.hp.cancelled + self.spot.cancelled,
            "objective": self.objective,
        }


def compute_metrics(
    events: pa.Table,
    workload: Workload,
    *,
    window: Window | None = None,
    quota: pa.Table | None = None,
    alpha: float = 0.5,
    rules: ExecutionRules | None = None,
    leases: bool = False,
) -> Metrics:
    """Work out every metric (docs/concepts/metrics.md).

    `window` is (start, end) in seconds; either may be None. Without it, allocation is measured from the
    first submission to the last event and every task counts. `rules` are those the log was made by.
    """
    tasks = TaskColumns.of(workload)
    runs = runs_table(events, workload)
    low, high = window or (None, None)
    submitted, counted = runs.submitted, counted_tasks(runs, window)
    first_submission = float(np.nanmin(submitted)) if np.isfinite(submitted).any() else 0.0
    span = (first_submission if low is None else float(low), runs.last_event if high is None else float(high))

    over = runs.ended & counted[runs.task]
    rules = rules or ExecutionRules()
    useful, wasted = useful_and_wasted(runs, tasks, rules)
    useful_hours = float(useful[over].sum()) / HOUR
    waste_by_model = np.bincount(tasks.model[runs.task[over]], wasted[over], len(tasks.models)) / HOUR
    cards = sum(workload.capacity().values())
    allocation, goodput, waste = _pool_use(runs, tasks, rules, workload, span)

    jct, jqt, done = task_times(runs, len(workload.tasks))
    done &= counted
    thrown_away = np.maximum(0.0, _progress(runs, tasks, rules) * tasks.gpus[runs.task] - useful)
    hp, spot = (
        ClassMetrics(
            **_times(jct, jqt, tasks.duration, done & of_class),
            **_interruptions(runs, thrown_away, done & of_class, counted & of_class),
        )
        for of_class in (~tasks.spot, tasks.spot)
    )
    spot_over = over & tasks.spot[runs.task]
    eviction = _eviction_metrics(runs, tasks, spot_over, float(waste_by_model.sum()))
    capacity_hours = cards * (span[1] - span[0]) / HOUR
    return Metrics(
        hp=hp,
        spot=SpotMetrics(**asdict(spot), **eviction),
        allocation_rate=allocation.by_model,
        allocation_rate_total=allocation.total,
        goodput_rate=goodput.by_model,
        goodput_rate_total=goodput.total,
        wasted_rate=waste.by_model,
        wasted_rate_total=waste.total,
        useful_gpu_hours=useful_hours,
        objective=float(eviction["eviction_rate"])
        - (alpha * useful_hours / capacity_hours if capacity_hours > 0 else 0.0),
        alpha=alpha,
        quota_use=None if quota is None else _quota_use(quota, span),
        span=span,
        leases=leases,
    )


def counted_tasks(runs: Runs, window: Window | None) -> Bools:
    """Per task: whether it was submitted inside the window."""
    low, high = window or (None, None)
    with np.errstate(invalid="ignore"):  # a task that was never submitted is not counted
        return (runs.submitted >= (-np.inf if low is None else low) - EPS) & (
            runs.submitted <= (np.inf if high is None else high) + EPS
        )


def useful_and_wasted(runs: Runs, tasks: TaskColumns, rules: ExecutionRules) -> tuple[Floats, Floats]:
    """GPU-seconds each run kept and lost; neither of a run that its owner cancelled.

    An evicted or lost run keeps its progress up to its last checkpoint.
    """
    gpus = tasks.gpus[runs.task]
    saved = _saved(runs, tasks, rules, _progress(runs, tasks, rules))
    useful, wasted = gpus * saved, gpus * (runs.length - saved)
    useful[runs.cancelled] = wasted[runs.cancelled] = 0.0
    return useful, wasted


def _saved(runs: Runs, tasks: TaskColumns, rules: ExecutionRules, progress: Floats) -> Floats:
    """Seconds of its progress that each run keeps."""
    interval = tasks.checkpoint[runs.task]
    saved = progress.copy()  # an interval of 0 saves all the time
    evicted = runs.evicted & (not rules.checkpoint_on_grace)  # a lost run has no grace in which to save
    steps = (evicted | runs.lost) & (interval > 0)
    saved[steps] = 0.0
    steps &= np.isfinite(interval)  # an endless interval never saves
    saved[steps] = np.floor((progress[steps] + EPS) / interval[steps]) * interval[steps]
    return saved


def _progress(runs: Runs, tasks: TaskColumns, rules: ExecutionRules) -> Floats:
    """Seconds of work each run did: its length without the restart overhead.

    Runs are sorted by task and number, so the run after a suspended one is the next row.
    """
    small = tasks.gpus[runs.task] <= rules.small_task_gpus
    restart = np.where(small, rules.restart_overhead, rules.restart_overhead_large) * (runs.run > 1)
    resumed = np.flatnonzero(runs.suspended[:-1] & (runs.task[1:] == runs.task[:-1])) + 1
    restart[resumed] = rules.resume_overhead
    progress: Floats = np.maximum(0.0, runs.length - restart)
    return progress


def task_times(runs: Runs, tasks: int) -> tuple[Floats, Floats, Bools]:
    """Completion time, queuing time and whether it finished, per task."""
    done = np.zeros(tasks, np.bool_)
    jct = np.full(tasks, np.nan)
    last = runs.task[runs.finished]
    done[last] = np.isfinite(runs.submitted[last])
    jct[last] = runs.end[runs.finished] - runs.submitted[last]
    jqt: Floats = np.bincount(runs.task, runs.wait, tasks).astype(np.float64)
    return jct, jqt, done


def _times(jct: Floats, jqt: Floats, duration: Floats, which: Bools) -> dict[str, Any]:
    """How long the tasks took that finished; 0 everywhere if none did."""
    if not which.any():
        zeros = ("jct_mean", "jct_p99", "jqt_mean", "jqt_p99", "jqt_p50", "jqt_max", "slowdown_mean")
        return {"tasks": 0, **dict.fromkeys(zeros, 0.0)}
    jqt, jct, duration = jqt[which], jct[which], duration[which]
    real = duration > 0
    p50, p99 = np.percentile(jqt, (50, 99))
    return {
        "tasks": len(jct),
        "jct_mean": float(jct.mean()),
        "jct_p99": float(np.percentile(jct, 99)),
        "jqt_mean": float(jqt.mean()),
        "jqt_p99": float(p99),
        "jqt_p50": float(p50),
        "jqt_max": float(jqt.max()),
        "slowdown_mean": float((jct[real] / duration[real]).mean()) if real.any() else 0.0,
    }


def _interruptions(runs: Runs, thrown_away: Floats, done: Bools, counted: Bools) -> dict[str, Any]:
    """What ended the runs of these tasks other than finishing and evictions."""
    cancelled = counted & np.isfinite(runs.withdrawn)
    lost = runs.lost & counted[runs.task]
    return {
        "suspensions": int((runs.suspended & (done | cancelled)[runs.task]).sum()),
        "lost": int(lost.sum()),
        "lost_gpu_hours": float(thrown_away[lost].sum()) / HOUR,
        "cancelled": int(cancelled.sum()),
    }


class GuaranteeOutcomes(NamedTuple):
    """Per run: what became of the hours that were promised to it."""

    periods: Floats
    """Completed: one for every H hours; a run that finishes inside a period completes that one too."""
    broken: Bools
    """Stopped before its first H hours."""
    judged: Bools
    """Kept or broken; a run that was lost or cancelled in its first hours says nothing."""


def guarantee_outcomes(runs: Runs, tasks: TaskColumns) -> GuaranteeOutcomes:
    """Whether each run got the hours that its task was promised; of HP runs it means nothing."""
    length, stopped = runs.length, runs.evicted | runs.suspended
    promised = np.maximum(tasks.guarantee[runs.task], EPS)
    periods = np.where(
        runs.finished, np.maximum(1.0, np.ceil((length - EPS) / promised)), np.floor((length + EPS) / promised)
    )
    short = length < promised - EPS
    return GuaranteeOutcomes(periods, stopped & short, runs.finished | stopped | ~short)


def _eviction_metrics(runs: Runs, tasks: TaskColumns, which: Bools, wasted_hours: float) -> dict[str, Any]:
    periods, broken, judged = (outcome[which] for outcome in guarantee_outcomes(runs, tasks))
    count, evictions, completed = int(which.sum()), int(runs.evicted[which].sum()), int(periods.sum())
    return {
        "runs": count,
        "evictions": evictions,
        "eviction_rate": evictions / count if count else 0.0,
        "wasted_gpu_hours": wasted_hours,
        "guarantee_periods": completed,
        "evictions_per_guarantee_period": evictions / (evictions + completed) if evictions + completed else 0.0,
        "guarantee_hit_rate": 1.0 - int(broken.sum()) / int(judged.sum()) if judged.any() else 0.0,
    }


class PoolShare(NamedTuple):
    """A share of the GPUs over time."""

    by_model: dict[str, float]
    total: float


def _pool_use(
    runs: Runs, tasks: TaskColumns, rules: ExecutionRules, workload: Workload, span: tuple[float, float]
) -> tuple[PoolShare, PoolShare, PoolShare]:
    """What share of the GPUs is allocated inside the span, and how much of that is useful and how much wasted.

    A run restarts, then does the work that it keeps, then what it loses: each part counts by its time inside the span.
    """
    capacity, seconds = workload.capacity(), span[1] - span[0]

    def inside(start: Floats, end: Floats) -> Floats:
        length: Floats = np.maximum(0.0, np.minimum(end, span[1]) - np.maximum(start, span[0]))
        return length

    def share(length: Floats) -> PoolShare:
        gpu_seconds = np.bincount(tasks.model[runs.task], tasks.gpus[runs.task] * length, len(tasks.models))
        held = dict(zip(tasks.models, gpu_seconds.tolist(), strict=True))
        if seconds <= 0 or not any(capacity.values()):
            return PoolShare(dict.fromkeys(capacity, 0.0), 0.0)
        by_model = {m: held[m] / (n * seconds) if n else 0.0 for m, n in capacity.items()}
        return PoolShare(by_model, sum(held[m] for m in capacity) / (sum(capacity.values()) * seconds))

    end = runs.start + runs.length
    allocated = inside(runs.start, end)
    progress = _progress(runs, tasks, rules)
    work = end - progress
    decided = runs.ended & ~runs.cancelled
    useful = inside(work, work + _saved(runs, tasks, rules, progress)) * decided
    return share(allocated), share(useful), share((allocated - useful) * decided)


def _quota_use(quota: pa.Table, span: tuple[float, float]) -> float | None:
    """Time average of spot_in_use / quota, at most 1, over the pools, for the shortest guarantee of each."""
    time, limit, used = (numbers(quota[name]) for name in ("time", "quota", "spot_in_use"))
    total = weight = 0.0
    for rows in quota_by_pool(quota).values():
        until = np.append(time[rows][1:], span[1])
        held = np.minimum(until, span[1]) - np.maximum(time[rows], span[0])
        live = (held > 0) & (limit[rows] > 0) & np.isfinite(limit[rows])
        total += float((held[live] * np.minimum(used[rows][live] / limit[rows][live], 1.0)).sum())
        weight += float(held[live].sum())
    return total / weight if weight else None
