"""Best fit and first fit: placement that looks only at idle cards (YARN-CS, static)."""

from __future__ import annotations

from gfs.core.index import NodeIndex
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.domain.task import Task


class FitPlacer:
    """The first node that suffices: by id, or among those with the fewest idle cards."""

    fills_up = True
    next_change = float("inf")

    def __init__(self, pool: Pool, *, fullest_first: bool) -> None:
        self._index = NodeIndex(pool.nodes, fullest_first=fullest_first)
        bucket = self._index.bucket
        pool.on_change = self._index.filer(
            pool.sizes,
            plain=lambda size, idle, hp: bucket(idle, 0, (0,)),
            special=lambda node: bucket(node.idle, node.room, (0,)),
        )
        for node in pool.nodes:
            pool.on_change(node)
        self.choose = self._index.chooser((0, 0))
        """The node for one more pod of the task, or None."""

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
    return FitPlacer(pool, fullest_first=True)


def first_fit(pool: Pool) -> FitPlacer:
    """The first node that suffices."""
    return FitPlacer(pool, fullest_first=False)
