"""Whom `gfs-plus` evicts for a whole HP gang: few spot tasks that together make room for all its pods.

The paper takes one pod after the other and for each the cheapest node; ten pods then cost ten small tasks where
one gang on ten nodes would do. Here the cost of the whole set counts, with the paper's formula: a victim weighs
what it adds to the broken share of guarantee periods, plus beta times its waste. Victims are taken by weight a pod
that they make room for, until all pods fit; then those that are not needed after all are spared, heaviest first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.ports import Victims
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.execution import since_checkpoint
from gfs.domain.task import Task
from gfs.policies.gfs.preemption import GfsPreemptor

MOST_CANDIDATES = 512
"""Spot runs that are weighed against one another, the largest ones: the cost of a choice has a bound."""


class Weights(NamedTuple):
    """What a victim costs."""

    eviction: float
    """One more broken guarantee period."""
    waste: float
    """A GPU-second thrown away."""

    def of(self, run: Run, now: float) -> float:
        """The weight of one victim."""
        return self.eviction + self.waste * run.waste(now)


class GangPreemptor(Listener):
    """The paper's preemptor for a pod, a choice for all of them together for a gang."""

    def __init__(self, state: PoolState, *, beta: float = 0.5, period: float) -> None:
        self._ledger = state.ledger
        self._waste_weight = beta / (max(state.pool.capacity, 1) * period)
        self._single = GfsPreemptor(state, beta=beta, period=period)
        self._runs: dict[float, list[tuple[int, Run]]] = {}
        """GPUs -> (task index, spot run) of those that hold so many, sorted."""
        for run in state.runs.values():
            if run.task.is_spot:
                self.spot_held(run)
        state.listen(self)

    def spot_held(self, run: Run) -> None:
        """A spot run now holds its cards."""
        insort(self._runs.setdefault(run.task.gpus, []), (run.task.index, run))

    def spot_released(self, run: Run) -> None:
        """A spot run no longer holds its cards."""
        alike = self._runs[run.task.gpus]
        del alike[bisect_left(alike, (run.task.index,))]
        if not alike:
            del self._runs[run.task.gpus]

    def choose(self, task: Task, now: float) -> Victims | None:
        """The node and victims for one more pod of an HP task, or None if no eviction helps."""
        return self._single.choose(task, now)

    def choose_gang(self, task: Task, pods: int, now: float) -> Victims | None:
        """Victims for so many pods at once; None if this search finds none (then pod by pod may still do)."""
        if not task.cards:
            return None
        search = GangSearch(task.cards, pods, self.weights(now), now)
        runs = search.victims(self._candidates())
        if runs is None:
            return None
        said = f"chosen for {pods} pods at once" if pods > 1 else "least loss"
        return Victims(None, runs, said)

    def runs(self) -> list[Run]:
        """All spot runs, largest first."""
        return [run for gpus in sorted(self._runs, reverse=True) for _, run in self._runs[gpus]]

    def weights(self, now: float) -> Weights:
        """What a victim costs at the moment."""
        broken, kept = self._ledger.totals(now)
        periods = broken + kept
        more = (broken + 1) / (periods + 1) - (broken / periods if periods else 0.0)
        return Weights(more, self._waste_weight)

    def _candidates(self) -> list[Run]:
        """The largest spot runs."""
        found: list[Run] = []
        for gpus in sorted(self._runs, reverse=True):
            found += [run for _, run in self._runs[gpus]]
            if len(found) >= MOST_CANDIDATES:
                break
        return found[:MOST_CANDIDATES]


class GangSearch:
    """Looks for few and cheap victims that make room for pods of `cards` cards each.

    What a candidate makes room for is worked out when its turn comes: most are never looked at closely.
    """

    def __init__(self, cards: int, pods: int, weights: Weights, now: float) -> None:
        self._cards = cards
        self._missing = pods
        self._weights = weights
        self._now = now
        self._free: dict[Node, int] = {}
        """Node -> idle cards, those of the victims so far included."""
        self._held: dict[Run, dict[Node, int]] = {}
        """Candidate -> the cards that it holds on each node, for those looked at closely."""
        self._weight: dict[Run, float] = {}
        """Candidate -> its weight."""

    def victims(self, candidates: list[Run]) -> list[Run] | None:
        """Whom to evict, or None if evicting all candidates would not do."""
        weights = self._weights
        heap = self._weigh(candidates)
        chosen: dict[Run, None] = {}
        while self._missing > 0:
            if not heap:
                return None
            price, index, run = heappop(heap)
            if run in chosen:
                continue
            exact = self._price(run)
            if exact > price:  # it was only a bound, or less is missing than when it was weighed
                heappush(heap, (exact, index, run))
                continue
            taken = [run]
            if exact > 2 * weights.eviction:  # several on one node may be cheaper
                bundle, weight = self._bundle(chosen)
                if weight < exact:
                    heappush(heap, (exact, index, run))
                    taken = bundle
                elif exact == inf:
                    return None
            for victim in taken:
                self._take(victim, chosen)
            for victim in taken:
                self._reprice(victim, heap, chosen)
        return self._needed(chosen)

    def _weigh(self, candidates: list[Run]) -> list[tuple[float, int, Run]]:
        """Note all weights; a heap of the candidates by what their price is not below.

        On each node a run makes room for one pod more than would fill what it holds there, at most.
        """
        eviction, waste = self._weights
        weight, now, cards, missing = self._weight, self._now, self._cards, self._missing
        heap = []
        for run in candidates:
            task = run.task
            lost = since_checkpoint(run.progress_from, task.checkpoint_interval, now)
            weight[run] = price = eviction + waste * (task.gpus * lost)  # `Weights.of`, without its calls
            if missing > 1:
                most = task.cards * task.pods // cards + len(run.places)
                price /= most if most < missing else missing
            heap.append((price, task.index, run))
        heapify(heap)
        return heap

    def _cards_of(self, run: Run) -> dict[Node, int]:
        """The cards it holds on each node, but not on divided ones: there it is hard to say what gets free."""
        held = self._held.get(run)
        if held is None:
            held = self._held[run] = {}
            free = self._free
            for node, _, cards in run.places:
                if cards and not node.shares:
                    held[node] = held.get(node, 0) + cards
                    if node not in free:
                        free[node] = node.idle
        return held

    def _gain(self, run: Run) -> int:
        """Pods that there would be room for without this run."""
        cards, free = self._cards, self._free
        gain = 0
        for node, held in self._cards_of(run).items():
            idle = free[node]
            gain += (idle + held) // cards - idle // cards
        return gain

    def _price(self, run: Run) -> float:
        """Weight per pod that it makes room for; endless if for none."""
        gain = min(self._gain(run), self._missing)
        return self._weight[run] / gain if gain else inf

    def _take(self, run: Run, chosen: dict[Run, None]) -> None:
        self._missing -= self._gain(run)
        for node, held in self._held[run].items():
            self._free[node] += held
        chosen[run] = None

    def _reprice(self, gone: Run, heap: list[tuple[float, int, Run]], chosen: dict[Run, None]) -> None:
        """Neighbours of a victim may now make room for more."""
        for node in self._held[gone]:
            for run in self._on(node, chosen):
                heappush(heap, (self._price(run), run.task.index, run))

    def _on(self, node: Node, chosen: dict[Run, None]) -> list[Run]:
        """The candidates on a node that are not victims yet."""
        return [run for run in node.spot if run in self._weight and run not in chosen and node in self._cards_of(run)]

    def _bundle(self, chosen: dict[Run, None]) -> tuple[list[Run], float]:
        """The cheapest runs of one node that together make room for one more pod there, and their weight."""
        found: list[Run] = []
        lowest, first = inf, -1
        for node in {node: None for run in self._weight for node in self._cards_of(run)}:
            left = self._on(node, chosen)
            if node.total < self._cards or len(left) < 2:
                continue
            bundle, weight = self._lightest(node, left, self._cards - self._free[node] % self._cards)
            if weight < lowest or (weight == lowest < inf and node.index < first):
                found, lowest, first = bundle, weight, node.index
        return found, lowest

    def _lightest(self, node: Node, runs: list[Run], wanted: int) -> tuple[list[Run], float]:
        """The lightest of these runs that hold `wanted` cards on the node, exactly: best by cards freed so far."""
        best: list[tuple[float, list[Run]]] = [(0.0, []), *[(inf, [])] * wanted]
        for run in sorted(runs, key=lambda r: r.task.index):
            held, weight = self._held[run][node], self._weight[run]
            for freed in range(wanted - 1, -1, -1):
                so_far, those = best[freed]
                then = min(freed + held, wanted)
                if so_far + weight < best[then][0]:
                    best[then] = (so_far + weight, [*those, run])
        weight, bundle = best[wanted]
        return bundle, weight

    def _needed(self, chosen: dict[Run, None]) -> list[Run]:
        """The victims without those that can be spared after all, heaviest first."""
        spare = -self._missing
        kept = dict(chosen)
        for run in sorted(chosen, key=lambda r: (-self._weight[r], r.task.index)):
            lost = sum(
                self._free[node] // self._cards - (self._free[node] - held) // self._cards
                for node, held in self._held[run].items()
            )
            if lost <= spare:
                spare -= lost
                del kept[run]
                for node, held in self._held[run].items():
                    self._free[node] -= held
        return list(kept)
