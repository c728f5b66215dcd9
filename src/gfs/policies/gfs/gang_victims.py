"""Which spot runs `gfs-plus` evicts for a whole HP gang: few that together make room for all its pods.

The paper takes one pod after the other and for each the cheapest node; ten pods then cost ten small tasks where
one gang on ten nodes would do. Here the cost of the whole set counts, in GPU-hours: for each victim
    cost = n * price + waste + restart
n: which run of its task it is; waste: GPUs x time since the last checkpoint; restart: GPUs x restart overhead.
Victims are taken by cost a pod that they make room for, until all pods fit; then those that are not needed after all
are spared, dearest first. HP pods come in waves: GPUs that get free beyond the pods at hand count like pods of the same
size, for the next ones find room there.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import NamedTuple

import numpy as np

from gfs.core.node import GPUS, SLACK, Node
from gfs.core.pool import Pool
from gfs.core.ports import Victims
from gfs.core.reasons import Alternative
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.execution import ExecutionRules
from gfs.domain.task import Role
from gfs.domain.units import HOUR
from gfs.policies.gfs.preemption import MOST_ALTERNATIVES, Amount, CheapestNode, alternative
from gfs.policies.gfs.spot_table import NOBODY, Counts, Floats, SpotTable

ROUNDING = 1e-12
"""Sums of the same costs in another order differ by less than this share."""
MOST_SETS = 4096
"""Sets of runs of one node that are compared at once, by what they free."""


class EvictionCost(NamedTuple):
    """What evicting a run costs, in GPU-hours: a price for each run of its task so far, lost work and restart."""

    price: float
    """Of the first eviction of a task; the n-th costs n times as much."""
    rules: ExecutionRules

    def of(self, run: Run, now: float) -> float:
        """Returns the cost of evicting one run."""
        number, wasted, gpus = np.array([[run.number], [run.waste(now)], [run.task.gpus]])
        return float(self.of_all(number, wasted, gpus)[0])

    def of_all(self, number: Floats, wasted: Floats, gpus: Floats) -> Floats:
        """Returns the costs of evicting runs with these numbers, GPU-seconds of waste and GPUs of their tasks."""
        rules = self.rules
        restart = np.where(gpus <= rules.small_task_gpus, rules.restart_overhead, rules.restart_overhead_large)
        costs: Floats = number * self.price + (wasted + gpus * restart) / HOUR
        return costs


class GangPreemptor(CheapestNode):
    """Victims for all pods of a role together; where that is hard to say, the cheapest node for one."""

    def __init__(self, state: PoolState, *, eviction_price: float = 2.0, tell: bool = False) -> None:
        """`eviction_price`: GPU-hours; `tell`: its choices say what else was weighed."""
        super().__init__(state, tell=tell)
        self.eviction_cost = EvictionCost(eviction_price, state.rules)

    def cost(self, runs: Collection[Run], now: float) -> float:
        """Returns the GPU-hours that evicting these runs costs."""
        return sum(self.eviction_cost.of(run, now) for run in runs)

    def losses(self, now: float) -> Floats:
        """Returns, by number of a run, the GPU-hours that evicting it costs."""
        spot = self.spot
        return self.eviction_cost.of_all(spot.run_number, spot.waste(now), spot.gpus)

    def total(self, victims: Amount, loss: Amount, now: float) -> Amount:
        """Returns the cost of evicting runs that cost so much together."""
        return loss

    def choose_gang(self, role: Role, pods: int, now: float) -> Victims | None:
        """Returns victims for so many pods at once; None if this search finds none (then pod by pod may still do)."""
        if not role.cards or any(not each.by_spec for each, _ in self._pool.filters_of(role)):
            return None
        spot, costs, price = self.spot, self.losses(now), self.eviction_cost.price
        for level in np.unique(spot.urgency[spot.cells]).tolist():  # the lowest priorities go first
            least = np.where(spot.urgency <= level, costs, inf)
            runs = GangSearch(self._pool, spot, role, pods, least, price).victims()
            if runs is not None:
                said = f"chosen for {pods} pods at once" if pods > 1 else "least loss"
                told = (
                    GangSearch(self._pool, spot, role, pods, costs, price).alternatives(runs, now) if self._tell else ()
                )
                return Victims(None, runs, said, told)
        return None


class GangSearch:
    """Looks for few and cheap victims that make room for pods, among all spot runs of a pool."""

    def __init__(self, pool: Pool, spot: SpotTable, role: Role, pods: int, costs: Floats, price: float) -> None:
        """`costs`: by number of a run, infinity for runs that stay; `price`: what any eviction costs at least."""
        self._pool = pool
        self._spot = spot
        self._gpus = role.cards
        self._pods = self._missing = pods
        self._price = price
        self._asked: dict[str, float] = {GPUS: float(role.cards), **dict(pool.requests(role))}
        """What a pod asks for, of all that is limited."""
        free = pool.table.free()
        self._asked |= {name: 0.0 for name, left in free.items() if name not in self._asked and left.min() < -SLACK}
        self._free = {name: free[name].copy() for name in self._asked}
        """Name -> by node, what is free, with what the victims so far hold."""
        usable = pool.table.admitted(role)
        for node in pool.divided:  # there it is hard to say what gets free
            usable[node.index] = False
        self._is_usable = usable & (spot.cells.max(axis=1) > NOBODY)
        self._usable = np.flatnonzero(self._is_usable)
        """Nodes on which something can get free for the pods."""
        self._cost = costs.copy()
        """Number of a run -> its cost; infinity for victims and runs that stay."""
        self._urgency = spot.urgency[: len(costs)]
        """Number of a run -> priority of its task: the lower goes first."""
        self._gain = np.zeros(len(costs))
        """Number of a run -> pods that there would be room for if it went too."""
        self._freed = np.zeros(len(costs))
        """Number of a run -> GPUs that would get free for HP pods, these or the next."""
        self._count(self._usable, 1)

    def victims(self) -> list[Run] | None:
        """Returns the runs to evict, or None if evicting all would not do."""
        chosen: dict[int, float] = {}
        while self._missing > 0:
            prices = self._prices()
            finite = prices < inf
            if finite.any():
                prices[self._urgency > self._urgency[finite].min()] = inf
            price = float(prices.min())
            equal = np.flatnonzero(prices == price)
            taken = [min(equal.tolist(), key=self._spot.index) if price < inf else NOBODY]
            if price > 2 * self._price:  # several on one node may be cheaper
                bundle, cost = self._bundle()
                if cost < price:
                    taken = bundle
                elif price == inf:
                    return None
            for number in taken:
                self._missing -= int(self._gain[number])
                self._move(number, 1)
                chosen[number], self._cost[number] = float(self._cost[number]), inf
        return self._needed(chosen)

    def alternatives(self, chosen: list[Run], now: float) -> tuple[Alternative, ...]:
        """Returns the runs that were chosen, then the cheapest others, each alone; before any search."""
        prices, spot = self._prices(), self._spot
        numbers = [spot.number(run) for run in chosen]
        room = max(self._missing, float(self._freed[numbers].sum()) / self._gpus)
        finite = np.flatnonzero(prices < inf).tolist()
        ranked = sorted([n for n in finite if [n] != numbers], key=lambda n: (prices[n], spot.index(n)))
        others = [(run, float(prices[n])) for n in ranked[: MOST_ALTERNATIVES - 1] if (run := spot.runs[n])]
        taken = alternative(chosen[0].nodes[0], chosen, float(self._cost[numbers].sum()) / room, now, chosen=True)
        return (taken, *(alternative(run.nodes[0], [run], price, now, chosen=False) for run, price in others))

    def _prices(self) -> Floats:
        """Returns, by number, the cost a pod, of those that then fit or of such as could have the GPUs it frees."""
        gain = np.minimum(self._gain, self._missing)
        room = np.maximum(gain, self._freed / self._gpus)
        return np.where(gain > 0, self._cost / np.maximum(room, 1e-9), inf)

    # -- room --------------------------------------------------------------------------------------

    def _room(self, free: dict[str, Floats]) -> Floats:
        """Returns how many pods so much allows."""
        most = np.maximum(free[GPUS], 0) // self._gpus
        for name, amount in self._asked.items():
            if name != GPUS:
                if amount:
                    most = np.minimum(most, np.floor((free[name] + SLACK) / amount))
                most = np.where(free[name] < -SLACK, 0.0, most)
        return most

    def _count(self, rows: Counts, sign: int) -> None:
        """Adds what the runs on these nodes gain and free there (or takes it away)."""
        numbers = self._spot.cells[rows]
        free = {name: column[rows][:, None] for name, column in self._free.items()}
        held = {name: self._spot.held[name][rows] for name in self._asked}
        gain = self._room({name: free[name] + held[name] for name in free}) - self._room(free)
        freed = np.maximum(held[GPUS] + np.minimum(free[GPUS], 0), 0)
        for total, here in ((self._gain, gain), (self._freed, freed)):
            total += sign * np.bincount(numbers.ravel(), here.ravel(), len(total))
            total[NOBODY] = 0.0

    def _rows_of(self, number: int) -> Counts:
        run = self._spot.runs[number]
        assert run is not None
        rows = np.array(sorted({node.index for node in run.nodes}), dtype=np.int64)
        found: Counts = rows[self._is_usable[rows]]
        return found

    def _move(self, number: int, sign: int) -> None:
        """Frees what a run holds (or takes it again)."""
        rows = self._rows_of(number)
        self._count(rows, -1)
        here = self._spot.cells[rows] == number
        for name, column in self._free.items():
            column[rows] += sign * (self._spot.held[name][rows] * here).sum(axis=1)
        self._count(rows, 1)

    # -- several on one node -----------------------------------------------------------------------

    def _bundle(self) -> tuple[list[int], float]:
        """Returns the cheapest runs of one node that together make room for one more pod there, and their cost."""
        rows = self._usable
        free = self._free[GPUS][rows]
        missing = (np.maximum(free, 0) // self._gpus + 1) * self._gpus - free
        beside = np.maximum(1, (self._spot.most_held[GPUS][rows] < missing[:, None]).sum(axis=1))  # one more must go
        cheapest = np.sort(self._cost[self._spot.cells[rows]], axis=1).cumsum(axis=1) * (1 - ROUNDING)
        last = cheapest.shape[1] - 1
        least = np.where(beside > last, inf, cheapest[np.arange(len(rows)), np.minimum(beside, last)])
        found: list[int] = []
        lowest, first = inf, -1
        for i in np.lexsort((rows, least)).tolist():
            if least[i] > lowest or least[i] == inf:
                break
            node = self._pool.nodes[int(rows[i])]
            if node.total < self._gpus:
                continue
            bundle, cost = self._cheapest(node)
            if cost < lowest or (cost == lowest < inf and node.index < first):
                found, lowest, first = bundle, cost, node.index
        return found, lowest

    def _cheapest(self, node: Node) -> tuple[list[int], float]:
        """Returns the cheapest runs that make room for one more pod on the node: best by what is freed so far."""
        row, spot = node.index, self._spot
        free = {name: column[row : row + 1] for name, column in self._free.items()}
        pods = self._room(free)[0] + 1
        short = {name: pods * asked - float(free[name][0]) for name, asked in self._asked.items()}
        wanted = [(name, missing) for name, missing in short.items() if missing > SLACK]
        runs = [cell for cell, n in enumerate(spot.cells[row].tolist()) if n and self._cost[n] < inf]
        best: dict[tuple[float, ...], tuple[float, list[int]]] = {(0.0,) * len(wanted): (0.0, [])}
        for cell in sorted(runs, key=lambda cell: spot.index(spot.cells[row, cell])):
            number = int(spot.cells[row, cell])
            held = [float(spot.held[name][row, cell]) for name, _ in wanted]
            for freed, (cost, those) in sorted(best.items(), reverse=True)[:MOST_SETS]:
                then = tuple(
                    [w if f + h >= w - SLACK else f + h for f, h, (_, w) in zip(freed, held, wanted, strict=True)]
                )
                if cost + self._cost[number] < best.get(then, (inf,))[0]:
                    best[then] = (float(cost + self._cost[number]), [*those, number])
        goal = tuple(missing for _, missing in wanted)
        enough = [known for freed, known in best.items() if freed == goal and known[1]]
        cost, bundle = min(enough, key=lambda known: known[0], default=(inf, []))
        return bundle, cost

    # -- not needed after all ----------------------------------------------------------------------

    def _needed(self, chosen: dict[int, float]) -> list[Run]:
        """Returns the victims without those that can be spared after all, highest priority and dearest first."""
        spare = -self._missing
        kept = dict(chosen)
        for number in sorted(chosen, key=lambda n: (-self._urgency[n], -chosen[n], self._spot.index(n))):
            rows = self._rows_of(number)
            before = self._room({name: column[rows] for name, column in self._free.items()}).sum()
            self._move(number, -1)
            lost = int(before - self._room({name: column[rows] for name, column in self._free.items()}).sum())
            if lost <= spare:
                spare -= lost
                del kept[number]
            else:
                self._move(number, 1)
        return [run for number in kept if (run := self._spot.runs[number]) is not None]
