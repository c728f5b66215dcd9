"""What a trace asks for, before anything is scheduled: the views of the paper's section 2 on any trace.

Requests, running times, demand of the organizations and load against capacity. Demand and load are what
would run if every task started at once when it is submitted, averaged over each hour by exact integration; one
that its owner cancels runs until then.
Time 0 of a trace is taken as midnight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

import numpy as np

from gfs.domain.task import Priority
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import NodeSizes, Workload, node_sizes
from gfs.telemetry.runs import SIZES, Bins, Bools, Floats, Ints, TaskColumns, size_classes, time_average

OTHERS: Final = "others"
MOST_BINS: Final = 50_000
"""Hours beyond which a bin grows longer than an hour, so that an odd timestamp cannot fill the memory."""


@dataclass(frozen=True, slots=True)
class Cdf:
    """A cumulative distribution: the share of all at or below each value."""

    values: tuple[float, ...]
    shares: tuple[float, ...]

    def at(self, value: float) -> float:
        """Share at or below a value."""
        position = int(np.searchsorted(np.asarray(self.values), value + 1e-9, side="right"))
        return self.shares[position - 1] if position else 0.0


@dataclass(frozen=True, slots=True)
class Durations:
    """Running times of some tasks, in seconds; all 0 without tasks."""

    tasks: int
    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class PoolSummary:
    """One GPU model: what it has and what is asked of it."""

    gpu_model: str
    nodes: int
    cards: int
    node_sizes: tuple[tuple[int, int], ...]
    """(GPUs per node, number of such nodes), smallest first."""
    hp_tasks: int
    spot_tasks: int
    hp_load: float
    """Mean share of the cards that HP tasks ask for from the first to the last submission."""
    spot_load: float


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """One class of tasks: what it requests and how long it runs."""

    priority: Priority
    tasks: int
    pods: int
    gpu_hours: float
    gang_share: float
    """Share of tasks with more than one pod."""
    pod_requests: Cdf
    """GPUs per pod, over pods."""
    task_requests: Cdf
    """GPUs of the whole task, over tasks."""
    running: Durations
    running_by_size: tuple[tuple[str, Durations], ...]
    """By GPUs of the whole task; groups without tasks are left out."""
    running_cdf: Cdf
    """Running time at 200 quantiles at most."""
    arrivals_by_hour: tuple[int, ...]
    """Tasks submitted in each of the 24 hours of the day."""


@dataclass(frozen=True, slots=True, eq=False)
class OrganizationDemand:
    """GPUs of one organization per bin, both classes."""

    organization: str
    gpus: Floats
    gpu_hours: float
    """GPU-hours of all its tasks, also those outside the bins."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolLoad:
    """GPUs asked of one pool per bin."""

    gpu_model: str
    cards: int
    hp: Floats
    spot: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Inspection:
    """Everything `gfs trace inspect` shows."""

    name: str
    first_submission: float
    last_submission: float
    pools: tuple[PoolSummary, ...]
    classes: tuple[ClassSummary, ...]
    """HP, then spot."""
    organizations: int
    bin_start: Floats
    """Seconds at which each bin of `demand` and `load` begins."""
    bin_seconds: float
    """An hour, unless the trace spans years."""
    demand: tuple[OrganizationDemand, ...]
    """The largest organizations, largest first, and the rest together as 'others'."""
    load: tuple[PoolLoad, ...]

    def __repr__(self) -> str:
        tasks = sum(each.tasks for each in self.classes)
        return f"<Inspection of {self.name[:80]!r}: {tasks:,} tasks of {self.organizations:,} organizations>"


def inspect(workload: Workload, top_organizations: int = 8) -> Inspection:
    """Look at a workload as the paper's section 2 looks at its trace.

    Demand and load cover the time from the first submission to the hour of the last (in a trace of less than
    a day: to a day after it), or until nothing would run any more if that is earlier.
    """
    tasks = TaskColumns.of(workload)
    some = len(tasks.submit) > 0
    first = float(tasks.submit.min()) if some else 0.0
    last = float(tasks.submit.max()) if some else 0.0
    origin = floor(first / HOUR) * HOUR
    # After the last submission demand only fades out; that is worth seeing in a short trace alone.
    fade = DAY if last - first < DAY else HOUR - last % HOUR
    until = min(float((tasks.submit + tasks.wanted).max()), last + fade) if some else 0.0
    hours = max(1, ceil((until - origin) / HOUR)) if some else 0
    width = HOUR * max(1, ceil(hours / MOST_BINS))
    bins = Bins(origin, width, ceil(hours * HOUR / width))
    asked = max(last - first, HOUR)
    return Inspection(
        name=workload.name,
        first_submission=first,
        last_submission=last,
        pools=_pools(workload, tasks, first, asked),
        classes=tuple(_class_summary(workload, tasks, priority) for priority in Priority),
        organizations=len(tasks.organizations),
        bin_start=origin + width * np.arange(bins.bins, dtype=np.float64),
        bin_seconds=width,
        demand=_demand(tasks, bins, top_organizations),
        load=_load(workload, tasks, bins),
    )


def _pools(workload: Workload, tasks: TaskColumns, first: float, seconds: float) -> tuple[PoolSummary, ...]:
    models = len(tasks.models)
    # What runs on after the last submission is the load of a time the trace does not show.
    work = tasks.gpus * np.minimum(tasks.wanted, first + seconds - tasks.submit)

    def per_model(which: Bools, weights: Floats | None = None) -> list[float]:
        chosen = None if weights is None else weights[which]
        return [float(x) for x in np.bincount(tasks.model[which], chosen, models)]

    hp, spot = ~tasks.spot, tasks.spot
    columns = (per_model(hp), per_model(spot), per_model(hp, work), per_model(spot, work))
    sizes, pools = node_sizes(workload.nodes), []
    for i, model in enumerate(tasks.models):
        mine = sizes.get(model, NodeSizes())
        cards = sum(size * count for size, count in mine.items())
        hp_tasks, spot_tasks, hp_work, spot_work = (column[i] for column in columns)
        pools.append(
            PoolSummary(
                gpu_model=model,
                nodes=mine.total(),
                cards=cards,
                node_sizes=tuple(sorted(mine.items())),
                hp_tasks=int(hp_tasks),
                spot_tasks=int(spot_tasks),
                hp_load=hp_work / (cards * seconds) if cards else 0.0,
                spot_load=spot_work / (cards * seconds) if cards else 0.0,
            )
        )
    return tuple(pools)


def _class_summary(workload: Workload, tasks: TaskColumns, priority: Priority) -> ClassSummary:
    roles = [role for task in workload.tasks if task.priority is priority for role in task.roles]
    which = tasks.spot if priority is Priority.SPOT else ~tasks.spot
    pods, gpus, duration = tasks.pods[which], tasks.gpus[which], tasks.wanted[which]
    hour = (np.floor(tasks.submit[which] / HOUR) % 24).astype(np.int64)
    group = size_classes(gpus)
    return ClassSummary(
        priority=priority,
        tasks=len(pods),
        pods=int(pods.sum()),
        gpu_hours=float((gpus * duration).sum()) / HOUR,
        gang_share=float((pods > 1).mean()) if len(pods) else 0.0,
        pod_requests=_cdf(
            np.array([role.gpus_per_pod for role in roles], dtype=np.float64),
            np.array([role.pods for role in roles], dtype=np.float64),
        ),
        task_requests=_cdf(gpus, np.ones(len(gpus))),
        running=_durations(duration),
        running_by_size=tuple(
            (label, _durations(duration[group == i])) for i, (label, _) in enumerate(SIZES) if (group == i).any()
        ),
        running_cdf=_quantiles(duration),
        arrivals_by_hour=tuple(int(n) for n in np.bincount(hour, minlength=24)),
    )


def _cdf(values: Floats, weights: Floats) -> Cdf:
    if not len(values):
        return Cdf((), ())
    unique, inverse = np.unique(np.round(values, 9), return_inverse=True)
    cumulative = np.cumsum(np.bincount(inverse, weights))
    return Cdf(tuple(unique.tolist()), tuple((cumulative / cumulative[-1]).tolist()))


def _quantiles(values: Floats, points: int = 200) -> Cdf:
    if not len(values):
        return Cdf((), ())
    shares = np.linspace(0.0, 1.0, min(points, max(2, len(values))))
    return Cdf(tuple(np.quantile(values, shares).tolist()), tuple(shares.tolist()))


def _durations(values: Floats) -> Durations:
    if not len(values):
        return Durations(0, 0.0, 0.0, 0.0, 0.0)
    p50, p90, p99 = np.percentile(values, (50, 90, 99))
    return Durations(len(values), float(values.mean()), float(p50), float(p90), float(p99))


def _demand(tasks: TaskColumns, bins: Bins, top: int) -> tuple[OrganizationDemand, ...]:
    names: Sequence[str] = tasks.organizations
    hours = np.bincount(tasks.organization, tasks.gpus * tasks.wanted, len(names)) / HOUR
    order = np.argsort(-hours, kind="stable")  # equal ones in order of appearance
    kept = order if len(names) <= top + 1 else order[:top]  # a single rest keeps its own name
    rank = np.full(len(names), len(kept), np.int64)
    rank[kept] = np.arange(len(kept))
    groups = len(kept) + (len(kept) < len(names))
    if not groups:
        return ()
    gpus = _asked(tasks, rank[tasks.organization], groups, bins)
    labels = [names[i] for i in kept] + [OTHERS] * (groups - len(kept))
    totals = np.bincount(rank, hours, groups)
    return tuple(
        OrganizationDemand(label, series, float(total))
        for label, series, total in zip(labels, gpus, totals, strict=True)
    )


def _asked(tasks: TaskColumns, group: Ints, groups: int, bins: Bins) -> Floats:
    """GPUs asked for in each bin by each group of tasks, if every task started when it was submitted."""
    return time_average(tasks.submit, tasks.submit + tasks.wanted, tasks.gpus, bins, group, groups)


def _load(workload: Workload, tasks: TaskColumns, bins: Bins) -> tuple[PoolLoad, ...]:
    models = len(tasks.models)
    if not models:
        return ()
    gpus = _asked(tasks, tasks.model * 2 + tasks.spot, models * 2, bins)
    capacity = workload.capacity()
    return tuple(
        PoolLoad(model, capacity.get(model, 0), gpus[2 * i], gpus[2 * i + 1]) for i, model in enumerate(tasks.models)
    )
