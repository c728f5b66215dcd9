"""Best fit and first fit: placement that looks only at idle cards (YARN-CS, static)."""

from __future__ import annotations

from gfs.core.index import ABSENT, NodeIndex, Rank
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.domain.task import Task


class FitPlacer:
    """Nodes by a rank of their idle cards, ties by node id."""

    next_change = float("inf")

    def __init__(self, pool: Pool, rank: Rank) -> None:
        self._nodes = pool.nodes
        self._index = NodeIndex(len(pool.nodes), pool.sizes, rank)
        for node in pool.nodes:
            self._update(node)
        pool.on_change = self._update

    def _update(self, node: Node) -> None:
        index, idle = self._index, node.idle
        index.put(node.index, index.offsets[node.size_rank] + idle, idle, node.room, node.index)

    def choose(self, task: Task) -> Node | None:
        """The node for one more pod of the task, or None."""
        cards = task.cards
        found = self._index.best(cards) if cards else self._index.best_for_share(task.share)
        return None if found == ABSENT else self._nodes[found]

    def evicted(self, node: Node, now: float) -> None:
        """Eviction history does not matter here."""

    def advance(self, now: float) -> bool:
        """Time alone changes nothing."""
        return False

    def closed(self, task: Task) -> int:
        """Every node is open."""
        return 0


def best_fit(pool: Pool) -> FitPlacer:
    """The node with the fewest idle cards that suffice."""
    return FitPlacer(pool, lambda idle, total: idle)


def first_fit(pool: Pool) -> FitPlacer:
    """The first node that suffices."""
    return FitPlacer(pool, lambda idle, total: 0)
