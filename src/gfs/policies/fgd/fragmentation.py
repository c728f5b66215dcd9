"""The task mix learnt from the arrivals, and the fragmentation F it leads one to expect of a node.

    F_n(M) = sum over request sizes m of p_m x F_n(m)

F_n(m): what is idle on node n and of no use to a pod of size m. If the node cannot hold such a pod at all, that
is everything idle on it; else only the free parts of divided cards that are too small for it. Both cases in one:
the k idle cards are of no use to pods of more than k cards, and the free part r of a card to all that want more
than r. So F is a sum over what is idle:

    F = k x P(m > k cards) + sum over the free parts r of r x P(m > r)

Here F is kept as a whole number, in micro-cards times the number of tasks seen: values are only ever compared
under one mix, and this way they are compared exactly.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.domain.task import Task
from gfs.domain.units import MICRO


@dataclass(slots=True)
class SeenTasks:
    """What is remembered of the tasks that have arrived."""

    by_size: dict[int, int] = field(default_factory=dict)
    """Micro-cards per pod -> tasks."""


class ArrivalMix(Listener):
    """How many tasks of each per-pod size have arrived so far in a pool, HP and spot, each counted once."""

    def __init__(self, largest_node: int, seen: SeenTasks | None = None) -> None:
        """`largest_node`: the most cards that a node of the pool has."""
        self.tasks = (seen or SeenTasks()).by_size
        """Micro-cards per pod -> tasks seen."""
        self.of_idle = [0]
        """Idle cards k of a node -> what they add to its F: k cards for each task that wants more than k."""
        self._whole = 0
        """Tasks seen that want whole cards."""
        self._shares: list[int] = []
        """The fractions seen, in micro-cards, ascending."""
        self._at_least: list[int] = []
        """Position in `_shares` -> tasks seen that want this fraction or a larger one."""
        self.reach(largest_node)
        for size, count in self.tasks.items():
            if size >= MICRO:
                self._whole += count
            else:
                self._learn_share(size, count)

    def submitted(self, task: Task, now: float) -> None:
        """A task has come: it belongs to the mix from now on, whatever becomes of it."""
        self.learn((task,))

    def reach(self, largest_node: int) -> None:
        """The pool has larger nodes than before."""
        for idle in range(len(self.of_idle), largest_node + 1):
            more = sum(count for size, count in self.tasks.items() if size > idle * MICRO)
            self.of_idle.append(idle * MICRO * more)

    def learn(self, arrived: Iterable[Task]) -> None:
        """Count tasks that have just arrived."""
        tasks, of_idle = self.tasks, self.of_idle
        for task in arrived:
            cards = task.cards
            size = cards * MICRO or task.share
            tasks[size] = tasks.get(size, 0) + 1
            if cards:
                self._whole += 1
                for idle in range(1, min(cards, len(of_idle))):
                    of_idle[idle] += idle * MICRO
            else:
                self._learn_share(size)

    def _learn_share(self, share: int, count: int = 1) -> None:
        shares, at_least = self._shares, self._at_least
        position = bisect_left(shares, share)
        if position == len(shares) or shares[position] != share:
            larger = at_least[position] if position < len(shares) else 0
            shares.insert(position, share)
            at_least.insert(position, larger)
        for i in range(position + 1):
            at_least[i] += count

    def of_part(self, part: int) -> int:
        """What the free part of a divided card, in micro-cards, adds to F of its node."""
        larger = bisect_right(self._shares, part)
        fractions = self._at_least[larger] if larger < len(self._shares) else 0
        return part * (self._whole + fractions)

    def fragmentation(self, idle: int, parts: Iterable[int]) -> int:
        """F of a node with so many idle cards and these free parts of divided cards."""
        return self.of_idle[idle] + sum(map(self.of_part, parts))


def free_parts(node: Node) -> list[int]:
    """The free part of each divided card of the node, in micro-cards."""
    return [MICRO - hp - spot for hp, spot in (node.parts() if node.surplus else node.shares.values())]
