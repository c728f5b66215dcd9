"""The story of one organization, from an event log: what it asked for and got, whom it evicted, who evicted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gfs.domain.errors import InputError
from gfs.domain.task import Priority, Task
from gfs.domain.text import suggestion
from gfs.domain.units import HOUR
from gfs.domain.workload import Workload
from gfs.telemetry.breakdown import Breakdown, EvictionsBetween, GroupFigures
from gfs.telemetry.metrics import task_times
from gfs.telemetry.runs import Bools, Runs, TaskColumns, categories, numbers, runs_table

RANKED: Final = {
    **dict.fromkeys(("hp_jqt_mean", "hp_jqt_p99", "spot_jqt_mean", "spot_jqt_p99"), False),
    "spot_eviction_rate": False,
    **dict.fromkeys(("spot_guarantee_hit_rate", "hp_progress_rate", "spot_progress_rate"), True),
}
"""Figures by which organizations are put in order, and whether more is better."""


class Asked(NamedTuple):
    """What the tasks of one class asked for, running or queued."""

    tasks: int
    """Submitted."""
    mean: float
    """GPUs, from its first submission to the end of the log."""
    peak: float
    peak_time: float | None
    held_gpu_hours: float


class Rank(NamedTuple):
    """Where an organization stands among those that have the figure."""

    place: int
    """1: the best."""
    of: int


class LongestWait(NamedTuple):
    """The task that waited longest in all."""

    task: str
    gpus: float
    seconds: float


@dataclass(frozen=True, slots=True)
class OrganizationStory:
    """What happened to one organization."""

    organization: str
    gpu_models: tuple[str, ...]
    organizations: int
    """How many there are, this one among them."""
    hp: Asked
    spot: Asked
    share_of_useful: float
    """Its part of all useful GPU-hours."""
    figures: GroupFigures
    all: GroupFigures
    ranks: Mapping[str, Rank]
    """By the name of the figure."""
    evicted_by: tuple[EvictionsBetween, ...]
    evicts: tuple[EvictionsBetween, ...]
    longest_wait: LongestWait | None
    worst_treated: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        told = asdict(self)
        for name in ("hp", "spot", "longest_wait"):
            value = getattr(self, name)
            told[name] = None if value is None else value._asdict()
        told["ranks"] = {name: rank._asdict() for name, rank in self.ranks.items()}
        for name in ("evicted_by", "evicts"):
            told[name] = [pair._asdict() for pair in getattr(self, name)]
        return told


def organization_story(events: pa.Table, workload: Workload, breakdown: Breakdown, name: str) -> OrganizationStory:
    """Tell what happened to one organization; raises InputError, with similar names, for one that is not there."""
    names = {group.name for group in breakdown.organization}
    if name not in names:
        known = sorted({task.organization for task in workload.tasks})
        if name not in known:
            raise InputError(f"there is no organization {name!r} in the log: {suggestion(name, known)}")
        raise InputError(f"organization {name!r} submitted nothing that is counted")
    tasks, runs = TaskColumns.of(workload), runs_table(events, workload)
    mine = tasks.organization == tasks.organizations.index(name)
    figures = breakdown.group("organization", name)
    useful = breakdown.whole.useful_gpu_hours
    return OrganizationStory(
        organization=name,
        gpu_models=tuple(tasks.models[code] for code in np.unique(tasks.model[mine]).tolist()),
        organizations=len(names),
        hp=_asked(runs, tasks, mine & ~tasks.spot),
        spot=_asked(runs, tasks, mine & tasks.spot),
        share_of_useful=figures.useful_gpu_hours / useful if useful else 0.0,
        figures=figures,
        all=breakdown.whole,
        ranks=_ranks(breakdown, figures),
        evicted_by=tuple(pair for pair in breakdown.evictions if pair.evicted == name),
        evicts=tuple(pair for pair in breakdown.evictions if pair.evictor == name),
        longest_wait=_longest_wait(runs, workload, mine),
        worst_treated=breakdown.worst_treated == name,
    )


def _asked(runs: Runs, tasks: TaskColumns, which: Bools) -> Asked:
    """Every task asks from its submission to its end, or that of the log."""
    which = which & np.isfinite(runs.submitted)
    ends = np.full(len(which), runs.last_event)
    ends[runs.task[runs.finished]] = runs.end[runs.finished]
    ends = np.where(np.isfinite(runs.withdrawn), runs.withdrawn, ends)
    begin, end, gpus = runs.submitted[which], ends[which], tasks.gpus[which]
    of_run = which[runs.task]
    held = float((tasks.gpus[runs.task] * runs.length)[of_run].sum()) / HOUR
    if not len(begin):
        return Asked(0, 0.0, 0.0, None, 0.0)
    moments, change = np.concatenate([begin, end]), np.concatenate([gpus, -gpus])
    order = np.lexsort((change, moments))  # of one instant, what ends goes first
    level = np.cumsum(change[order])
    highest = int(np.argmax(level))
    seconds = runs.last_event - float(begin.min())
    mean = float((gpus * (end - begin)).sum()) / seconds if seconds > 0 else 0.0
    return Asked(len(begin), mean, float(level[highest]), float(moments[order][highest]), held)


def _ranks(breakdown: Breakdown, figures: GroupFigures) -> dict[str, Rank]:
    found = {}
    for key, more in RANKED.items():
        kind = key.split("_")[0]
        values = [getattr(g, key) for g in breakdown.organization if getattr(g, f"{kind}_tasks")]
        values = [value for value in values if value is not None]
        mine = getattr(figures, key)
        if mine is not None and getattr(figures, f"{kind}_tasks"):
            better = sum(value > mine if more else value < mine for value in values)
            found[key] = Rank(better + 1, len(values))
    return found


def _longest_wait(runs: Runs, workload: Workload, mine: Bools) -> LongestWait | None:
    """Of the spot tasks, or of all where it has no spot task that waited."""
    _, waited, _ = task_times(runs, len(mine))
    spot = np.array([task.is_spot for task in workload.tasks], np.bool_)
    for which in (mine & spot, mine):
        if which.any() and waited[which].max() > 0:
            worst = int(np.flatnonzero(which)[np.argmax(waited[which])])
            return LongestWait(workload.tasks[worst].name, workload.tasks[worst].gpus, float(waited[worst]))
    return None


def tasks_of_log(
    events: pa.Table, promises: Mapping[str, tuple[float, float]], guarantee: float, checkpoint: float
) -> Workload:
    """The tasks that a log speaks of, without their nodes and durations.

    `promises`: guarantee and checkpoint interval by task, in seconds; `guarantee` and `checkpoint` for all others.
    """
    code, names = categories(events["task"])
    event, words = categories(events["event"])
    time, gpus, run = (numbers(events[name]) for name in ("time", "gpus", "run"))
    whole = np.zeros(len(names))
    for word in ("start", "submit"):  # of a task without a submission: the pods of its first run together
        rows = np.flatnonzero(event == (words.index(word) if word in words else -1))
        first = np.full(len(names), np.inf)
        np.minimum.at(first, code[rows], run[rows])
        rows = rows[run[rows] == first[code[rows]]]
        sums = np.bincount(code[rows], gpus[rows], len(names))
        whole = np.where(sums > 0, sums, whole)
    used, first_row = np.unique(code, return_index=True)
    told = {name: events[name].take(pa.array(first_row)).to_pylist() for name in ("kind", "organization", "gpu_model")}
    tasks = []
    for i, (known, row) in enumerate(zip(used.tolist(), first_row.tolist(), strict=True)):
        name = names[known]
        promised, interval = promises.get(name, (guarantee, checkpoint))
        tasks.append(
            Task(
                index=i,
                name=name,
                organization=told["organization"][i],
                gpu_model=told["gpu_model"][i],
                priority=Priority.SPOT if told["kind"][i] == Priority.SPOT.label else Priority.HP,
                pods=1,
                gpus_per_pod=float(whole[known]),
                submit_time=float(time[row]),
                guarantee_hours=promised / HOUR,
                checkpoint_interval=interval,
            )
        )
    return Workload(tuple(tasks), (), durations=(0.0,) * len(tasks))
