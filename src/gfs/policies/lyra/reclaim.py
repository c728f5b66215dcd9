"""Which node on loan HP takes back: the one with the lowest preemption cost (docs/schedulers/lyra.md).

A node is returned whole: every spot task with a pod there is evicted, from all its nodes. The cost of a node is
    the sum over its spot tasks of 1 / (number of nodes the task spans),
so a task that would lose little of itself here makes the node cheap, and taking back all nodes of a task costs 1.
The cheapest node that is large enough goes, ties by fewer victims, then node id. An HP gang asks again after each
node: a task that has gone counts nowhere any more, so the other nodes of an evicted gang are empty or cheaper.
That is how the cheapest *set* of nodes is approximated.

Nodes on loan stand in one heap per node size. A node whose spot tasks have changed gets a new entry when the next
question comes; its old one is dropped when it surfaces. Costs are exact: whole numbers of a unit that every
1 / (number of nodes) met so far is a multiple of. A number of nodes that needs a finer unit is met a few times in
a run; then every node on loan is entered again.
"""

from __future__ import annotations

from math import lcm

from gfs.core.lazy_heap import LazyHeap
from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.ports import Victims
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.task import Task
from gfs.policies.displace import could_hold

Entry = tuple[int, int, int]
"""(preemption cost, victims, position of the node): the order in which nodes are taken back."""


class _Home(dict[Entry, LazyHeap[Entry]]):
    """Which entries count, and in which heap they are."""

    def __missing__(self, entry: Entry) -> None:
        return None


class ReclaimPreemptor(Listener):
    """The cheapest node on loan that is large enough. It relies on `LoanPlacer`: such a node has no HP pod."""

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

    def choose(self, task: Task, now: float) -> Victims | None:
        """The cheapest node on loan that could hold the pod, and everyone on it."""
        self._refresh()
        best, candidates = None, 0
        for size, heap in self._on_loan.items():
            if size >= task.cards and heap.count:
                candidates += heap.count
                first = self._first(heap, task)
                if first is not None and (best is None or first < best):
                    best = first
        if best is None:
            return None
        node = self._nodes[best[2]]
        everyone = sorted(node.spot, key=lambda run: run.task.index)
        one = "only node on loan that suffices"
        return Victims(node, everyone, f"cheapest of {candidates} nodes on loan" if candidates > 1 else one)

    def _first(self, heap: LazyHeap[Entry], task: Task) -> Entry | None:
        """The cheapest entry of a node that takes the task."""
        if self._pool.plain(task):
            return heap.first(self._home)
        rising = heap.rising(self._home)
        return next((entry for entry in rising if could_hold(self._pool, self._nodes[entry[2]], task)), None)

    def _refresh(self) -> None:
        """Bring the entries of the stale nodes up to date."""
        parts, spans, entries, home = self._parts, self._span, self._entry, self._home
        for node in self._stale:
            if node.closed:
                continue
            i, heap = node.index, self._on_loan[node.total]
            old, new = entries[i], None
            if node.spot:
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
