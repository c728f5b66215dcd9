"""Which spot runs GFS evicts for an HP pod: those of the node with the lowest cost (Alg. 2 of the paper).

On every node that could hold the pod, spot runs are spared by waste, highest first; the rest are victims V:
    cost = (F + |V|) / (G + F + |V|) + beta * waste(V) / (GPUs of the pool * T)
ties by fewer victims, then node id. The search is exact. For every node it works out a lower bound: the fewest victims
that could do, each with the least waste there. It then looks at nodes by that bound until none is left that could be
cheaper than the best one found.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from gfs.core.node import GPUS, SLACK
from gfs.core.ports import Preemptor, Victims
from gfs.core.reasons import Alternative
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.core.table import Admitted
from gfs.domain.task import Role
from gfs.policies.gfs.spot_table import Counts, Floats, SpotTable
from gfs.policies.preemption import victims_on

COST_DIGITS = 12
"""Costs are compared to so many digits: rounding must not decide between costs that are equal on paper."""
MOST_ALTERNATIVES = 8
"""Nodes of those looked at that a reason names."""


class Found(NamedTuple):
    """A node that was looked at. The least is the best: no two have the same `node`."""

    urgency: int
    """The highest of a victim."""
    cost: float
    victims: int
    node: int
    """Its position."""
    runs: list[Run]
    waste: float
    """GPU-seconds that the victims waste together."""


class GfsPreemptor(Preemptor):
    """The cheapest node for one HP pod."""

    def __init__(self, state: PoolState, *, beta: float = 0.5, period: float, tell: bool = False) -> None:
        """`tell`: its choices say what else was weighed."""
        self._pool = state.pool
        self._tell = tell
        self._ledger = state.ledger
        self._waste_weight = beta / (max(state.pool.capacity, 1) * period)
        self._spot: SpotTable | None = None

    @property
    def spot(self) -> SpotTable:
        """The spot runs of the pool, up to date. The table is made when it is first asked for."""
        if self._spot is None:
            self._spot = SpotTable(self._pool)
        self._spot.refresh()
        return self._spot

    def cost(self, runs: Collection[Run], now: float) -> float:
        """Returns the paper's cost of evicting these runs."""
        return self._cost(len(runs), sum(run.waste(now) for run in runs), self._ledger.totals(now))

    def _cost(self, victims: int, waste: float, totals: tuple[int, int]) -> float:
        evicted, completed = totals
        periods = evicted + completed
        return round((evicted + victims) / (periods + victims) + self._waste_weight * waste, COST_DIGITS)

    def choose(self, role: Role, now: float) -> Victims | None:
        """Returns the cheapest node and its victims, or None if no eviction helps."""
        found = self._search(role, now)
        if not found:
            return None
        at, runs = found[0].node, found[0].runs
        choice = "cheapest node"
        if role.cards:
            count = self._pool.hp_candidates(role.cards)
            choice = f"cheapest of {count} nodes" if count > 1 else "only node that suffices"
        return Victims(self._pool.nodes[at], runs, choice, self._alternatives(found) if self._tell else ())

    def _search(self, role: Role, now: float) -> list[Found]:
        """Returns the nodes that were looked at, the cheapest first; of nodes with equal cost not all are."""
        pool, spot = self._pool, self.spot
        totals = evicted, completed = self._ledger.totals(now)
        waste = spot.waste(now)
        rows = np.flatnonzero((pool.table.pods(role, without_spot=True) > 0) & (spot.cells.max(axis=1) > 0))
        fewest = self._fewest(role, spot, rows)
        least = waste[spot.cells[rows]].min(axis=1)
        bound = (evicted + fewest) / (evicted + completed + fewest) + self._waste_weight * fewest * least
        urgency = spot.urgency[spot.cells[rows]].min(axis=1)
        found: list[Found] = []
        most = MOST_ALTERNATIVES if self._tell else 1
        while rows.size:
            first = int(np.where(urgency == urgency.min(), bound, np.inf).argmin())
            insort(found, self._look_at(int(rows[first]), role, now, totals))
            keep = np.ones(len(rows), dtype=bool)
            if len(found) >= most:
                keep = _could_win(urgency, bound, fewest, rows, found[0])
            keep[first] = False
            rows, fewest, bound, urgency = rows[keep], fewest[keep], bound[keep], urgency[keep]
        return found

    def _look_at(self, row: int, role: Role, now: float, totals: tuple[int, int]) -> Found:
        """Works out which runs would have to go from a node, and what that costs."""
        node = self._pool.nodes[row]
        by_waste = sorted((-run.task.urgency, -run.waste(now), run.task.index, run) for run in node.spot)
        runs = victims_on(self._pool, node, role, [entry[-1] for entry in by_waste])
        gone = set(runs)
        waste = -sum(entry[1] for entry in by_waste if entry[-1] in gone)
        urgency = max((run.task.urgency for run in runs), default=0)
        return Found(urgency, self._cost(len(runs), waste, totals), len(runs), row, runs, waste)

    def _fewest(self, role: Role, spot: SpotTable, rows: Counts) -> Counts:
        """Returns the fewest runs that must go from each node, by what those that hold most of it hold there."""
        free = self._pool.table.free()
        fewest = np.ones(len(rows), dtype=np.int64)
        for name, amount in ((GPUS, float(role.cards)), *self._pool.requests(role)):
            missing = amount - free[name][rows] - 2 * SLACK
            victims = 1 + (spot.most_held[name][rows] < missing[:, None]).sum(axis=1)
            fewest = np.maximum(fewest, np.where(missing > 0, victims, 0))
        return fewest

    def _alternatives(self, found: list[Found]) -> tuple[Alternative, ...]:
        """Returns the cheapest of the nodes that were looked at: the first was taken."""
        nodes = self._pool.nodes
        return tuple(
            Alternative(nodes[each.node].name, tuple(run.task for run in each.runs), each.cost, each.waste, i == 0)
            for i, each in enumerate(found[:MOST_ALTERNATIVES])
        )


def _could_win(urgency: Floats, bound: Floats, fewest: Counts, rows: Counts, best: Found) -> Admitted:
    """Returns which nodes could come before the best one, by these lower bounds."""
    rounded = np.round(bound, COST_DIGITS)
    earlier = (fewest < best.victims) | ((fewest == best.victims) & (rows < best.node))
    cheaper = (rounded < best.cost) | ((rounded == best.cost) & earlier)
    could: Admitted = (urgency < best.urgency) | ((urgency == best.urgency) & cheaper)
    return could
