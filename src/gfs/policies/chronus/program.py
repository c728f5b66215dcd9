"""An integer program given to HiGHS: one thread, silent, with a time limit."""

from __future__ import annotations

from typing import Any, NamedTuple

import highspy
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


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
