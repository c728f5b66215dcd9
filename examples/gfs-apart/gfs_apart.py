"""`apart`: what if GFS kept the classes apart first, and packed only second?

GFS puts a pod on the fullest node and asks for company of its own class only among equally full ones. Here it
is the other way round: first the node with the fewest cards of the other class, among these the fullest, and
the first by position among equals. Queue and preemption are those of GFS.
"""

from __future__ import annotations

import gfs
from gfs.core.index import Bucket, NodeIndex
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.queues import SizedQueue


class ApartPlacer:
    """The node with the fewest cards of the other class, then the fewest idle cards."""

    fills_up = True  # a pod leaves the other class as it was and makes its node fuller: it stays the best
    next_change = float("inf")  # time alone changes nothing

    def __init__(self, pool: Pool) -> None:
        self._steps = pool.sizes[-1] + 1  # more than any count of idle cards
        self._index = NodeIndex(pool.nodes, views=len(gfs.Kind), fullest_first=False)
        pool.on_change = self._index.filer(
            pool.sizes,
            plain=lambda size, idle, hp: self._bucket(idle, 0, hp, size - idle - hp),
            special=lambda node: self._bucket(node.idle, node.room, node.hp_cards, node.spot_cards),
        )
        for node in pool.nodes:
            pool.on_change(node)
        self.choose = self._index.chooser(tuple(gfs.Kind))

    def _bucket(self, idle: int, room: int, hp_cards: int, spot_cards: int) -> Bucket:
        """Nodes with these numbers are the same to us; one rank for HP, one for spot, the lowest is the best."""
        return self._index.bucket(idle, room, (spot_cards * self._steps + idle, hp_cards * self._steps + idle))

    def evicted(self, node: Node, now: float) -> None:
        """Past evictions do not matter here."""

    def advance(self, now: float) -> bool:
        """Time alone opens no node."""
        return False

    def closed(self, task: gfs.Task) -> int:
        """No node is ever closed."""
        return 0


def _placer(context: gfs.Context) -> ApartPlacer:
    return ApartPlacer(context.pool)


def _preemptor(context: gfs.Context) -> GfsPreemptor:
    return GfsPreemptor(context.pool, context.ledger, beta=context.parameters.beta, period=context.period)


APART = gfs.Composition(
    "apart",
    "like gfs, but keeps the classes on different nodes first and packs second",
    queue=SizedQueue,
    placer=_placer,
    preemptor=_preemptor,
)
