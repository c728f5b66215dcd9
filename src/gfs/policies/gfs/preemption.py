"""Which spot runs GFS evicts for an HP pod: those of the node with the lowest cost (Alg. 2 of the paper).

On every node that could hold the pod, spot runs are spared by waste, highest first; the rest are victims V:
    cost = (F + |V|) / (G + F + |V|) + beta * waste(V) / (GPUs of the pool * T)
ties by fewer victims, then node id. The search is exact. For every node it works out a lower bound: the fewest victims
that could do, each with the least waste there. It then looks at nodes by that bound until none is left that could be
cheaper than the best one found.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from gfs.core.node import GPUS, SLACK, Node
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

Found = tuple[float, int, int, list[Run], float]
"""Cost, number of victims, position of the node, the victims, what they waste."""


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
        _, _, at, runs, _ = found[0]
        choice = "cheapest node"
        if role.cards:
            count = self._pool.hp_candidates(role.cards)
            choice = f"cheapest of {count} nodes" if count > 1 else "only node that suffices"
        return Victims(self._pool.nodes[at], runs, choice, self._alternatives(found) if self._tell else ())

    def _search(self, role: Role, now: float) -> list[Found]:
        """Returns the nodes that were looked at, the cheapest first: all that could be it, and some to tell of."""
        pool, spot = self._pool, self.spot
        totals = evicted, completed = self._ledger.totals(now)
        waste = spot.waste(now)
        rows = np.flatnonzero((pool.table.pods(role, without_spot=True) > 0) & (spot.cells.max(axis=1) > 0))
        fewest = self._fewest(role, spot, rows)
        least = waste[spot.cells[rows]].min(axis=1)
        bound = (evicted + fewest) / (evicted + completed + fewest) + self._waste_weight * fewest * least
        found: list[Found] = []
        best: Found | None = None
        while rows.size:
            first = int(bound.argmin())
            node = pool.nodes[int(rows[first])]
            runs, wasted = self._victims(node, role, now)
            each = (self._cost(len(runs), wasted, totals), len(runs), node.index, runs, wasted)
            found.append(each)
            if best is None or each[:3] < best[:3]:
                best = each
            keep = _could_win(bound, fewest, rows, best)
            if self._tell and len(found) < MOST_ALTERNATIVES:
                keep[:] = True
            keep[first] = False
            rows, fewest, bound = rows[keep], fewest[keep], bound[keep]
        return sorted(found, key=lambda each: each[:3])

    def _fewest(self, role: Role, spot: SpotTable, rows: Counts) -> Counts:
        """Returns the fewest runs that must go from each node, by what those that hold most of it hold there."""
        free = self._pool.table.free()
        fewest = np.ones(len(rows), dtype=np.int64)
        for name, amount in ((GPUS, float(role.cards)), *self._pool.requests(role)):
            missing = amount - free[name][rows] - 2 * SLACK
            victims = 1 + (spot.most_held[name][rows] < missing[:, None]).sum(axis=1)
            fewest = np.maximum(fewest, np.where(missing > 0, victims, 0))
        return fewest

    def _victims(self, node: Node, role: Role, now: float) -> tuple[list[Run], float]:
        """Returns which runs would have to go from the node, and what they waste together."""
        by_waste = sorted((-run.waste(now), run.task.index, run) for run in node.spot)
        runs = victims_on(self._pool, node, role, [entry[2] for entry in by_waste])
        gone = set(runs)
        return runs, -sum(entry[0] for entry in by_waste if entry[2] in gone)

    def _alternatives(self, found: list[Found]) -> tuple[Alternative, ...]:
        """Returns the cheapest of the nodes that were looked at: the first was taken."""
        nodes = self._pool.nodes
        return tuple(
            Alternative(nodes[at].name, tuple(run.task for run in runs), cost, waste, i == 0)
            for i, (cost, _, at, runs, waste) in enumerate(found[:MOST_ALTERNATIVES])
        )


def _could_win(bound: Floats, fewest: Counts, rows: Counts, best: Found) -> Admitted:
    """Returns which nodes could be cheaper than the best one, or as cheap with fewer victims or an earlier id."""
    cost, victims, at = best[:3]
    rounded = np.round(bound, COST_DIGITS)
    earlier = (fewest < victims) | ((fewest == victims) & (rows < at))
    could: Admitted = (rounded < cost) | ((rounded == cost) & earlier)
    return could
