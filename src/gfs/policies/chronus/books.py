"""Who holds a lease where and who waits for one, by rounds.

Leases begin and end on a grid: a round lasts as long as a spot lease, an HP lease some whole number of rounds.
A lease that ends is up for renewal together with all others that end in that round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Kind, Task
from gfs.policies.chronus.selection import Like, like


@dataclass(slots=True)
class Waiting:
    """A task without a lease."""

    task: Task
    number: int
    """Which run its next one will be; above 1 it was suspended and pays for resuming."""
    since: float
    """When it was queued: submitted, or suspended."""


class Queue(NamedTuple):
    """Tasks that wait and are alike, longest wait first: the choice between them is by that alone."""

    like: Like
    task: Task
    """One of them."""
    waiting: dict[int, Waiting]
    """By task index."""

    @property
    def gpus(self) -> float:
        """GPUs that they ask for together."""
        return len(self.waiting) * self.task.gpus


class LeaseBooks:
    """The leases of one pool."""

    def __init__(self, pool: Pool, hp_rounds: int) -> None:
        """`hp_rounds`: how many rounds an HP lease lasts; a spot lease lasts one."""
        self.on: list[dict[Run, int]] = [{} for _ in pool.nodes]
        """Node -> runs with a lease there -> whole cards they hold there."""
        self._queues: tuple[dict[tuple[Like, bool], Queue], ...] = ({}, {})
        """Class -> (likeness, whether it was suspended) -> queue."""
        self._pool = pool
        self._rounds = (hp_rounds, 1)
        self._ending: tuple[dict[int, dict[Run, None]], ...] = ({}, {})
        """Class -> round modulo the length of a lease -> runs whose leases end then."""
        self._phase: dict[Run, int] = {}

    def open(self, run: Run, number: int) -> None:
        """A run takes a lease in round `number`; its cards are held already."""
        kind = run.task.kind
        self._phase[run] = phase = number % self._rounds[kind]
        self._ending[kind].setdefault(phase, {})[run] = None
        self.enter(run)

    def close(self, run: Run) -> None:
        """A run is done: its lease and its cards are given back."""
        self.expire(run)
        self.leave(run)

    def expire(self, run: Run) -> None:
        """A run's lease is not renewed; its cards were taken from it already."""
        kind, phase = run.task.kind, self._phase.pop(run)
        del self._ending[kind][phase][run]
        if not self._ending[kind][phase]:
            del self._ending[kind][phase]

    def enter(self, run: Run) -> None:
        """Note the cards of a run on its nodes."""
        for node, _, cards in run.places:
            here = self.on[node.index]
            here[run] = here.get(run, 0) + cards
        if run.task.kind:
            self._pool.register_spot(run)

    def leave(self, run: Run) -> None:
        """Undo `enter`."""
        for node, _, _ in run.places:
            self.on[node.index].pop(run, None)
        if run.task.kind:
            self._pool.forget_spot(run)

    def ending(self, kind: Kind, number: int, now: float) -> list[Run]:
        """Runs of a class whose leases end in round `number`, which begins now: none of those it has started."""
        runs = self._ending[kind].get(number % self._rounds[kind], {})
        return [run for run in runs if run.start < now]

    def here(self, node: Node) -> dict[Run, int]:
        """Runs with a lease on the node."""
        return self.on[node.index]

    def queue(self, waiting: Waiting) -> None:
        """A task waits. Tasks must be queued in order of time."""
        task = waiting.task
        key = (like(task), waiting.number > 1)
        queues = self._queues[task.kind]
        if key not in queues:
            queues[key] = Queue(key[0], task, {})
        queues[key].waiting[task.index] = waiting

    def unqueue(self, waiting: Waiting) -> None:
        """A task waits no longer."""
        task = waiting.task
        key = (like(task), waiting.number > 1)
        queue = self._queues[task.kind][key]
        del queue.waiting[task.index]
        if not queue.waiting:
            del self._queues[task.kind][key]

    def queues(self, kind: Kind) -> list[Queue]:
        """The queues of a class."""
        return list(self._queues[kind].values())

    @property
    def anybody_waits(self) -> bool:
        """Whether a task waits."""
        return any(self._queues)
