"""Which spot runs `gfs-plus` evicts for a whole HP gang: few that together make room for all its pods.

The paper takes one pod after the other and for each the cheapest node; ten pods then cost ten small tasks where
one gang on ten nodes would do. Here the weight of the whole set counts: a victim weighs 1 for one more eviction, plus
beta for every 1.5 GPU-hours that it wastes; more if it was evicted often. Victims are taken by weight a pod that they
make room for, until all pods fit; then those that are not needed after all are spared, heaviest first. HP pods come in
waves: GPUs that get free beyond the pods at hand count like pods of the same size, for the next ones find room there.
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
from gfs.domain.task import Role
from gfs.policies.gfs.preemption import MOST_ALTERNATIVES, GfsPreemptor
from gfs.policies.gfs.spot_table import NOBODY, Counts, Floats, SpotTable

EVICTION_GPU_SECONDS = 1.5 * 3600.0
"""Wasted GPU time that weighs as much as one more eviction, at beta = 1. In the paper's cost one eviction outweighs
hundreds of GPU-hours; then the tasks that lose most go (docs/concepts/gfs-plus.md)."""
OFTEN, SPARED = 12, 100.0
"""A task that was stopped so often weighs so many times more for each further time: others go while there are any."""
ROUNDING = 1e-12
"""Sums of the same weights in another order differ by less than this share."""
MOST_SETS = 4096
"""Sets of runs of one node that are compared at once, by what they free."""


class Weights(NamedTuple):
    """What a victim costs, in evictions."""

    waste: float
    """A GPU-second thrown away."""

    def of(self, run: Run, now: float) -> float:
        """Returns the weight of one victim."""
        return float(self.of_all(np.array([run.waste(now)]), np.array([float(run.number)]))[0])

    def of_all(self, wasted: Floats, number: Floats) -> Floats:
        """Returns the weights of victims that waste so much and are in this run of theirs."""
        weights: Floats = (1.0 + self.waste * wasted) * np.maximum(1.0, 1.0 + SPARED * (number - OFTEN))
        return weights


class GangPreemptor(GfsPreemptor):
    """The paper's preemptor for a pod, a choice for all of them together for a gang."""

    def __init__(self, state: PoolState, *, beta: float = 0.5, period: float, tell: bool = False) -> None:
        """`tell`: its choices say what else was weighed."""
        super().__init__(state, beta=beta, period=period, tell=tell)
        self.weights = Weights(beta / EVICTION_GPU_SECONDS)

    def cost(self, runs: Collection[Run], now: float) -> float:
        """Returns the weight of these victims."""
        return sum(self.weights.of(run, now) for run in runs)

    def choose_gang(self, role: Role, pods: int, now: float) -> Victims | None:
        """Returns victims for so many pods at once; None if this search finds none (then pod by pod may still do)."""
        if not role.cards or any(not each.by_spec for each, _ in self._pool.filters_of(role)):
            return None
        spot = self.spot
        levels = np.unique(spot.urgency[spot.cells])  # the lowest priorities go first
        searches = (GangSearch(self._pool, spot, role, pods, self.weights, now, level) for level in levels.tolist())
        runs = next((runs for search in searches if (runs := search.victims()) is not None), None)
        if runs is None:
            return None
        said = f"chosen for {pods} pods at once" if pods > 1 else "least loss"
        told: tuple[Alternative, ...] = ()
        if self._tell:
            told = GangSearch(self._pool, spot, role, pods, self.weights, now).alternatives(runs)
        return Victims(None, runs, said, told)


class GangSearch:
    """Looks for few and cheap victims that make room for pods, among all spot runs of a pool."""

    def __init__(
        self,
        pool: Pool,
        spot: SpotTable,
        role: Role,
        pods: int,
        weights: Weights,
        now: float,
        most_urgent: float = inf,
    ) -> None:
        """`most_urgent`: runs with a higher priority stay."""
        self._pool = pool
        self._spot = spot
        self._gpus = role.cards
        self._pods = self._missing = pods
        self._now = now
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
        size = len(spot.runs)
        self._weight = np.full(len(spot.urgency), inf)
        self._weight[1:size] = weights.of_all(spot.waste(now)[1:size], spot.run_number[1:size])
        self._weight[spot.urgency[: len(self._weight)] > most_urgent] = inf
        """Number of a run -> its weight; infinity for victims and runs that stay."""
        self._gain = np.zeros(len(self._weight))
        """Number of a run -> pods that there would be room for if it went too."""
        self._freed = np.zeros(len(self._weight))
        """Number of a run -> GPUs that would get free for HP pods, these or the next."""
        self._count(self._usable, 1)

    def victims(self) -> list[Run] | None:
        """Returns the runs to evict, or None if evicting all would not do."""
        chosen: dict[int, float] = {}
        while self._missing > 0:
            prices = self._prices()
            price = float(prices.min())
            equal = np.flatnonzero(prices == price)
            taken = [min(equal.tolist(), key=self._spot.index) if price < inf else NOBODY]
            if price > 2:  # several on one node may be cheaper
                bundle, weight = self._bundle()
                if weight < price:
                    taken = bundle
                elif price == inf:
                    return None
            for number in taken:
                self._missing -= int(self._gain[number])
                self._move(number, 1)
                chosen[number], self._weight[number] = float(self._weight[number]), inf
        return self._needed(chosen)

    def alternatives(self, chosen: list[Run]) -> tuple[Alternative, ...]:
        """Returns the runs that were chosen, then the cheapest others, each alone; before any search."""

        def told(runs: list[Run], cost: float) -> Alternative:
            waste = sum(run.waste(self._now) for run in runs)
            return Alternative(runs[0].nodes[0].name, tuple(run.task for run in runs), cost, waste, runs is chosen)

        prices, spot = self._prices(), self._spot
        numbers = [spot.number(run) for run in chosen]
        room = max(self._missing, float(self._freed[numbers].sum()) / self._gpus)
        finite = np.flatnonzero(prices < inf).tolist()
        ranked = sorted([n for n in finite if [n] != numbers], key=lambda n: (prices[n], spot.index(n)))
        others = [(run, float(prices[n])) for n in ranked[: MOST_ALTERNATIVES - 1] if (run := spot.runs[n])]
        taken = told(chosen, float(self._weight[numbers].sum()) / room)
        return (taken, *(told([run], price) for run, price in others))

    def _prices(self) -> Floats:
        """Returns, by number, the weight a pod, of those that then fit or of such as could have the GPUs it frees."""
        gain = np.minimum(self._gain, self._missing)
        room = np.maximum(gain, self._freed / self._gpus)
        return np.where(gain > 0, self._weight / np.maximum(room, 1e-9), inf)

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
        """Returns the cheapest runs of one node that together make room for one more pod there, and their weight."""
        rows = self._usable
        free = self._free[GPUS][rows]
        missing = (np.maximum(free, 0) // self._gpus + 1) * self._gpus - free
        beside = np.maximum(1, (self._spot.most_held[GPUS][rows] < missing[:, None]).sum(axis=1))  # one more must go
        lightest = np.sort(self._weight[self._spot.cells[rows]], axis=1).cumsum(axis=1) * (1 - ROUNDING)
        last = lightest.shape[1] - 1
        least = np.where(beside > last, inf, lightest[np.arange(len(rows)), np.minimum(beside, last)])
        found: list[int] = []
        lowest, first = inf, -1
        for i in np.lexsort((rows, least)).tolist():
            if least[i] > lowest or least[i] == inf:
                break
            node = self._pool.nodes[int(rows[i])]
            if node.total < self._gpus:
                continue
            bundle, weight = self._lightest(node)
            if weight < lowest or (weight == lowest < inf and node.index < first):
                found, lowest, first = bundle, weight, node.index
        return found, lowest

    def _lightest(self, node: Node) -> tuple[list[int], float]:
        """Returns the lightest runs that make room for one more pod on the node: best by what is freed so far."""
        row, spot = node.index, self._spot
        free = {name: column[row : row + 1] for name, column in self._free.items()}
        pods = self._room(free)[0] + 1
        short = {name: pods * asked - float(free[name][0]) for name, asked in self._asked.items()}
        wanted = [(name, missing) for name, missing in short.items() if missing > SLACK]
        runs = [cell for cell, n in enumerate(spot.cells[row].tolist()) if n and self._weight[n] < inf]
        best: dict[tuple[float, ...], tuple[float, list[int]]] = {(0.0,) * len(wanted): (0.0, [])}
        for cell in sorted(runs, key=lambda cell: spot.index(spot.cells[row, cell])):
            number = int(spot.cells[row, cell])
            held = [float(spot.held[name][row, cell]) for name, _ in wanted]
            for freed, (weight, those) in sorted(best.items(), reverse=True)[:MOST_SETS]:
                then = tuple(
                    [w if f + h >= w - SLACK else f + h for f, h, (_, w) in zip(freed, held, wanted, strict=True)]
                )
                if weight + self._weight[number] < best.get(then, (inf,))[0]:
                    best[then] = (float(weight + self._weight[number]), [*those, number])
        goal = tuple(missing for _, missing in wanted)
        enough = [known for freed, known in best.items() if freed == goal and known[1]]
        weight, bundle = min(enough, key=lambda known: known[0], default=(inf, []))
        return bundle, weight

    # -- not needed after all ----------------------------------------------------------------------

    def _needed(self, chosen: dict[int, float]) -> list[Run]:
        """Returns the victims without those that can be spared after all, heaviest first."""
        spare = -self._missing
        kept = dict(chosen)
        for number in sorted(chosen, key=lambda n: (-chosen[n], self._spot.index(n))):
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
