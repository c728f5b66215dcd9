"""Lyra (EuroSys'23): spot tasks run on whole nodes that HP lends and takes back (docs/schedulers/lyra.md).

A node with a spot pod is on loan. A node without any pod can be lent, or taken by HP. A node with an HP pod is in use
by HP. So no node ever holds pods of both classes, and the idle cards of a node on loan are not for HP before the whole
node has been returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import lcm

from gfs.core.index import NodeIndex, Rank
from gfs.core.lazy_heap import LazyHeap
from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Placer, Preemptor, Victims
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.task import Priority, Role

Ranks = tuple[Rank, Rank]
"""The same node seen by HP and by spot tasks: 0 if it may have pods of that class, else None."""

EMPTY: Ranks = (0, 0)
USED_BY_HP: Ranks = (0, None)
ON_LOAN: Ranks = (None, 0)

REFUSED = {Priority.HP: ON_LOAN, Priority.SPOT: USED_BY_HP}
WHY_REFUSED = {Priority.HP: "on loan to spot tasks", Priority.SPOT: "in use by HP, not on loan"}


def ranks_of(hp_cards: int, spot_cards: int) -> Ranks:
    """Which classes a node with these cards in use is for."""
    if hp_cards:
        return USED_BY_HP
    return ON_LOAN if spot_cards else EMPTY


class LoanPlacer(Placer):
    """Best fit (the fewest idle cards that suffice, ties by node id) among the nodes of the task's class."""

    fills_up = True  # a pod leaves its node with fewer idle cards, and still of the task's class

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._index = NodeIndex(pool, views=len(Priority))
        bucket = self._bucket = self._index.bucket
        self._index.follow(
            plain=lambda size, idle, hp: bucket(idle, 0, ranks_of(hp, size - idle - hp)),
            special=lambda node: bucket(node.idle, node.room, self._ranks_of(node)),
        )

    def _ranks_of(self, node: Node) -> Ranks:
        return ranks_of(node.hp_cards, node.spot_cards)

    def choose(self, role: Role) -> Node | None:
        """The node for one more pod of the task, or None."""
        return self._index.choose(role, role.priority)

    def ranked(self, role: Role) -> Iterator[Node]:
        """The nodes with cards for one more pod of the task, best first."""
        return self._index.ranked(role, role.priority)

    def best_of(self, role: Role, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod; None if it refuses them."""
        return self._index.best_of(nodes, role.priority)

    def closed(self, role: Role) -> tuple[int, str]:
        """Nodes with room for a pod of the task that belong to the other class, and whose they are."""
        refused, least = REFUSED[role.priority], max(role.cards, 1)
        nodes = sum(len(self._bucket(idle, 0, refused).nodes) for idle in range(least, self.pool.sizes[-1] + 1))
        if role.share:
            for node in self.pool.divided:
                with_room = not node.idle and node.room >= role.share
                nodes += with_room and self._ranks_of(node) == refused
        return nodes, WHY_REFUSED[role.priority]


Entry = tuple[int, int, int]
"""(preemption cost, victims, position of the node): the order in which nodes are taken back."""


class _Home(dict[Entry, LazyHeap[Entry]]):
    """Which entries count, and in which heap they are."""

    def __missing__(self, entry: Entry) -> None:
        return None


class ReclaimPreemptor(Listener, Preemptor):
    """The node on loan with the lowest preemption cost that is large enough: it is returned whole.

    Every spot task with a pod there is evicted, from all its nodes. The cost of a node is the sum over its spot tasks
    of 1 / (number of nodes the task spans), ties by fewer victims, then node id. An HP gang asks again after each node:
    the other nodes of an evicted gang are empty or cheaper then. So the cheapest *set* of nodes is approximated.
    Costs are exact: whole numbers of a unit that every 1 / (number of nodes) met so far is a multiple of; a number that
    needs a finer unit is met a few times in a run, and then every node on loan is entered again.
    It relies on `LoanPlacer`: a node on loan has no HP pod.
    """

    whole_nodes = True

    def __init__(self, state: PoolState) -> None:
        pool = self._pool = state.pool
        self._nodes = pool.nodes
        self._parts = 1
        """A cost of 1 is so many units."""
        self._span: dict[Run, int] = {}
        """Spot run -> number of nodes it spans."""
        self._stale: set[Node] = set()
        """Nodes whose spot tasks have changed since the last question."""
        self._entry: list[Entry | None] = [None] * len(pool.nodes)
        """The entry that counts for a node; None: not on loan."""
        self._on_loan: dict[int, LazyHeap[Entry]] = {size: LazyHeap() for size in pool.sizes}
        """Cards of a node -> the entries of such nodes on loan."""
        self._home = _Home()
        for run in state.runs.values():
            if run.task.is_spot:
                self.spot_held(run)
        state.listen(self)

    def spot_held(self, run: Run) -> None:
        """A spot run now holds its cards."""
        nodes = run.nodes
        self._span[run] = span = len(nodes)
        self._stale.update(nodes)
        if self._parts % span:
            self._parts = lcm(self._parts, span)
            self._stale.update(node for node in self._nodes if self._entry[node.index])

    def spot_released(self, run: Run) -> None:
        """A spot run no longer holds its cards."""
        del self._span[run]
        self._stale.update(run.nodes)

    def cost(self, runs: Collection[Run], now: float) -> float:
        """Returns the preemption cost of these runs."""
        return sum(1 / len(run.nodes) for run in runs)

    def choose(self, role: Role, now: float) -> Victims | None:
        """The cheapest node on loan that could hold the pod, and everyone on it."""
        self._refresh()
        best, candidates = None, 0
        for size, heap in self._on_loan.items():
            if size >= role.cards and heap.count:
                candidates += heap.count
                first = self._first(heap, role)
                if first is not None and (best is None or first < best):
                    best = first
        if best is None:
            return None
        node = self._nodes[best[2]]
        everyone = sorted(node.spot, key=lambda run: run.task.index)
        one = "only node on loan that suffices"
        return Victims(node, everyone, f"cheapest of {candidates} nodes on loan" if candidates > 1 else one)

    def _first(self, heap: LazyHeap[Entry], role: Role) -> Entry | None:
        """The cheapest entry of a node that takes the task."""
        if self._pool.by_gpus_alone(role):
            return heap.first(self._home)
        rising = heap.rising(self._home)
        return next((entry for entry in rising if self._pool.could_hold(self._nodes[entry[2]], role)), None)

    def _refresh(self) -> None:
        """Bring the entries of the stale nodes up to date."""
        parts, spans, entries, home = self._parts, self._span, self._entry, self._home
        for node in self._stale:
            if node.closed:
                continue
            i, heap = node.index, self._on_loan[node.total]
            old, new = entries[i], None
            if node.spot_cards:  # pods without GPUs do not put a node on loan
                new = (sum(parts // spans[run] for run in node.spot), len(node.spot), i)
            if new != old:
                entries[i] = new
                if old is not None:
                    heap.count -= 1
                    del home[old]
                if new is not None:
                    home[new] = heap
                    heap.push(new, home)
        self._stale.clear()
