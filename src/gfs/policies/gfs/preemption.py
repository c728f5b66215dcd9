"""Which spot runs are evicted for an HP pod: those of the node with the lowest cost (Alg. 2 of the paper).

On every node that could hold the pod, spot runs are spared by what each of them loses, most first; the rest are
victims V. Under `gfs` a run loses its waste, and
    cost = (F + |V|) / (G + F + |V|) + beta * waste(V) / (GPUs of the pool * T)
ties by fewer victims, then node id. The search is exact. For every node it works out a lower bound: the fewest victims
that could do, each with the least loss there. It then looks at nodes by that bound until none is left that could be
cheaper than the best one found.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import insort
from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeVar

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

Amount = TypeVar("Amount", float, Floats)

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


class CheapestNode(Preemptor):
    """The node where it costs least to make room for one HP pod."""

    def __init__(self, state: PoolState, *, tell: bool) -> None:
        """`tell`: its choices say what else was weighed."""
        self._pool = state.pool
        self._tell = tell
        self._spot: SpotTable | None = None

    @abstractmethod
    def losses(self, now: float) -> Floats:
        """Returns, by number of a run in the table, what evicting it loses; infinity for `NOBODY`."""

    @abstractmethod
    def total(self, victims: Amount, loss: Amount, now: float) -> Amount:
        """Returns the cost of evicting so many runs that lose so much together. It rises with both."""

    @property
    def spot(self) -> SpotTable:
        """The spot runs of the pool, up to date. The table is made when it is first asked for."""
        if self._spot is None:
            self._spot = SpotTable(self._pool)
        self._spot.refresh()
        return self._spot

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
        return Victims(self._pool.nodes[at], runs, choice, self._alternatives(found, now) if self._tell else ())

    def _search(self, role: Role, now: float) -> list[Found]:
        """Returns the nodes that were looked at, the cheapest first; of nodes with equal cost not all are."""
        pool, spot = self._pool, self.spot
        losses = self.losses(now)
        rows = np.flatnonzero((pool.table.pods(role, without_spot=True) > 0) & (spot.cells.max(axis=1) > 0))
        fewest = self._fewest(role, spot, rows)
        least = losses[spot.cells[rows]].min(axis=1)
        bound = self.total(fewest.astype(np.float64), fewest * least, now)
        urgency = spot.urgency[spot.cells[rows]].min(axis=1)
        found: list[Found] = []
        most = MOST_ALTERNATIVES if self._tell else 1
        while rows.size:
            first = int(np.where(urgency == urgency.min(), bound, np.inf).argmin())
            insort(found, self._look_at(int(rows[first]), role, losses, now))
            keep = np.ones(len(rows), dtype=bool)
            if len(found) >= most:
                keep = _could_win(urgency, bound, fewest, rows, found[0])
            keep[first] = False
            rows, fewest, bound, urgency = rows[keep], fewest[keep], bound[keep], urgency[keep]
        return found

    def _look_at(self, row: int, role: Role, losses: Floats, now: float) -> Found:
        """Works out which runs would have to go from a node, and what that costs."""
        node, spot = self._pool.nodes[row], self.spot
        loss = {run: float(losses[spot.number(run)]) for run in node.spot}
        spared_first = sorted(loss, key=lambda run: (-run.task.urgency, -loss[run], run.task.index))
        runs = victims_on(self._pool, node, role, spared_first)
        urgency = max((run.task.urgency for run in runs), default=0)
        cost = round(self.total(float(len(runs)), sum(loss[run] for run in runs), now), COST_DIGITS)
        return Found(urgency, cost, len(runs), row, runs)

    def _fewest(self, role: Role, spot: SpotTable, rows: Counts) -> Counts:
        """Returns the fewest runs that must go from each node, by what those that hold most of it hold there."""
        free = self._pool.table.free()
        fewest = np.ones(len(rows), dtype=np.int64)
        for name, amount in ((GPUS, float(role.cards)), *self._pool.requests(role)):
            missing = amount - free[name][rows] - 2 * SLACK
            victims = 1 + (spot.most_held[name][rows] < missing[:, None]).sum(axis=1)
            fewest = np.maximum(fewest, np.where(missing > 0, victims, 0))
        return fewest

    def _alternatives(self, found: list[Found], now: float) -> tuple[Alternative, ...]:
        """Returns the cheapest of the nodes that were looked at: the first was taken."""
        return tuple(
            alternative(self._pool.nodes[each.node], each.runs, each.cost, now, chosen=i == 0)
            for i, each in enumerate(found[:MOST_ALTERNATIVES])
        )


class GfsPreemptor(CheapestNode):
    """The paper's cost: each eviction counts, and what it wastes."""

    def __init__(self, state: PoolState, *, beta: float = 0.5, period: float, tell: bool = False) -> None:
        super().__init__(state, tell=tell)
        self._ledger = state.ledger
        self._waste_weight = beta / (max(state.pool.capacity, 1) * period)

    def cost(self, runs: Collection[Run], now: float) -> float:
        """Returns the paper's cost of evicting these runs."""
        return round(self.total(float(len(runs)), sum(run.waste(now) for run in runs), now), COST_DIGITS)

    def losses(self, now: float) -> Floats:
        """Returns, by number of a run, the GPU-seconds that evicting it wastes."""
        return self.spot.waste(now)

    def total(self, victims: Amount, loss: Amount, now: float) -> Amount:
        """Returns the paper's cost of evicting so many runs that waste so much together."""
        evicted, completed = self._ledger.totals(now)
        return (evicted + victims) / (evicted + completed + victims) + self._waste_weight * loss


def alternative(node: Node, runs: Sequence[Run], cost: float, now: float, *, chosen: bool) -> Alternative:
    """Returns one way to make room, for the reason of an eviction."""
    return Alternative(node.name, tuple(run.task for run in runs), cost, sum(run.waste(now) for run in runs), chosen)


def _could_win(urgency: Floats, bound: Floats, fewest: Counts, rows: Counts, best: Found) -> Admitted:
    """Returns which nodes could come before the best one, by these lower bounds."""
    rounded = np.round(bound, COST_DIGITS)
    earlier = (fewest < best.victims) | ((fewest == best.victims) & (rows < best.node))
    cheaper = (rounded < best.cost) | ((rounded == best.cost) & earlier)
    could: Admitted = (urgency < best.urgency) | ((urgency == best.urgency) & cheaper)
    return could
