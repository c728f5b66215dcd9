"""`apart`: what if GFS kept the classes apart first, and packed only second?

GFS puts a pod on the fullest node and asks for company of its own class only among equally full ones. Here it
is the other way round: first the node with the fewest cards of the other class, among these the fullest, and
the first by position among equals. Queue and preemption are those of GFS.
"""

from __future__ import annotations

from collections.abc import Iterator

from gfs.parts import (
    Bucket,
    Composition,
    Context,
    GfsPreemptor,
    Node,
    NodeIndex,
    Placer,
    Pool,
    Priority,
    Role,
    SizedQueue,
)


class ApartPlacer(Placer):
    """The node with the fewest cards of the other class, then the fewest idle cards."""

    fills_up = True  # a pod leaves the other class as it was and makes its node fuller: it stays the best

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._steps = pool.sizes[-1] + 1  # more than any count of idle cards
        self._index = NodeIndex(pool, views=len(Priority), fullest_first=False)
        self._index.follow(
            plain=lambda size, idle, hp: self._bucket(idle, 0, hp, size - idle - hp),
            special=lambda node: self._bucket(node.idle, node.room, node.hp_cards, node.spot_cards),
        )

    def choose(self, role: Role) -> Node | None:
        """The best node for one more pod of the role, or None."""
        return self._index.choose(role, role.priority)

    def _bucket(self, idle: int, room: int, hp_cards: int, spot_cards: int) -> Bucket:
        """Nodes with these numbers are the same to us; one rank for HP, one for spot, the lowest is the best."""
        return self._index.bucket(idle, room, (spot_cards * self._steps + idle, hp_cards * self._steps + idle))

    def ranked(self, role: Role) -> Iterator[Node]:
        """All nodes with GPUs for a pod, best first: where the first one lacks something else."""
        return self._index.ranked(role, role.priority)


def _placer(context: Context) -> ApartPlacer:
    return ApartPlacer(context.pool)


def _preemptor(context: Context) -> GfsPreemptor:
    return GfsPreemptor(context.state, beta=context.parameters.beta, period=context.period)


APART = Composition(
    "apart",
    "like gfs, but keeps the classes on different nodes first and packs second",
    queue=SizedQueue,
    placer=_placer,
    preemptor=_preemptor,
)
