"""Best fit and first fit: placement that looks only at idle cards (YARN-CS, static)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gfs.core.index import NodeIndex
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.domain.task import Task


class FitPlacer:
    """The first node that suffices: by id, or among those with the fewest idle cards."""

    fills_up = True

    def __init__(self, pool: Pool, *, fullest_first: bool) -> None:
        self._index = NodeIndex(pool, fullest_first=fullest_first)
        bucket = self._index.bucket
        self._index.follow(
            plain=lambda size, idle, hp: bucket(idle, 0, (0,)),
            special=lambda node: bucket(node.idle, node.room, (0,)),
        )

    def choose(self, task: Task) -> Node | None:
        """The node for one more pod of the task, or None."""
        return self._index.choose(task)

    def ranked(self, task: Task) -> Iterator[Node]:
        """The nodes with cards for one more pod of the task, best first."""
        return self._index.ranked(task)

    def best_of(self, task: Task, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod; None if it refuses them."""
        return self._index.best_of(nodes)


def best_fit(pool: Pool) -> FitPlacer:
    """The node with the fewest idle cards that suffice."""
    return FitPlacer(pool, fullest_first=True)


def first_fit(pool: Pool) -> FitPlacer:
    """The first node that suffices."""
    return FitPlacer(pool, fullest_first=False)
