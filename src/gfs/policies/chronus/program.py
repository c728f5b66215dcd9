"""Which tasks hold the next leases: a mixed-integer program over groups of equal tasks (Chronus).

    maximise    sum_g value_g * n_g                       n_g tasks of group g get a lease, 0 <= n_g <= tasks_g
    subject to  sum_g pods_g * floor(cards_g / c) * n_g <= pods of c whole GPUs that fit   for every size c
                sum_g gpus_g * n_g <= GPUs and free parts of GPUs
                sum_(g with guarantee >= H) gpus_g * n_g <= spot quota for H                for every H

The rows per size are exact for whole GPUs where every size divides the next larger one (1, 2, 4, 8); otherwise they
promise no more than placement can keep, and a task that then finds no room waits. HiGHS solves it to the optimum
unless its time runs out; then its best set so far is taken, or, if that is better, the tasks of most value per GPU
that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import highspy
import numpy as np
import numpy.typing as npt

from gfs.core.ports import SolverFigures
from gfs.domain.task import Priority

Floats = npt.NDArray[np.float64]

TIE, GOLDEN_RATIO = 1e-5, 0.6180339887498949
"""By how much, at most, and how ties between sets are broken."""
SLACK = 1e-9
"""GPUs are added up as floats: so little too much is rounding."""

SEARCHES = ("feasibility_jump", "rens", "rins", "root_reduced_cost", "shifting", "zi_round")
"""Searches for good solutions that pay in large programs. In ours, of some dozen variables, they take half the time."""
OPTIONS = {"output_flag": False, "threads": 1, "mip_rel_gap": 0.0, "mip_abs_gap": 1e-9}
OPTIONS |= {f"mip_heuristic_run_{name}": False for name in SEARCHES}


class LeaseShape(NamedTuple):
    """Tasks of one shape are the same to the programs: where one finds no room, neither does another."""

    priority: Priority
    gpus_per_pod: float
    pods: int
    guarantee_hours: float
    asks: Hashable = None
    """What they ask for besides GPUs."""

    @property
    def gpus(self) -> float:
        """GPUs of all pods."""
        return self.pods * self.gpus_per_pod

    def slots(self, size: int) -> int:
        """How many pods of so many whole GPUs find no room where these pods are."""
        return self.pods * int(self.gpus_per_pod // size)


class TaskGroup(NamedTuple):
    """Tasks that the program cannot tell apart."""

    shape: LeaseShape
    tasks: int
    value: float
    """What a lease for one of them is worth, in GPUs."""


class Capacity(NamedTuple):
    """What there is to lease out."""

    slots: Callable[[int], int]
    """Whole GPUs per pod -> how many such pods fit."""
    parts: float
    """GPUs in the free parts of divided ones."""
    quota: Mapping[float, float]
    """Guarantee hours -> GPUs that spot tasks with at least this guarantee may hold."""

    @property
    def gpus(self) -> float:
        """All GPUs there are."""
        return max(0.0, self.slots(1) + self.parts)


class Selection(NamedTuple):
    """How many of each group get a lease, and what it took to find that."""

    counts: list[int]
    solver: SolverFigures


class Outcome(NamedTuple):
    """The best whole numbers that the solver found, if any; an upper bound of the value; whether nothing is better."""

    counts: Floats | None
    bound: float
    optimal: bool


def select(groups: Sequence[TaskGroup], room: Capacity, seconds: float) -> Selection:
    """The set of greatest value that fits, as far as the solver finds it in the given seconds."""
    rows, limits = _constraints(groups, room)
    most = np.array([group.tasks for group in groups], dtype=float)
    if (rows @ most <= limits).all():
        return Selection(_whole(most), SolverFigures(0, 0, 0.0))
    values = np.array([group.value for group in groups])
    outcome = maximise(values * _tie_breaker(len(groups)), most, rows, limits, seconds)
    best, gap = outcome.counts, 0.0
    if best is None or not outcome.optimal:
        simple = _by_density(values, most, rows, limits)
        best = simple if best is None or values @ best < values @ simple else best
        gap = max(0.0, 1 - float(values @ best) / min(outcome.bound, float(values @ most)))
    return Selection(_whole(best), SolverFigures(1, int(not outcome.optimal), gap))


def _constraints(groups: Sequence[TaskGroup], room: Capacity) -> tuple[Floats, Floats]:
    """The rows of the program and their upper limits, GPUs first."""
    shapes = [group.shape for group in groups]
    sizes = sorted({int(shape.gpus_per_pod) for shape in shapes} - {0} | {1})
    rows = [[shape.gpus for shape in shapes], *([shape.slots(size) for shape in shapes] for size in sizes)]
    limits = [room.gpus, *(float(room.slots(size)) for size in sizes)]
    for hours, quota in sorted(room.quota.items()):
        rows.append([shape.gpus * (bool(shape.priority) and shape.guarantee_hours >= hours) for shape in shapes])
        limits.append(quota)
    bounded = np.isfinite(limits)
    return np.array(rows, dtype=float)[bounded], np.array(limits)[bounded] + SLACK


def _by_density(values: Floats, most: Floats, rows: Floats, limits: Floats) -> Floats:
    """As many as fit, most value per GPU first."""
    counts, left = np.zeros_like(most), limits.copy()
    for g in np.argsort(-values / rows[0], kind="stable"):
        uses = rows[:, g] > 0
        counts[g] = min(most[g], np.floor((left[uses] / rows[uses, g]).min()))
        left -= counts[g] * rows[:, g]
    return counts


def _tie_breaker(groups: int) -> Floats:
    """Factors near 1, no two alike and nor are their sums: every version of the solver takes the same of equal sets."""
    return 1.0 + TIE * (np.arange(1, groups + 1, dtype=np.float64) * GOLDEN_RATIO % 1.0)


def _whole(counts: Floats) -> list[int]:
    return [int(n) for n in np.round(counts)]


def maximise(values: Floats, most: Floats, rows: Floats, limits: Floats, seconds: float) -> Outcome:
    """Whole numbers n with 0 <= n <= most and rows @ n <= limits for which values @ n is greatest."""
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, setting in {**OPTIONS, "time_limit": seconds}.items():
        solver.setOptionValue(option, setting)
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
    solver.passModel(model)
    solver.run()
    info = solver.getInfo()
    optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    counts = np.round(np.array(solver.getSolution().col_value)) if found else None
    return Outcome(counts, -float(info.mip_dual_bound), optimal)
