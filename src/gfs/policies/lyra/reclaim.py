"""Which node on loan HP takes back: the one with the lowest preemption cost (SPEC 6).

A node is returned whole: every spot task with a pod there is evicted, from all its nodes. The cost of a node is
    the sum over its spot tasks of 1 / (number of nodes the task spans),
so a task that would lose little of itself here makes the node cheap, and taking back all nodes of a task costs 1.
The cheapest node that is large enough goes, ties by fewer victims, then node id. An HP gang asks again after each
node: a task that has gone counts nowhere any more, so the other nodes of an evicted gang are empty or cheaper.
That is how the cheapest *set* of nodes is approximated.

Nodes on loan stand in one heap per node size. A node whose spot tasks have changed gets a new entry when the next
question comes; its old one is dropped when it surfaces. Costs are exact: whole numbers of a unit that every
1 / (number of nodes) met so far is a multiple of. A number of nodes that needs a finer unit is met a few times in
a run; then every node on loan is entered anew.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import lcm

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Victims
from gfs.core.run import Run
from gfs.domain.task import Task

Entry = tuple[int, int, int]
"""(preemption cost, victims, position of the node): the order in which nodes are taken back."""


class ReclaimPreemptor:
    """The cheapest node on loan that is large enough. It relies on `LoanPlacer`: such a node has no HP pod."""

    def __init__(self, pool: Pool) -> None:
        self._nodes = pool.nodes
        self._parts = 1
        """A cost of 1 is so many units."""
        self._span: dict[Run, int] = {}
        """Spot run -> number of nodes it spans."""
        self._stale: set[Node] = set()
        """Nodes whose spot tasks have changed since the last question."""
        self._entry: list[Entry | None] = [None] * len(pool.nodes)
        """The entry that counts for a node; None: not on loan."""
        self._heaps: dict[int, list[Entry]] = {size: [] for size in pool.sizes}
        self._on_loan = dict.fromkeys(pool.sizes, 0)
        """Cards of a node -> how many such nodes are on loan."""

    def started(self, run: Run) -> None:
        """A spot run now holds its cards."""
        nodes = run.nodes
        self._span[run] = span = len(nodes)
        self._stale.update(nodes)
        if self._parts % span:
            self._parts = lcm(self._parts, span)
            self._stale.update(node for node in self._nodes if self._entry[node.index])

    def ended(self, run: Run) -> None:
        """A spot run no longer holds its cards."""
        del self._span[run]
        self._stale.update(run.nodes)

    def choose(self, task: Task, now: float) -> Victims | None:
        """The cheapest node on loan that could hold the pod, and everyone on it."""
        self._refresh()
        best, candidates = None, 0
        for size, heap in self._heaps.items():
            if size >= task.cards:
                candidates += self._on_loan[size]
                while heap and self._entry[heap[0][2]] is not heap[0]:
                    heappop(heap)
                if heap and (best is None or heap[0] < best):
                    best = heap[0]
        if best is None:
            return None
        node = self._nodes[best[2]]
        everyone = sorted(node.spot, key=lambda run: run.task.index)
        one = "only node on loan that suffices"
        return Victims(node, everyone, f"cheapest of {candidates} nodes on loan" if candidates > 1 else one)

    def _refresh(self) -> None:
        """Bring the entries of the stale nodes up to date."""
        parts, spans, entries = self._parts, self._span, self._entry
        for node in self._stale:
            i, size = node.index, node.total
            old, new = entries[i], None
            if node.spot:
                new = (sum(parts // spans[run] for run in node.spot), len(node.spot), i)
            if new != old:
                entries[i] = new
                self._on_loan[size] += (new is not None) - (old is not None)
                if new is not None:
                    heappush(self._heaps[size], new)
        self._stale.clear()
        for size, heap in self._heaps.items():
            if len(heap) > 4 * self._on_loan[size] + 64:
                heap[:] = [entry for entry in heap if entries[entry[2]] is entry]
                heapify(heap)
