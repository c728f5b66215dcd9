"""Which tasks hold the next leases: a mixed-integer program over groups of equal tasks (Chronus).

    maximise    sum_g value_g * n_g                       n_g tasks of group g get a lease, 0 <= n_g <= tasks_g
    subject to  sum_g pods_g * floor(cards_g / c) * n_g <= pods of c whole cards that fit   for every size c
                sum_g gpus_g * n_g <= cards and free parts of cards
                sum_(g with guarantee >= H) gpus_g * n_g <= spot quota for H                for every H

The rows per size are exact for whole cards where every size divides the next larger one (1, 2, 4, 8);
otherwise they promise no more than placement can keep, and a task that then finds no room waits. HiGHS
solves it to the optimum unless its time runs out; then its best set so far is taken, or, if it has none, the
tasks of most value per GPU that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import highspy
import numpy as np
import numpy.typing as npt

from gfs.domain.task import NodeFilter, Priority, Task
from gfs.domain.units import MICRO

Floats = npt.NDArray[np.float64]

EXACT = 1e-12
"""Two values this close are equal."""
TIE, GOLDEN_RATIO = 1e-5, 0.6180339887498949
"""By how much, at most, and how ties between sets are broken."""
GPU_ROW = 0
"""The row of the program that counts GPUs."""


class TaskShape(NamedTuple):
    """What the programs see of a task."""

    priority: Priority
    gpus_per_pod: float
    pods: int
    guarantee_hours: float
    node_filter: NodeFilter | None = None
    cpus_per_pod: float = 0.0
    """0 where only cards count; the same for memory."""
    memory_per_pod: float = 0.0


def shape_of(task: Task, *, resources: bool) -> TaskShape:
    """Tasks of one shape are the same to the programs: where one finds no room, neither does another."""
    cpus, memory = (task.cpus_per_pod, task.memory_per_pod) if resources else (0.0, 0.0)
    return TaskShape(task.priority, task.gpus_per_pod, task.pods, task.guarantee_hours, task.node_filter, cpus, memory)


class TaskGroup(NamedTuple):
    """Tasks that the program cannot tell apart."""

    task: Task
    """One of them: they have the same pods, GPUs per pod and guarantee."""
    tasks: int
    value: float
    """What a lease for one of them is worth, in GPUs."""


class Capacity(NamedTuple):
    """What there is to lease out."""

    slots: Callable[[int], int]
    """Whole cards per pod -> how many such pods fit."""
    parts: float
    """GPUs in the free parts of divided cards."""
    quota: Mapping[float, float]
    """Guarantee hours -> GPUs that spot tasks with at least this guarantee may hold."""


class Effort(Enum):
    """What it took to find a set."""

    NONE = "no solver needed"
    SOLVED = "solved to the optimum"
    OUT_OF_TIME = "the solver's time ran out"


class Selection(NamedTuple):
    """How many of each group get a lease."""

    counts: list[int]
    gap: float
    """How far the value may be below the best possible, as a share of it; 0 when proved best."""
    effort: Effort


def select(groups: Sequence[TaskGroup], room: Capacity, seconds: float) -> Selection:
    """The set of greatest value that fits, as far as the solver finds it in the given seconds.

    Where the tasks of most value per GPU fill the room to the last card there is nothing to solve.
    """
    rows, limits = _constraints(groups, room)
    most = np.array([group.tasks for group in groups], dtype=float)
    values = np.array([group.value for group in groups])
    order = _densest_first(values, rows)
    simple = _by_density(order, most, rows, limits)
    bound = _value_bound(order, values, most, rows, limits)
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


def _constraints(groups: Sequence[TaskGroup], room: Capacity) -> tuple[Floats, Floats]:
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


def _by_density(order: list[int], most: Floats, rows: Floats, limits: Floats) -> Floats:
    """As many as fit, most value for the room first."""
    left, uses, wanted = limits.tolist(), rows.T.tolist(), most.tolist()  # some dozen numbers: quicker one by one
    counts = [0.0] * len(wanted)
    for g in order:
        fit = min((int((room + 1e-9) // each) for room, each in zip(left, uses[g], strict=True) if each), default=None)
        count = counts[g] = wanted[g] if fit is None else min(wanted[g], fit)
        if count:
            left = [room - count * each for room, each in zip(left, uses[g], strict=True)]
    return np.array(counts, dtype=np.float64)


def _value_bound(order: list[int], values: Floats, most: Floats, rows: Floats, limits: Floats) -> float:
    """What the room would be worth if tasks could be cut and only GPUs counted: no set is worth more."""
    gpus, left, value = rows[GPU_ROW].tolist(), float(limits[GPU_ROW]), 0.0
    wanted, worth = most.tolist(), values.tolist()
    for g in order:
        if left <= 0:
            break
        count = min(wanted[g], left / gpus[g])
        value += count * worth[g]
        left -= count * gpus[g]
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


# -- the solver ----------------------------------------------------------------------------------------------

HEURISTICS = ("feasibility_jump", "rens", "rins", "root_reduced_cost", "shifting", "zi_round")
"""Searches for good solutions, which pay in large programs. In ours, of some dozen variables, they take half the
time."""

OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-9,
    **{f"mip_heuristic_run_{name}": False for name in HEURISTICS},
}


class Outcome(NamedTuple):
    """What the solver found."""

    counts: Floats | None
    """The best whole numbers found; None if its time did not suffice for any."""
    bound: float
    """No solution has a greater value than this."""
    optimal: bool
    """Whether nothing better exists."""


def maximise(values: Floats, most: Floats, rows: Floats, limits: Floats, seconds: float) -> Outcome:
    """Whole numbers n with 0 <= n <= most and rows @ n <= limits for which values @ n is greatest."""
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, setting in {**OPTIONS, "time_limit": seconds}.items():
        solver.setOptionValue(option, setting)
    solver.passModel(_model(values, most, rows, limits))
    solver.run()
    info = solver.getInfo()
    optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    counts = np.round(np.array(solver.getSolution().col_value)) if found else None
    return Outcome(counts, -float(info.mip_dual_bound), optimal)


def _model(values: Floats, most: Floats, rows: Floats, limits: Floats) -> highspy.HighsLp:
    model = highspy.HighsLp()
    row, column = np.nonzero(rows)
    model.num_col_, model.num_row_ = len(values), len(limits)
    model.col_cost_ = -values  # HiGHS minimises
    model.col_lower_, model.col_upper_ = np.zeros(len(values)), most
    model.row_lower_, model.row_upper_ = np.full(len(limits), -highspy.kHighsInf), limits
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.append(0, np.cumsum(np.bincount(row, minlength=len(limits)))).astype(np.int32)
    model.a_matrix_.index_ = column.astype(np.int32)
    model.a_matrix_.value_ = rows[row, column]
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(values)
    return model
