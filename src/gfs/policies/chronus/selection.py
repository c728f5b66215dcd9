"""Which tasks hold the next leases: a mixed-integer program over groups of like tasks (Chronus).

    maximise    sum_g value_g * n_g                       n_g tasks of group g get a lease, 0 <= n_g <= tasks_g
    subject to  sum_g pods_g * floor(cards_g / c) * n_g <= pods of c whole cards that fit   for every size c
                sum_g gpus_g * n_g <= cards and free parts of cards
                sum_(g with guarantee >= H) gpus_g * n_g <= spot quota for H                for every H

The rows per size are exact for whole cards where every size divides the next larger one (1, 2, 4, 8);
otherwise they promise no more than placing can keep or break, and a task that then finds no room waits. HiGHS
solves it to the optimum unless its time runs out; then its best set so far is taken, or, if it has none, the
tasks of most value per GPU that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from gfs.domain.task import NodeFilter, Priority, Task
from gfs.domain.units import MICRO
from gfs.policies.chronus.program import Floats, maximise

EXACT = 1e-12
"""Two values this close are equal."""
TIE, GOLDEN_RATIO = 1e-5, 0.6180339887498949
"""By how much, at most, and how ties between sets are broken."""
GPU_ROW = 0
"""The row of the program that counts GPUs."""


class Like(NamedTuple):
    """What the programs see of a task."""

    priority: Priority
    gpus_per_pod: float
    pods: int
    guarantee_hours: float
    node_filter: NodeFilter | None = None
    cpus_per_pod: float = 0.0
    """0 where only cards count; the same for memory."""
    memory_per_pod: float = 0.0


def like(task: Task, *, resources: bool) -> Like:
    """Tasks with the same answer are alike: where one finds no room, neither does another."""
    cpus, memory = (task.cpus_per_pod, task.memory_per_pod) if resources else (0.0, 0.0)
    return Like(task.priority, task.gpus_per_pod, task.pods, task.guarantee_hours, task.node_filter, cpus, memory)


class Group(NamedTuple):
    """Tasks that the program cannot tell apart."""

    task: Task
    """One of them: they have the same pods, GPUs per pod and guarantee."""
    tasks: int
    value: float
    """What a lease for one of them is worth, in GPUs."""


class Room(NamedTuple):
    """What there is to lease out."""

    slots: Callable[[int], int]
    """Whole cards per pod -> how many such pods fit."""
    parts: float
    """GPUs in the free parts of divided cards."""
    quota: Mapping[float, float]
    """Guarantee hours -> GPUs that spot tasks with at least this guarantee may hold."""


class Effort(Enum):
    """What it took to find a set."""

    NONE = "plain to see"
    SOLVED = "solved to the optimum"
    OUT_OF_TIME = "the solver's time ran out"


class Selection(NamedTuple):
    """How many of each group get a lease."""

    counts: list[int]
    gap: float
    """How far the value may be below the best possible, as a share of it; 0 when proved best."""
    effort: Effort


def select(groups: Sequence[Group], room: Room, seconds: float) -> Selection:
    """The set of greatest value that fits, as far as the solver finds it in the given seconds.

    Where the tasks of most value per GPU fill the room to the last card there is nothing to solve.
    """
    rows, limits = _constraints(groups, room)
    most = np.array([group.tasks for group in groups], dtype=float)
    values = np.array([group.value for group in groups])
    simple = _by_density(values, most, rows, limits)
    bound = _value_bound(values, most, rows, limits)
    if values @ simple >= bound * (1 - EXACT):
        return Selection(_whole(simple), 0.0, Effort.NONE)
    outcome = maximise(values * _tie_breaker(len(groups)), most, rows, limits, seconds)
    if outcome.optimal and outcome.counts is not None:
        return Selection(_whole(outcome.counts), 0.0, Effort.SOLVED)
    counts = simple
    if outcome.counts is not None:
        counts = max(simple, outcome.counts, key=lambda n: float(values @ n))
    bound = min(bound, outcome.bound)
    return Selection(_whole(counts), max(0.0, 1 - float(values @ counts) / bound), Effort.OUT_OF_TIME)


def _constraints(groups: Sequence[Group], room: Room) -> tuple[Floats, Floats]:
    """The rows of the program and their upper limits."""
    tasks = [group.task for group in groups]
    pods = np.array([task.pods for task in tasks], dtype=float)
    cards = np.array([task.cards for task in tasks], dtype=float)
    gpus = np.array([task.micro / MICRO for task in tasks])
    sizes = sorted({task.cards for task in tasks if task.cards} | {1})
    rows = [gpus, *(pods * (cards // size) for size in sizes)]
    limits = [max(0.0, room.slots(1) + room.parts), *(float(room.slots(size)) for size in sizes)]
    for hours, quota in sorted(room.quota.items()):
        rows.append(np.where([task.is_spot and task.guarantee_hours >= hours for task in tasks], gpus, 0.0))
        limits.append(quota)
    bounded = np.isfinite(limits)
    return np.array(rows)[bounded], np.array(limits)[bounded]


def _by_density(values: Floats, most: Floats, rows: Floats, limits: Floats) -> Floats:
    """As many as fit, most value for the room first."""
    left, counts = limits.astype(float).copy(), np.zeros(len(values))
    for g in _densest_first(values, rows):
        uses = rows[:, g]
        fit = min((int((left[r] + 1e-9) // uses[r]) for r in np.flatnonzero(uses)), default=int(most[g]))
        counts[g] = min(most[g], fit)
        left -= counts[g] * uses
    return counts


def _value_bound(values: Floats, most: Floats, rows: Floats, limits: Floats) -> float:
    """What the room would be worth if tasks could be cut and only GPUs counted: no set is worth more."""
    gpus, left, value = rows[GPU_ROW], float(limits[GPU_ROW]), 0.0
    for g in _densest_first(values, rows):
        count = min(float(most[g]), max(left, 0.0) / float(gpus[g]))
        value += count * float(values[g])
        left -= count * float(gpus[g])
    return value


def _tie_breaker(groups: int) -> Floats:
    """Factors near 1, no two alike: of sets with equal value every version of the solver must take the same.

    Multiples of the golden ratio lie apart from each other, and so do the sums that sets of groups make.
    """
    factors: Floats = 1.0 + TIE * (np.arange(1, groups + 1, dtype=np.float64) * GOLDEN_RATIO % 1.0)
    return factors


def _densest_first(values: Floats, rows: Floats) -> list[int]:
    return [int(g) for g in np.lexsort((np.arange(len(values)), -values / rows[GPU_ROW]))]


def _whole(counts: Floats) -> list[int]:
    return [int(n) for n in np.round(counts)]
