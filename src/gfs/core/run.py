"""A run: one uninterrupted stay of a task on the cluster (SPEC 1)."""

from __future__ import annotations

from gfs.core.node import Node, Place
from gfs.core.reasons import Reason
from gfs.domain.execution import since_checkpoint
from gfs.domain.task import Task


class Run:
    """All pods of one task, placed together."""

    __slots__ = ("alive", "number", "places", "progress_from", "start", "task", "waited_for")

    def __init__(
        self,
        task: Task,
        number: int,
        places: list[Place],
        start: float,
        overhead: float,
        waited_for: Reason | None = None,
    ) -> None:
        self.task = task
        self.number = number
        """1 for the first run of the task."""
        self.places = places
        self.start = start
        """When the pods begin to run: after the grace period if someone was evicted for them."""
        self.progress_from = start + overhead
        self.waited_for = waited_for
        self.alive = True

    @property
    def nodes(self) -> list[Node]:
        """The nodes it has pods on, each once, in order of first pod."""
        return list(dict.fromkeys(node for node, _, _ in self.places))

    @property
    def pods(self) -> int:
        """Pods that have their cards."""
        cards = self.task.cards
        return sum(held // cards for _, _, held in self.places) if cards else len(self.places)

    def waste(self, now: float) -> float:
        """GPU-seconds that an eviction at `now` would throw away (the paper's theta)."""
        task = self.task
        return task.gpus * since_checkpoint(self.progress_from, task.checkpoint_interval, now)

    def __repr__(self) -> str:
        return f"<Run {self.task.name}#{self.number}>"
