"""How far the victims of gfs-plus are from the best ones: sampled decisions of a run against a MILP (HiGHS).

least sum of cost_r x_r      x_r: spot run r goes
so that gpus * y_n <= idle_n + sum of the GPUs that x_r holds on n, sum of y_n >= pods      y_n: pods on node n
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from gfs.assembly.compositions import GFS_PLUS
from gfs.assembly.parameters import Parameters
from gfs.assembly.run import run_simulation
from gfs.batch.job import JobResult
from gfs.batch.simulation import Trace, load
from gfs.core.node import Node
from gfs.core.ports import Preemptor, Victims
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.task import Role
from gfs.policies.gfs.gang_victims import EvictionCost, GangPreemptor

MOST_SECONDS = 20.0
OUT_OF_TIME = 1
"""What SciPy calls a solver that has reached its limit."""


def least_cost(
    runs: Sequence[Run], nodes: Sequence[Node], gpus: int, pods: int, cost: EvictionCost, now: float
) -> float:
    """Returns the least cost of spot runs that make room for so many pods of so many GPUs; infinity if none do.

    If the solver runs out of time: what the least cost is not below.
    """
    row_of = {node: row for row, node in enumerate(nodes)}
    entries = [(row, len(runs) + row, float(gpus)) for row in range(len(nodes))]
    for column, run in enumerate(runs):
        entries += [
            (row_of[node], column, -float(held * role.cards)) for node, role, held, _ in run.places if role.cards
        ]
    rows, columns, values = zip(*entries, strict=True)
    size = len(runs) + len(nodes)
    room = coo_array((values, (rows, columns)), shape=(len(nodes), size)).tocsr()  # the same node twice adds up
    enough = coo_array(np.r_[np.zeros(len(runs)), np.ones(len(nodes))].reshape(1, -1)).tocsr()
    solved = milp(
        [cost.of(run, now) for run in runs] + [0.0] * len(nodes),
        constraints=[
            LinearConstraint(room, -np.inf, [node.idle for node in nodes]),
            LinearConstraint(enough, pods, np.inf),
        ],
        integrality=np.ones(size),
        bounds=Bounds(0, np.r_[np.ones(len(runs)), [node.total // gpus for node in nodes]]),
        options={"time_limit": MOST_SECONDS},
    )
    if solved.status == OUT_OF_TIME:
        return float(solved.mip_dual_bound)
    return float(solved.fun) if solved.success else inf


Sample = list[tuple[float, float]]
"""What the victims cost, and what the best ones would."""
MOST = 120
"""Decisions that are compared."""
EVERY = 5
"""One in so many decisions on gangs is, until there are enough."""


class SampledPreemptor(Preemptor):
    """Decides as a `GangPreemptor`; notes, for one gang in `EVERY`, its victims' cost and that of the best ones."""

    def __init__(self, state: PoolState, sample: Sample) -> None:
        self._preemptor = GangPreemptor(state)
        self._state = state
        self._sample = sample
        self._decisions = 0

    def choose(self, role: Role, now: float) -> Victims | None:
        """Returns the same victims as without sampling."""
        return self._preemptor.choose(role, now)

    def choose_gang(self, role: Role, pods: int, now: float) -> Victims | None:
        """Returns the same victims as without sampling."""
        chosen = self._preemptor.choose_gang(role, pods, now)
        if chosen is not None and pods > 1 and len(self._sample) < MOST:
            self._decisions += 1
            if self._decisions % EVERY == 0:
                each = self._preemptor.eviction_cost
                cost = sum(each.of(run, now) for run in chosen.runs)
                spot = [run for run in self._state.runs.values() if any(run in node.spot for node in run.nodes)]
                best = least_cost(spot, self._state.pool.nodes, role.cards, pods, each, now)
                self._sample.append((cost, best))
        return chosen

    def cost(self, runs: Collection[Run], now: float) -> float:
        """Returns the same cost as without sampling."""
        return self._preemptor.cost(runs, now)


@dataclass(frozen=True, slots=True)
class GapSample:
    """The optimality gap of gfs-plus on a trace."""

    trace: Trace
    weight: ClassVar[float] = 90.0
    """About as long as a large run."""

    @property
    def label(self) -> str:
        """What it is."""
        return f"optimality gap on {self.trace.label}"

    def identity(self) -> dict[str, Any]:
        """All that it depends on."""
        return {"job": "gap", "trace": self.trace.identity(), "most": MOST, "every": EVERY}

    def run(self) -> JobResult:
        """Run gfs-plus without a quota, so that many decisions are made, and compare some of them."""
        sample: Sample = []
        definition = replace(
            GFS_PLUS, name="gfs-plus-sampled", preemptor=lambda context, _: SampledPreemptor(context.state, sample)
        )
        run_simulation(load(self.trace), definition, Parameters(quota="none"))
        gaps = np.array([cost / best - 1 for cost, best in sample if best > 0])
        return {"gaps": np.maximum(gaps, 0.0).round(6).tolist()}
