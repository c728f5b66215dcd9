"""Whom `gfs-plus` evicts for a whole HP gang: few spot tasks that together make room for all its pods.

The paper takes one pod after the other and for each the cheapest node; ten pods then cost ten small tasks where
one gang on ten nodes would do. Here the weight of the whole set counts: a victim weighs 1 for one more eviction, plus
beta for every 1.5 GPU-hours that it wastes; more if it was evicted often. Victims are taken by weight a pod that they
make room for, until all pods fit; then those that are not needed after all are spared, heaviest first. HP pods come in
waves: cards that get free beyond the pods at hand count like pods of the same size, for the next ones find room there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Collection
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.pool import Pool, admits
from gfs.core.ports import Victims
from gfs.core.reasons import Alternative
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.execution import PROGRESS_EPS
from gfs.domain.task import Task
from gfs.policies.gfs.preemption import MOST_ALTERNATIVES, GfsPreemptor

Floats = npt.NDArray[np.float64]

MOST_CANDIDATES = 512
"""Spot runs that are weighed against one another, the largest ones: the cost of a choice has a bound."""


MOST_TOLD = 64
"""Of these, the ones whose price alone is worked out where alternatives are told."""
EVICTION_GPU_SECONDS = 1.5 * 3600.0
"""Wasted GPU time that weighs as much as one more eviction, at beta = 1. In the paper's cost one eviction outweighs
hundreds of GPU-hours; then the tasks that lose most go (docs/concepts/gfs-plus.md)."""
OFTEN, SPARED = 12, 100.0
"""A task that was stopped so often weighs so many times more for each further time: others go while there are any."""


class Weights(NamedTuple):
    """What a victim costs, in evictions."""

    waste: float
    """A GPU-second thrown away."""

    def of(self, run: Run, now: float) -> float:
        """The weight of one victim."""
        return float(self.of_all(np.array([run.waste(now)]), np.array([run.number]))[0])

    def of_all(self, wasted: Floats, number: npt.NDArray[np.int_]) -> Floats:
        """The weights of victims that waste so much and are in this run of theirs."""
        weights: Floats = (1.0 + self.waste * wasted) * np.maximum(1.0, 1.0 + SPARED * (number - OFTEN))
        return weights


class GangPreemptor(Listener):
    """The paper's preemptor for a pod, a choice for all of them together for a gang."""

    def __init__(self, state: PoolState, *, beta: float = 0.5, period: float, tell: bool = False) -> None:
        """`tell`: its choices say what else was weighed."""
        self._pool = state.pool
        self._tell = tell
        self.weights = Weights(beta / EVICTION_GPU_SECONDS)
        self._single = GfsPreemptor(state, beta=beta, period=period, tell=tell)
        self._largest_first: list[tuple[float, int, Run]] = []
        """(GPUs below 0, task index, run) of all spot runs, sorted."""
        for run in state.runs.values():
            if run.task.is_spot:
                self.spot_held(run)
        state.listen(self)

    def spot_held(self, run: Run) -> None:
        """A spot run now holds its cards."""
        insort(self._largest_first, (-run.task.gpus, run.task.index, run))

    def spot_released(self, run: Run) -> None:
        """A spot run no longer holds its cards."""
        del self._largest_first[bisect_left(self._largest_first, (-run.task.gpus, run.task.index))]

    def choose(self, task: Task, now: float) -> Victims | None:
        """The node and victims for one more pod of an HP task, or None if no eviction helps."""
        return self._single.choose(task, now)

    def choose_gang(self, task: Task, pods: int, now: float) -> Victims | None:
        """Victims for so many pods at once; None if this search finds none (then pod by pod may still do)."""
        if not task.cards:
            return None
        candidates = [run for _, _, run in self._largest_first[:MOST_CANDIDATES]]
        runs = self._search(task, pods, now).victims(candidates)
        if runs is None:
            return None
        said = f"chosen for {pods} pods at once" if pods > 1 else "least loss"
        told = self._search(task, pods, now).alternatives(candidates, runs) if self._tell else ()
        return Victims(None, runs, said, told)

    def _search(self, task: Task, pods: int, now: float) -> GangSearch:
        if self._pool.plain(task):
            return CardSearch(task.cards, pods, self.weights, now)
        return ResourceSearch(self._pool, task, pods, self.weights, now)

    def runs(self) -> list[Run]:
        """All spot runs, largest first."""
        return [run for _, _, run in self._largest_first]


class GangSearch(ABC):
    """Looks for few and cheap victims that make room for pods.

    What a candidate makes room for is worked out when its turn comes: most are never looked at closely.
    """

    by_cards = True
    """Whether the cards that a candidate holds say how many pods it can make room for at most."""

    def __init__(self, cards: int, pods: int, weights: Weights, now: float) -> None:
        self._cards = cards
        self._missing = pods
        self._weights = weights
        self._now = now
        self._weight: dict[Run, float] = {}
        """Candidate -> its weight."""

    # -- what counts as room -----------------------------------------------------------------------

    @abstractmethod
    def _nodes_of(self, run: Run) -> Collection[Node]:
        """The nodes where something gets free for the pods if the run goes."""

    @abstractmethod
    def _gain(self, run: Run) -> int:
        """Pods that there would be room for if this run went too."""

    @abstractmethod
    def _freed(self, run: Run) -> int:
        """Cards that get free for HP pods, these or the next, if this run goes."""

    @abstractmethod
    def _loss(self, run: Run) -> int:
        """Pods that there would be no room for if this victim stayed."""

    @abstractmethod
    def _let_go(self, run: Run) -> None:
        """What the run holds is free from now on."""

    @abstractmethod
    def _keep(self, run: Run) -> None:
        """Undo `_let_go`."""

    @abstractmethod
    def _lightest(self, node: Node, runs: list[Run]) -> tuple[list[Run], float]:
        """The lightest of these runs that make room for one more pod on the node, and their weight."""

    # -- the search --------------------------------------------------------------------------------

    def victims(self, candidates: list[Run]) -> list[Run] | None:
        """Whom to evict, or None if evicting all candidates would not do."""
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
            if exact > 2:  # several on one node may be cheaper
                bundle, weight = self._bundle(chosen)
                if weight < exact:
                    heappush(heap, (exact, index, run))
                    taken = bundle
                elif exact == inf:
                    return None
            for victim in taken:
                self._missing -= self._gain(victim)
                self._let_go(victim)
                chosen[victim] = None
            for victim in taken:
                self._reprice(victim, heap, chosen)
        return self._needed(chosen)

    def alternatives(self, candidates: list[Run], chosen: list[Run]) -> tuple[Alternative, ...]:
        """Who was chosen and what that costs a pod, then the cheapest others, each alone; before any search."""

        def told(runs: list[Run], cost: float) -> Alternative:
            waste = sum(run.waste(self._now) for run in runs)
            return Alternative(runs[0].nodes[0].name, tuple(run.task for run in runs), cost, waste, runs is chosen)

        heap, pods = self._weigh(candidates), self._missing
        others = [(self._price(run), index, run) for _, index, run in heap[:MOST_TOLD] if [run] != chosen]
        cheapest = sorted(each for each in others if each[0] < inf)[: MOST_ALTERNATIVES - 1]
        room = max(pods, sum(self._freed(run) for run in chosen) / self._cards)
        taken = told(chosen, sum(self._weight[run] for run in chosen) / room)
        return (taken, *(told([run], price) for price, _, run in cheapest))

    def _weigh(self, candidates: list[Run]) -> list[tuple[float, int, Run]]:
        """Note all weights; a heap of the candidates by what their price is not below.

        On each node a run makes room for one pod more than would fill what it holds there, at most.
        """
        tasks = [run.task for run in candidates]
        index = [task.index for task in tasks]
        gpus = np.array([task.gpus for task in tasks])
        interval = np.array([task.checkpoint_interval for task in tasks])
        begun = np.array([run.progress_from for run in candidates])
        wasted = gpus * all_since_checkpoint(begun, interval, self._now)
        weight = self._weights.of_all(wasted, np.array([run.number for run in candidates]))
        self._weight = dict(zip(candidates, weight.tolist(), strict=True))
        held = np.array([task.cards * task.pods for task in tasks])
        pods = np.full(len(tasks), self._missing)
        if self.by_cards:
            pods = np.minimum(pods, held // self._cards + np.array([len(run.places) for run in candidates]))
        price = weight / np.maximum(pods, held / self._cards)
        ranks = np.lexsort((np.array(index), price)).tolist()
        prices = price.tolist()
        return [(prices[i], index[i], candidates[i]) for i in ranks]

    def _price(self, run: Run) -> float:
        """Weight a pod, of those that then fit or of such as could have the cards it frees; endless if none fits."""
        gain = min(self._gain(run), self._missing)
        return self._weight[run] / max(gain, self._freed(run) / self._cards) if gain > 0 else inf

    def _reprice(self, gone: Run, heap: list[tuple[float, int, Run]], chosen: dict[Run, None]) -> None:
        """Neighbours of a victim may now make room for more."""
        for node in self._nodes_of(gone):
            for run in self._on(node, chosen):
                heappush(heap, (self._price(run), run.task.index, run))

    def _on(self, node: Node, chosen: dict[Run, None]) -> list[Run]:
        """The candidates on a node that are not victims yet."""
        return [run for run in node.spot if run in self._weight and run not in chosen and node in self._nodes_of(run)]

    def _bundle(self, chosen: dict[Run, None]) -> tuple[list[Run], float]:
        """The cheapest runs of one node that together make room for one more pod there, and their weight."""
        found: list[Run] = []
        lowest, first = inf, -1
        for node in {node: None for run in self._weight for node in self._nodes_of(run)}:
            left = self._on(node, chosen)
            if node.total < self._cards or len(left) < 2:
                continue
            bundle, weight = self._lightest(node, left)
            if weight < lowest or (weight == lowest < inf and node.index < first):
                found, lowest, first = bundle, weight, node.index
        return found, lowest

    def _needed(self, chosen: dict[Run, None]) -> list[Run]:
        """The victims without those that can be spared after all, heaviest first."""
        spare = -self._missing
        kept = dict(chosen)
        for run in sorted(chosen, key=self._heaviest_first):
            lost = self._loss(run)
            if lost <= spare:
                spare -= lost
                del kept[run]
                self._keep(run)
        return list(kept)

    def _heaviest_first(self, run: Run) -> tuple[float, int]:
        return -self._weight[run], run.task.index


class CardSearch(GangSearch):
    """Where only cards count."""

    def __init__(self, cards: int, pods: int, weights: Weights, now: float) -> None:
        super().__init__(cards, pods, weights, now)
        self._free: dict[Node, int] = {}
        """Node -> idle cards, those of the victims so far included; below 0 while more are held than there are."""
        self._held: dict[Run, dict[Node, int]] = {}
        """Candidate -> the cards that it holds on each node, for those looked at closely."""

    def _nodes_of(self, run: Run) -> dict[Node, int]:
        """The cards it holds on each node, but not on divided ones: there it is hard to say what gets free."""
        held = self._held.get(run)
        if held is None:
            held = self._held[run] = {}
            free = self._free
            for node, _, cards in run.places:
                if cards and not node.shares:
                    held[node] = held.get(node, 0) + cards
                    if node not in free:
                        free[node] = node.idle - node.surplus
        return held

    def _gain(self, run: Run) -> int:
        cards, free = self._cards, self._free
        gain = 0
        for node, held in self._nodes_of(run).items():
            idle = free[node]
            if idle < 0:
                gain += max(idle + held, 0) // cards
            else:
                gain += (idle + held) // cards - idle // cards
        return gain

    def _freed(self, run: Run) -> int:
        free = self._free
        return sum(max(held + min(free[node], 0), 0) for node, held in self._nodes_of(run).items())

    def _loss(self, run: Run) -> int:
        cards, free = self._cards, self._free
        return sum(
            max(free[node], 0) // cards - max(free[node] - held, 0) // cards for node, held in self._held[run].items()
        )

    def _let_go(self, run: Run) -> None:
        for node, held in self._held[run].items():
            self._free[node] += held

    def _keep(self, run: Run) -> None:
        for node, held in self._held[run].items():
            self._free[node] -= held

    def _lightest(self, node: Node, runs: list[Run]) -> tuple[list[Run], float]:
        """The lightest of these runs that hold the cards wanted, exactly: best by cards freed so far."""
        free = self._free[node]
        wanted = (max(free, 0) // self._cards + 1) * self._cards - free
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


class ResourceSearch(GangSearch):
    """Where CPUs, memory, pods or a node filter count as well: a victim must free what is short."""

    by_cards = False

    def __init__(self, pool: Pool, task: Task, pods: int, weights: Weights, now: float) -> None:
        super().__init__(task.cards, pods, weights, now)
        self._pool = pool
        self._task = task
        self._free: dict[Node, Amount] = {}
        """Node -> what is free, with what the victims so far hold."""
        self._held: dict[Run, dict[Node, Amount]] = {}
        """Candidate -> what it holds on each node that the task may use, for those looked at closely."""

    def _nodes_of(self, run: Run) -> dict[Node, Amount]:
        held = self._held.get(run)
        if held is None:
            held = self._held[run] = {}
            task = run.task
            for node, _, cards in run.places:
                if cards and not node.shares and admits(node, self._task):
                    pods = cards // task.cards
                    here = Amount(cards, pods * task.cpus_per_pod, pods * task.memory_per_pod, pods)
                    held[node] = held[node].plus(here) if node in held else here
                    if node not in self._free:
                        self._free[node] = Amount(node.idle - node.surplus, *node.free_resources)
        return held

    def _pods(self, free: Amount) -> int:
        cards, cpus, memory, pods = free
        return int(min(max(cards, 0) // self._cards, self._pool.allowed((cpus, memory, pods), self._task)))

    def _gain(self, run: Run) -> int:
        free = self._free
        return sum(
            self._pods(free[node].plus(here)) - self._pods(free[node]) for node, here in self._nodes_of(run).items()
        )

    def _freed(self, run: Run) -> int:
        free = self._free
        return sum(max(here.cards + min(free[node].cards, 0), 0) for node, here in self._nodes_of(run).items())

    def _loss(self, run: Run) -> int:
        free = self._free
        return sum(
            self._pods(free[node]) - self._pods(free[node].minus(here)) for node, here in self._held[run].items()
        )

    def _let_go(self, run: Run) -> None:
        for node, here in self._held[run].items():
            self._free[node] = self._free[node].plus(here)

    def _keep(self, run: Run) -> None:
        for node, here in self._held[run].items():
            self._free[node] = self._free[node].minus(here)

    def _lightest(self, node: Node, runs: list[Run]) -> tuple[list[Run], float]:
        """Light ones first until a pod fits, then without those that can stay, heaviest first: not always the least."""
        free = self._free[node]
        wanted = self._pods(free) + 1
        bundle: list[Run] = []
        for run in sorted(runs, key=lambda r: (self._weight[r], r.task.index)):
            bundle.append(run)
            free = free.plus(self._held[run][node])
            if self._pods(free) >= wanted:
                break
        else:
            return [], inf
        for run in sorted(bundle, key=self._heaviest_first):
            without = free.minus(self._held[run][node])
            if self._pods(without) >= wanted:
                bundle.remove(run)
                free = without
        return bundle, sum(self._weight[run] for run in bundle)


class Amount(NamedTuple):
    """So much of a node."""

    cards: int
    cpus: float
    memory: float
    pods: float

    def plus(self, other: Amount) -> Amount:
        """Both together."""
        return Amount(
            self.cards + other.cards, self.cpus + other.cpus, self.memory + other.memory, self.pods + other.pods
        )

    def minus(self, other: Amount) -> Amount:
        """What is left without the other."""
        return Amount(
            self.cards - other.cards, self.cpus - other.cpus, self.memory - other.memory, self.pods - other.pods
        )


def all_since_checkpoint(progress_from: Floats, interval: Floats, now: float) -> Floats:
    """`since_checkpoint` of many runs at once, to the last digit."""
    age = now - progress_from
    lost = np.maximum(age - np.floor((age + PROGRESS_EPS) / interval) * interval, 0.0)
    return np.where(age > 0.0, lost, 0.0)
