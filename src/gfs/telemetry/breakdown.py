"""Whose jobs: the metrics by organization, GPU model and size of the task, and who evicts whom.

Everything is worked out from the event log (docs/concepts/metrics.md#whose-jobs), by the definitions of `metrics.py`:
what is counted there is counted here, so the figures of all groups together are those of the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from gfs.core.reasons import preemptor_in
from gfs.domain.execution import ExecutionRules
from gfs.domain.units import HOUR
from gfs.domain.workload import Workload
from gfs.telemetry.metrics import (
    Window,
    counted_tasks,
    guarantee_outcomes,
    task_times,
    useful_and_wasted,
)
from gfs.telemetry.runs import (
    SIZES,
    Bools,
    Floats,
    Ints,
    Runs,
    TaskColumns,
    categories,
    numbers,
    runs_table,
    size_classes,
)

Kind = Literal["organization", "model", "size"]
KINDS: Final[tuple[Kind, ...]] = ("organization", "model", "size")
"""By what figures are given: organization, GPU model, GPUs of the whole task."""

ALL: Final = "all"
FEW_TASKS: Final = 10
"""An organization with fewer finished spot tasks is not called the worst treated: one unlucky task says little."""


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The tasks of one organization, GPU model or size. The names are those of `Metrics.figures()`."""

    name: str
    hp_tasks: int
    """Counted tasks that finished."""
    hp_jqt_mean: float
    hp_jqt_p99: float
    hp_progress_rate: float | None
    """Useful seconds of its finished tasks / seconds from their submission to their end; 1: nothing ever waited."""
    spot_tasks: int
    spot_jqt_mean: float
    spot_jqt_p99: float
    spot_progress_rate: float | None
    spot_runs: int
    spot_evictions: int
    spot_eviction_rate: float | None
    spot_guarantee_periods: int
    spot_evictions_per_guarantee_period: float | None
    spot_guarantee_hit_rate: float | None
    spot_wasted_gpu_hours: float
    """Of its tasks of both classes, as in the metrics of the whole."""
    useful_gpu_hours: float
    """Of its tasks of both classes."""
    evictions_caused: int
    """Counted spot runs that were evicted for an HP task of this group."""
    lost: int
    cancelled: int


class EvictionsBetween(NamedTuple):
    """How often HP tasks of one organization evicted spot runs of another."""

    evictor: str
    """'' where the log does not say for whom."""
    evicted: str
    evictions: int
    wasted_gpu_hours: float
    """Of these runs: what was lost, and their restarts."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The figures of a run by group."""

    organization: tuple[GroupFigures, ...]
    """Those with the most useful work first."""
    model: tuple[GroupFigures, ...]
    size: tuple[GroupFigures, ...]
    evictions: tuple[EvictionsBetween, ...]
    """Who evicts whom, the most frequent first."""
    fairness_hp: float | None
    """Jain's index of the progress rates of the organizations' HP tasks."""
    fairness_spot: float | None
    whole: GroupFigures
    """All of them together."""
    worst_treated: str | None
    """The organization whose spot tasks have the lowest progress rate; None with fewer than two to compare."""

    def by(self, kind: Kind) -> tuple[GroupFigures, ...]:
        """The groups of this kind."""
        groups: tuple[GroupFigures, ...] = getattr(self, kind)
        return groups

    def group(self, kind: Kind, name: str) -> GroupFigures:
        """One of them, which must be there."""
        return next(group for group in self.by(kind) if group.name == name)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Breakdown:
        """What `to_dict` has written, of all kinds."""
        return cls(
            **{kind: tuple(GroupFigures(**group) for group in told[kind]) for kind in KINDS},
            evictions=tuple(EvictionsBetween(**pair) for pair in told["evictions"]),
            fairness_hp=told["fairness"]["hp"],
            fairness_spot=told["fairness"]["spot"],
            whole=GroupFigures(**told["all"]),
            worst_treated=told["worst_treated"],
        )

    def to_dict(self, kinds: Sequence[Kind] = KINDS) -> dict[str, Any]:
        """The object that stands under "by" in the JSON summary."""
        told: dict[str, Any] = {kind: [asdict(group) for group in self.by(kind)] for kind in kinds}
        told["all"] = asdict(self.whole)
        if "organization" in kinds:
            told["evictions"] = [pair._asdict() for pair in self.evictions]
            told["fairness"] = {"hp": self.fairness_hp, "spot": self.fairness_spot}
            told["worst_treated"] = self.worst_treated
        return told


def break_down(
    events: pa.Table,
    workload: Workload,
    *,
    window: Window | None = None,
    rules: ExecutionRules | None = None,
    leases: bool = False,
) -> Breakdown:
    """Work out the figures of every group; arguments as of `compute_metrics`."""
    tasks, runs = TaskColumns.of(workload), runs_table(events, workload)
    of = _Counts(
        runs, tasks, counted_tasks(runs, window), rules or ExecutionRules(), _preemptors(events, workload, runs)
    )
    sizes = tuple(label for label, _ in SIZES)
    organizations = of.figures(tasks.organization, tasks.organizations, leases)
    organizations.sort(key=lambda group: (-group.useful_gpu_hours, group.name))
    return Breakdown(
        organization=tuple(organizations),
        model=tuple(of.figures(tasks.model, tasks.models, leases)),
        size=tuple(of.figures(size_classes(tasks.gpus), sizes, leases)),
        evictions=of.pairs(tasks.organization, tasks.organizations),
        fairness_hp=jain_index([group.hp_progress_rate for group in organizations]),
        fairness_spot=jain_index([group.spot_progress_rate for group in organizations]),
        whole=of.figures(np.zeros_like(tasks.model), [ALL], leases, every=True)[0],
        worst_treated=_worst_treated(organizations),
    )


def jain_index(values: Sequence[float | None]) -> float | None:
    """Jain's fairness index (sum x)^2 / (n * sum x^2): 1 if all are equal, 1/n if one has everything.

    What is None is left out; None if nothing is left, or all are 0.
    """
    known = np.array([value for value in values if value is not None])
    squares = float((known**2).sum())
    return float(known.sum()) ** 2 / (len(known) * squares) if squares > 0 else None


def _worst_treated(groups: Sequence[GroupFigures]) -> str | None:
    rates = [(g.spot_progress_rate, g.name) for g in groups if g.spot_progress_rate is not None]
    enough = {g.name for g in groups if g.spot_tasks >= FEW_TASKS}
    rates = [(rate, name) for rate, name in rates if name in enough or not enough]
    return min(rates)[1] if len(rates) > 1 else None


class _Counts:
    """What every run and task adds to its group."""

    def __init__(self, runs: Runs, tasks: TaskColumns, counted: Bools, rules: ExecutionRules, preemptor: Ints) -> None:
        self.runs, self.tasks, self.counted, self.preemptor = runs, tasks, counted, preemptor
        self.over = runs.ended & counted[runs.task]
        self.spot_over = self.over & tasks.spot[runs.task]
        self.evicted = self.spot_over & runs.evicted
        self.useful, self.wasted = useful_and_wasted(runs, tasks, rules)
        self.jct, self.jqt, done = task_times(runs, len(counted))
        self.done = done & counted
        self.outcomes = guarantee_outcomes(runs, tasks)
        gpus = np.maximum(tasks.gpus[runs.task], 1e-12)
        self.needed: Floats = np.bincount(runs.task, self.useful / gpus, len(counted)).astype(np.float64)

    def figures(self, code: Ints, names: Sequence[str], leases: bool, every: bool = False) -> list[GroupFigures]:
        """One entry for each group that has counted tasks, or that evicted some; or for every one."""
        n, runs, spot = len(names), self.runs, self.tasks.spot
        of_run = code[runs.task]

        def count(which: Bools) -> Any:
            return np.bincount(of_run[which], minlength=n)

        def hours(value: Floats) -> Any:
            return (np.bincount(of_run[self.over], value[self.over], n) / HOUR).tolist()

        outcomes, evicted, told = self.outcomes, self.evicted, self.evicted & (self.preemptor >= 0)
        counts = {
            "spot_runs": count(self.spot_over),
            "spot_evictions": count(evicted),
            "broken": count(self.spot_over & outcomes.broken),
            "judged": count(self.spot_over & outcomes.judged),
            "lost": count(runs.lost & self.counted[runs.task]),
            "spot_guarantee_periods": np.bincount(of_run[self.spot_over], outcomes.periods[self.spot_over], n),
            "evictions_caused": np.bincount(code[self.preemptor[told]], minlength=n),
            "cancelled": np.bincount(code[self.counted & np.isfinite(runs.withdrawn)], minlength=n),
        }
        useful, wasted = hours(self.useful), hours(self.wasted)
        waits = {"hp": self._waits(code, n, ~spot), "spot": self._waits(code, n, spot)}
        here = np.bincount(code[self.counted], minlength=n)
        found = []
        for i in np.flatnonzero(here + counts["evictions_caused"] + every).tolist():
            c = {name: int(values[i]) for name, values in counts.items()}
            broken, judged, evictions = c.pop("broken"), c.pop("judged"), c["spot_evictions"]
            periods = evictions + c["spot_guarantee_periods"]
            found.append(
                GroupFigures(
                    name=names[i],
                    **{f"{kind}_{name}": values[i] for kind, of in waits.items() for name, values in of.items()},
                    **c,
                    spot_eviction_rate=_share(evictions, c["spot_runs"], leases),
                    spot_evictions_per_guarantee_period=_share(evictions, periods, leases),
                    spot_guarantee_hit_rate=_share(judged - broken, judged, leases),
                    spot_wasted_gpu_hours=wasted[i],
                    useful_gpu_hours=useful[i],
                )
            )
        return found

    def _waits(self, code: Ints, groups: int, of_class: Bools) -> dict[str, list[Any]]:
        """How many tasks of a class finished, how long they waited, and what share of their time they needed."""
        which = self.done & of_class
        group, wait = code[which], self.jqt[which]
        tasks = np.bincount(group, minlength=groups)
        mean = np.bincount(group, wait, groups) / np.maximum(tasks, 1)
        spent = np.bincount(group, self.jct[which], groups)
        needed = np.bincount(group, self.needed[which], groups)
        rate = [n / s if s > 0 else None for n, s in zip(needed.tolist(), spent.tolist(), strict=True)]
        p99 = grouped_percentile(wait, group, groups, 0.99)
        return {
            "tasks": tasks.tolist(),
            "jqt_mean": mean.tolist(),
            "jqt_p99": p99.tolist(),
            "progress_rate": rate,
        }

    def pairs(self, code: Ints, names: Sequence[str]) -> tuple[EvictionsBetween, ...]:
        """Evictions by evictor and evicted."""
        runs = np.flatnonzero(self.evicted)
        n = len(names) + 1
        by = np.where(self.preemptor[runs] >= 0, code[self.preemptor[runs]], n - 1) if len(runs) else runs
        key, place = np.unique(by * n + code[self.runs.task[runs]], return_inverse=True)
        times, lost = np.bincount(place, minlength=len(key)), np.bincount(place, self.wasted[runs], len(key)) / HOUR
        known = [*names, ""]
        rows = zip(key.tolist(), times.tolist(), lost.tolist(), strict=True)
        found = [EvictionsBetween(known[pair // n], known[pair % n], count, hours) for pair, count, hours in rows]
        return tuple(sorted(found, key=lambda pair: (-pair.evictions, pair.evictor, pair.evicted)))


def _share(part: int, whole: int, leases: bool) -> float | None:
    return None if leases or not whole else part / whole


def grouped_percentile(values: Floats, group: Ints, groups: int, q: float) -> Floats:
    """The quantile of the values of each group, interpolated linearly; 0 for a group without values."""
    ordered = values[np.lexsort((values, group))]
    sizes = np.bincount(group, minlength=groups)
    begin, at = np.cumsum(sizes) - sizes, np.maximum(sizes - 1, 0) * q
    low = np.floor(at).astype(np.int64)
    found: Floats = np.zeros(groups)
    some = sizes > 0
    below, above = (ordered[(begin + np.minimum(i, sizes - 1))[some]] for i in (low, low + 1))
    found[some] = below + (at - low)[some] * (above - below)
    return found


def _preemptors(events: pa.Table, workload: Workload, runs: Runs) -> Ints:
    """Per run: the task for which it was evicted, as the reason of its eviction says; -1: none, or not told."""
    found = np.full(len(runs.task), -1, np.int64)
    if "reason" not in events.column_names or not runs.evicted.any():
        return found
    index = {task.name: task.index for task in workload.tasks}
    event, words = categories(events["event"])
    rows = np.flatnonzero(event == (words.index("evict") if "evict" in words else -1))
    reason, texts = categories(events["reason"])
    reason = reason[rows]
    who = {code: preemptor_in(texts[code], index) for code in np.unique(reason).tolist()}
    names_code, names = categories(events["task"])
    task = np.array([index[name] for name in names], np.int64)[names_code[rows]]
    stride = int(runs.run.max(initial=0)) + 1
    run = numbers(events["run"])[rows].astype(np.int64)
    at = np.searchsorted(runs.task * stride + runs.run, task * stride + run)
    found[at] = [-1 if (by := who[code]) is None else by for code in reason.tolist()]
    return found
