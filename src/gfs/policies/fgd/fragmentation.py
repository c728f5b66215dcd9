"""The task mix learnt from the arrivals, and the fragmentation F it leads one to expect of a node.

    F_n(M) = sum over request sizes m of p_m x F_n(m)

F_n(m) is what is idle on node n and of no use to a pod of size m: everything if the node cannot hold such a pod, else
the free parts of divided GPUs that are too small for it. So k idle GPUs are of no use to pods of more than k GPUs, and
the free part r of a divided GPU is of no use to pods of more than r:

    F = k x P(m > k GPUs) + sum over the free parts r of r x P(m > r)

F is kept as a whole number, in millionths of a GPU times the number of tasks seen: values are only ever compared
under one mix, and this way they are compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.run import Run
from gfs.domain.task import Role, Task
from gfs.domain.units import MICRO


@dataclass(slots=True)
class SeenTasks:
    """What is remembered of the tasks that have arrived."""

    by_size: dict[int, int] = field(default_factory=dict)
    """Micro-cards per pod -> tasks."""


class ArrivalMix(Listener):
    """How many tasks of each per-pod size have arrived so far in a pool, HP and spot, each counted once."""

    def __init__(self, seen: SeenTasks | None = None) -> None:
        self.tasks = (seen or SeenTasks()).by_size
        """Millionths of a GPU per pod -> tasks seen."""
        self._lost: dict[int, int] = {}
        """What is idle in one piece -> what it adds to F, as far as asked for since the last arrival."""

    def submitted(self, task: Task, now: float) -> None:
        """A task has come: it belongs to the mix from now on, whatever becomes of it."""
        self.learn((task,))

    def learn(self, arrived: Iterable[Task]) -> None:
        """Count tasks that have just arrived."""
        self._lost.clear()
        for role in chain.from_iterable(task.roles for task in arrived):
            size = role.micro_per_pod
            self.tasks[size] = self.tasks.get(size, 0) + 1

    def lost(self, free: int) -> int:
        """What the idle GPUs of a node, or the free part of one GPU, in millionths, add to F."""
        known = self._lost.get(free)
        if known is None:
            known = self._lost[free] = free * sum(count for size, count in self.tasks.items() if size > free)
        return known

    def fragmentation(self, idle: int, parts: Iterable[int]) -> int:
        """F of a node with so many idle GPUs and these free parts of divided ones."""
        return self.lost(idle * MICRO) + sum(map(self.lost, parts))

    def growth(self, idle: int, parts: Sequence[int], role: Role) -> int | None:
        """How F of such a node grows by a pod of the role; None if the node has no room for it."""
        lost, share = self.lost, role.share
        if not share:
            return lost((idle - role.cards) * MICRO) - lost(idle * MICRO) if idle >= role.cards else None
        part = min((part for part in parts if part >= share), default=None)
        if part is not None:
            return lost(part - share) - lost(part)
        return lost((idle - 1) * MICRO) + lost(MICRO - share) - lost(idle * MICRO) if idle else None


def free_on(node: Node, gone: Sequence[Run] = ()) -> tuple[int, list[int]]:
    """The idle GPUs of a node and the free parts of its divided ones, once these spot runs have gone."""
    if not gone:
        return node.idle, [MICRO - hp - spot for hp, spot in node.parts()] if node.shares else []
    idle = node.idle - node.surplus + sum(node.spot[run] for run in gone)
    free = {slot: MICRO - hp - spot for slot, (hp, spot) in node.shares.items()}
    if free:
        for run in gone:
            for where, role, _, slot in run.places:
                if where is node and slot in free:
                    free[slot] += role.share
    parts = [part for part in free.values() if part < MICRO]
    idle += len(free) - len(parts)
    return (idle, parts) if idle >= 0 else (0, [])
