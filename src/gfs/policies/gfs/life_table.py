"""How long runs last, from runs that were not all seen to their end: a life table, as actuaries keep it.

Time since the start of a run is cut at a few edges. Of the runs that came as far as a piece of it, some ended
there, some were evicted there, and some are still in it. For the last two nobody knows how long they would have
lasted: they count as at risk for half of the piece. What is left is Kaplan and Meier's estimate on pieces of time:

    risk = entered - (evicted + still there) / 2
    hazard = (ended + shrink * hazard of the wider group) / (risk + shrink)
    share that lasts beyond an edge = product of (1 - hazard) up to it

With few runs of its own a group is taken to be like the wider one; in the widest, with none at all, nothing ends.
"""

from __future__ import annotations

from collections.abc import Sequence

SHRINK = 20.0
"""So many runs of its own weigh as much as the wider group."""


class LifeTable:
    """What became of the runs of one group, by piece of time since their start."""

    __slots__ = ("ended", "entered", "evicted")

    def __init__(self, pieces: int) -> None:
        self.entered = [0] * (pieces + 1)
        """Runs that came as far; the last number is of those beyond the last edge."""
        self.ended = [0] * (pieces + 1)
        self.evicted = [0] * (pieces + 1)

    def hazard(self, piece: int, wider: float) -> float:
        """The share of those at risk that ends in a piece, drawn towards that of the wider group."""
        entered, ended, evicted = self.entered[piece], self.ended[piece], self.evicted[piece]
        there = entered - ended - evicted - self.entered[piece + 1]
        risk = entered - (evicted + there) / 2
        return (ended + SHRINK * wider) / (risk + SHRINK)


def share_beyond(groups: Sequence[LifeTable], pieces: int) -> float:
    """The share of runs that last beyond all of the first pieces, by the narrowest group; widest group first."""
    share = 1.0
    for piece in range(pieces):
        hazard = 0.0
        for table in groups:
            hazard = table.hazard(piece, hazard)
        share *= 1 - hazard
    return share
