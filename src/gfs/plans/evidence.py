"""What a run says of one pool, block by block: sums that can be added up again in any choice of blocks.

Blocks are stretches of the trace (weeks, or days of a short one): a task belongs to the block in which it was
submitted. So one simulation says what its first half came to, what the rest came to, and how much blocks differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import ceil, floor
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gfs.domain.execution import ExecutionRules
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload
from gfs.telemetry.metrics import guarantee_outcomes, task_times, useful_and_wasted
from gfs.telemetry.runs import Bools, Floats, TaskColumns, runs_table

WEEK: Final = 7 * DAY
LEAST_BLOCKS: Final = 4
"""Fewer say nothing about how much they differ."""
DIGITS: Final = 3
"""Of a wait: so that equal ones can be counted."""

Waits = Mapping[str, int]
"""How many tasks waited so long: seconds to three digits, as text (JSON has no other keys) -> tasks."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Counts and sums of the tasks of one or more blocks."""

    runs: int = 0
    """Of spot tasks, like the next five."""
    evictions: int = 0
    guarantees: int = 0
    """Runs that had their guaranteed hours or were evicted before."""
    guarantees_broken: int = 0
    """Of these, the ones that were evicted before."""
    wasted_gpu_hours: float = 0.0
    spot_waits: Waits = field(default_factory=dict)
    spot_wait_sum: float = 0.0
    hp_waits: Waits = field(default_factory=dict)
    hp_wait_sum: float = 0.0

    @property
    def spot_tasks(self) -> int:
        """That finished."""
        return sum(self.spot_waits.values())

    @property
    def evicted(self) -> float:
        """Evictions / runs."""
        return self.evictions / self.runs if self.runs else 0.0

    @property
    def broken(self) -> float:
        """What p promises: runs that were evicted before their guaranteed hours were over / all that are judged."""
        return self.guarantees_broken / self.guarantees if self.guarantees else 0.0

    @property
    def spot_wait(self) -> float:
        """Mean seconds that spot tasks waited in all."""
        return self.wait("spot", "mean")

    def wait(self, kind: str, which: str) -> float:
        """Of "hp" or "spot": the mean wait, or a percentile ("p99"): the least wait that so many do not exceed."""
        waits, total = (self.spot_waits, self.spot_wait_sum) if kind == "spot" else (self.hp_waits, self.hp_wait_sum)
        count = sum(waits.values())
        if not count:
            return 0.0
        if which == "mean":
            return total / count
        left = ceil(round(float(which[1:]) / 100 * count, 9))
        for wait in sorted(waits, key=float):
            left -= waits[wait]
            if left <= 0:
                return float(wait)
        return 0.0  # p0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.runs + other.runs,
            self.evictions + other.evictions,
            self.guarantees + other.guarantees,
            self.guarantees_broken + other.guarantees_broken,
            self.wasted_gpu_hours + other.wasted_gpu_hours,
            _merged(self.spot_waits, other.spot_waits),
            self.spot_wait_sum + other.spot_wait_sum,
            _merged(self.hp_waits, other.hp_waits),
            self.hp_wait_sum + other.hp_wait_sum,
        )


def total(blocks: Iterable[Sums]) -> Sums:
    """All of them together."""
    return reduce(Sums.__add__, blocks, Sums())


def _merged(one: Waits, other: Waits) -> Waits:
    return one if not other else other if not one else dict(Counter(one) + Counter(other))


def block_edges(first: float, last: float) -> list[float]:
    """Where blocks begin: by weeks where there are four whole ones, by days where there are four, else one block.

    What is left over at the end belongs to the last whole one.
    """
    span = last - first
    length = WEEK if span >= LEAST_BLOCKS * WEEK - HOUR else DAY
    count = floor(span / length + HOUR / length)  # the last task of a day comes a bit before its end
    return [first + length * i for i in range(count)] if count >= LEAST_BLOCKS else [first]


def block_name(edges: Sequence[float]) -> str:
    """What a block is: 'week', 'day', or nothing where there is only one."""
    return "" if len(edges) < LEAST_BLOCKS else "week" if edges[1] - edges[0] >= WEEK else "day"


def sums_by_pool(
    events: pa.Table, workload: Workload, rules: ExecutionRules, edges: Sequence[float]
) -> dict[str, list[Sums]]:
    """For every pool its blocks, from the event log of a run."""
    tasks, runs = TaskColumns.of(workload), runs_table(events, workload)
    block = np.clip(np.searchsorted(np.asarray(edges), tasks.submit, side="right") - 1, 0, len(edges) - 1)
    wasted = useful_and_wasted(runs, tasks, rules)[1] / HOUR
    outcomes = guarantee_outcomes(runs, tasks)
    _, waited, done = task_times(runs, len(workload.tasks))

    def sums(of_tasks: Bools) -> Sums:
        of_runs = of_tasks[runs.task] & runs.ended
        spot_runs = of_runs & tasks.spot[runs.task]
        spot, hp = (waited[done & of_tasks & kind] for kind in (tasks.spot, ~tasks.spot))
        return Sums(
            runs=int(spot_runs.sum()),
            evictions=int((runs.evicted & spot_runs).sum()),
            guarantees=int((outcomes.judged & spot_runs).sum()),
            guarantees_broken=int((outcomes.broken & spot_runs).sum()),
            wasted_gpu_hours=float(wasted[of_runs].sum()),
            spot_waits=_counted(spot),
            spot_wait_sum=float(spot.sum()),
            hp_waits=_counted(hp),
            hp_wait_sum=float(hp.sum()),
        )

    return {
        model: [sums((tasks.model == code) & (block == number)) for number in range(len(edges))]
        for code, model in enumerate(tasks.models)
        if model in workload.capacity()
    }


def _counted(waits: Floats) -> Waits:
    """To three digits; whole seconds below a thousand stay as they are."""
    if not len(waits):
        return {}
    power = np.floor(np.log10(np.maximum(waits, 1e-3))) - (DIGITS - 1)
    rounded = np.round(waits / 10.0**power) * 10.0**power
    values, counts = np.unique(np.round(rounded, 6), return_counts=True)
    return {f"{value:.6g}": int(count) for value, count in zip(values, counts, strict=True)}


def to_json(pools: Mapping[str, Sequence[Sums]]) -> dict[str, Any]:
    """As a job's result has it."""
    return {model: [{name: getattr(one, name) for name in Sums.__slots__} for one in b] for model, b in pools.items()}


def from_json(pools: Mapping[str, Any]) -> dict[str, list[Sums]]:
    """Back from a job's result."""
    return {model: [Sums(**one) for one in blocks] for model, blocks in pools.items()}
