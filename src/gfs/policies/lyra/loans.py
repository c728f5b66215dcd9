"""Where Lyra puts a pod: spot tasks only on nodes on loan, HP only on the others, best fit in both.

A node with a spot pod is on loan. A node without any pod can be lent, or taken by HP. A node with an HP pod
is in use by HP. So no node ever holds pods of both classes, and the idle cards of a node on loan are not for HP
before the whole node has been returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gfs.core.index import Bucket, NodeIndex, Rank
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.domain.task import Priority, Task

Ranks = tuple[Rank, Rank]
"""The same node seen by HP and by spot tasks: 0 if it may have pods of that class, else None."""

EMPTY: Ranks = (0, 0)
USED_BY_HP: Ranks = (0, None)
ON_LOAN: Ranks = (None, 0)

REFUSED = {Priority.HP: ON_LOAN, Priority.SPOT: USED_BY_HP}
WHY_REFUSED = {Priority.HP: "on loan to spot tasks", Priority.SPOT: "in use by HP, not on loan"}


def _ranks(hp_cards: int, spot_cards: int) -> Ranks:
    if hp_cards:
        return USED_BY_HP
    return ON_LOAN if spot_cards else EMPTY


class LoanPlacer:
    """Best fit (the fewest idle cards that suffice, ties by node id) among the nodes of the task's class."""

    fills_up = True  # a pod leaves its node with fewer idle cards, and still of the task's class

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._index = NodeIndex(pool, views=len(Priority))
        self._bucket = bucket = self._index.bucket
        self._index.follow(
            plain=lambda size, idle, hp: bucket(idle, 0, _ranks(hp, size - idle - hp)),
            special=self._divided_bucket,
        )

    def choose(self, task: Task) -> Node | None:
        """The node for one more pod of the task, or None."""
        return self._index.choose(task, task.priority)

    def _divided_bucket(self, node: Node) -> Bucket:
        return self._bucket(node.idle, node.room, _ranks(node.hp_cards, node.spot_cards))

    def ranked(self, task: Task) -> Iterator[Node]:
        """The nodes with cards for one more pod of the task, best first."""
        return self._index.ranked(task, task.priority)

    def best_of(self, task: Task, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod; None if it refuses them."""
        return self._index.best_of(nodes, task.priority)

    def closed(self, task: Task) -> tuple[int, str]:
        """Nodes with room for a pod of the task that belong to the other class, and whose they are."""
        refused, least = REFUSED[task.priority], max(task.cards, 1)
        nodes = sum(self._bucket(idle, 0, refused).count for idle in range(least, self._pool.sizes[-1] + 1))
        if task.share:
            for node in self._pool.divided:
                with_room = not node.idle and node.room >= task.share
                nodes += with_room and _ranks(node.hp_cards, node.spot_cards) == refused
        return nodes, WHY_REFUSED[task.priority]
