"""A run: one uninterrupted stay of a task on the cluster (docs/concepts/glossary.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from gfs.core.node import GPUS, Node, Place
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


class Leaving(Struct, eq=False):
    """An evicted run in its grace period."""

    until: float
    """When it should have left its nodes."""
    takers: list[Run]
    """Runs that begin only when it has."""


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
        return list(dict.fromkeys([place[0] for place in self.places]))

    @property
    def pods(self) -> int:
        """Pods that have their places."""
        return sum(pods for _, _, pods, _ in self.places)

    def pods_on(self, node: Node) -> int:
        """Returns the number of its pods on one node."""
        return sum(pods for where, _, pods, _ in self.places if where is node)

    def without(self, gone: Mapping[tuple[Node, int], int]) -> tuple[Task, list[Place], list[Place]]:
        """Returns the smaller task, its places and the places given up, once so many pods have gone.

        `gone`: (node, number of the role) -> pods. The last places of a node go first.
        """
        task, left = self.task, dict(gone)
        lost = Counter[int]()
        kept: list[tuple[Node, int, int, int]] = []
        given_up: list[Place] = []
        for node, role, pods, slot in reversed(self.places):
            number = role.number
            go = min(left.get((node, number), 0), pods)
            if go:
                left[node, number] -= go
                lost[number] += go
                given_up.append((node, role, go, slot))
            if pods > go:
                kept.append((node, number, pods - go, slot))
        smaller = task.shrunk(lost)
        roles = dict(zip([n for n, role in enumerate(task.roles) if role.pods > lost[n]], smaller.roles, strict=True))
        return smaller, [(node, roles[n], pods, slot) for node, n, pods, slot in reversed(kept)], given_up

    def waste(self, now: float) -> float:
        """GPU-seconds that an eviction at `now` would throw away (the paper's theta)."""
        task = self.task
        return task.gpus * since_checkpoint(self.progress_from, task.checkpoint_interval, now)

    def __repr__(self) -> str:
        return f"<Run {self.task.name}#{self.number}>"


def held_on(run: Run, node: Node, parts: int = 1) -> dict[str, float]:
    """Returns what a run holds on a node: GPUs, of which a part counts as so many, and what the node limits."""
    held = dict.fromkeys((GPUS, *node.free), 0.0)
    for where, role, pods, _ in run.places:
        if where is node:
            held[GPUS] += pods * (role.cards or parts * bool(role.share))
            for name, amount in role.requests:
                if name in held:
                    held[name] += pods * amount
    return held
