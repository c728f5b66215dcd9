"""A run: one uninterrupted stay of a task on the cluster (docs/concepts/glossary.md)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from gfs.core.node import Node, Place, lowest
from gfs.core.reasons import Reason
from gfs.domain.execution import since_checkpoint
from gfs.domain.task import Task


class End(Enum):
    """How a run ended that was not done."""

    EVICTED = "evicted"
    LOST = "lost"
    """By no decision of ours."""
    START_FAILED = "start failed"
    """It never began."""
    CANCELLED = "cancelled"

    @property
    def waits_again(self) -> bool:
        """Whether the task goes back to the queue."""
        return self is not End.CANCELLED


class Waiting(Struct, eq=False):
    """A task in the queue."""

    task: Task
    number: int
    """Which run its next one will be."""
    since: float
    """When it was queued: submitted, evicted or lost."""
    reason: Reason | None = None
    """Why it waits, as of the pass that left it waiting."""
    overhead: float | None = None
    """Seconds of its next run before progress counts; None: the usual ones of a restart."""


class Run(Struct, eq=False):
    """All pods of one task, placed together."""

    task: Task
    number: int
    """1 for the first run of the task."""
    places: list[Place]
    start: float
    """When the pods begin to run: after the grace period if someone was evicted for them."""
    progress_from: float
    """When its progress begins to count: after the restart overhead, if it has any."""
    waited: Waiting | None = None
    """How its task had waited; None: not at all."""
    alive: bool = True

    @property
    def since(self) -> float:
        """Since when its task had waited."""
        return self.waited.since if self.waited is not None else self.start

    @property
    def nodes(self) -> list[Node]:
        """The nodes it has pods on, each once, in order of first pod."""
        return list(dict.fromkeys(node for node, _, _ in self.places))

    @property
    def pods(self) -> int:
        """Pods that have their cards."""
        cards = self.task.cards
        return sum(held // cards for _, _, held in self.places) if cards else len(self.places)

    def pods_on(self, node: Node) -> int:
        """Its pods on one node."""
        cards = self.task.cards
        return sum(held // cards if cards else 1 for where, _, held in self.places if where is node)

    def parted(self, leaving: Mapping[Node, int]) -> tuple[list[Place], list[Place]]:
        """Its places without so many of its pods on these nodes, and the places of those: the last, highest cards."""
        cards, left = self.task.cards, dict(leaving)
        kept: list[Place] = []
        gone: list[Place] = []
        for node, mask, held in reversed(self.places):
            pods = held // cards if cards else 1
            go = min(left.get(node, 0), pods)
            if go:
                left[node] -= go
            stay = lowest(mask, (pods - go) * cards) if cards else mask * (not go)
            if stay:
                kept.append((node, stay, (pods - go) * cards))
            if go:
                gone.append((node, mask ^ stay, go * cards))
        kept.reverse()
        return kept, gone

    def waste(self, now: float) -> float:
        """GPU-seconds that an eviction at `now` would throw away (the paper's theta)."""
        task = self.task
        return task.gpus * since_checkpoint(self.progress_from, task.checkpoint_interval, now)

    def __repr__(self) -> str:
        return f"<Run {self.task.name}#{self.number}>"
