"""The best victims for an HP gang by a mixed-integer program (HiGHS): what `gfs-plus` is measured against.

least sum of weight_r x_r      x_r: spot run r goes
so that cards * y_n <= idle_n + sum of the cards that x_r holds on n, sum of y_n >= pods      y_n: pods on node n
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from gfs.core.node import Node
from gfs.core.run import Run
from gfs.policies.gfs.gang_victims import Weights

MOST_SECONDS = 20.0
OUT_OF_TIME = 1
"""What SciPy calls a solver that has reached its limit."""


def least_weight(
    runs: Sequence[Run], nodes: Sequence[Node], cards: int, pods: int, weights: Weights, now: float
) -> float:
    """The least weight of spot runs that make room for so many pods of so many cards; endless if none do.

    If the solver runs out of time: what the least weight is not below.
    """
    row_of = {node: row for row, node in enumerate(nodes)}
    entries = [(row, len(runs) + row, float(cards)) for row in range(len(nodes))]
    for column, run in enumerate(runs):
        entries += [(row_of[node], column, -float(held)) for node, _, held in run.places if held]
    rows, columns, values = zip(*entries, strict=True)
    size = len(runs) + len(nodes)
    room = coo_array((values, (rows, columns)), shape=(len(nodes), size)).tocsr()  # the same node twice adds up
    enough = coo_array(np.r_[np.zeros(len(runs)), np.ones(len(nodes))].reshape(1, -1)).tocsr()
    solved = milp(
        [weights.of(run, now) for run in runs] + [0.0] * len(nodes),
        constraints=[
            LinearConstraint(room, -np.inf, [node.idle for node in nodes]),
            LinearConstraint(enough, pods, np.inf),
        ],
        integrality=np.ones(size),
        bounds=Bounds(0, np.r_[np.ones(len(runs)), [node.total // cards for node in nodes]]),
        options={"time_limit": MOST_SECONDS},
    )
    if solved.status == OUT_OF_TIME:
        return float(solved.mip_dual_bound)
    return float(solved.fun) if solved.success else inf
