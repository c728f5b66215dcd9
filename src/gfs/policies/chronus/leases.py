"""Who holds a lease where and who waits for one, by rounds.

Leases begin and end on a grid: a round lasts as long as a spot lease, an HP lease some whole number of rounds.
A lease that ends is up for renewal together with all others that end in that round. In which rounds a run's leases
end follows from when it started.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor, inf
from typing import NamedTuple

from gfs.core.node import Node
from gfs.core.run import Run, Waiting
from gfs.core.state import PoolState
from gfs.domain.task import Priority, Task
from gfs.policies.chronus.program import TaskShape, shape_of

QueueKey = tuple[TaskShape, bool]
"""Shape of the tasks, and whether they have run before: then they pay for resuming."""


@dataclass(slots=True)
class LeaseMemory:
    """What is remembered besides runs and waiting tasks."""

    order: tuple[dict[QueueKey, None], ...] = field(default_factory=lambda: ({}, {}))
    """Class -> the queues there are, in the order in which they came up."""
    newcomers: list[Task] = field(default_factory=list)
    """Tasks that came since the last round."""
    asked: float = -inf
    """The round that those who wait are waiting for; minus infinity: nobody does."""
    solves: int = 0
    stopped: int = 0
    worst_gap: float = 0.0


def round_at(time: float, length: float) -> tuple[int, bool]:
    """The round that a time falls into, and whether it begins just then."""
    nearest = round(time / length)
    if nearest * length == time:  # the very product that a wake-up was asked for by
        return nearest, True
    return floor(time / length), False


class LeaseQueue(NamedTuple):
    """Tasks that wait and have one shape, longest wait first: the choice between them is by that alone."""

    shape: TaskShape
    task: Task
    """One of them."""
    waiting: dict[int, Waiting]
    """By task index."""

    @property
    def gpus(self) -> float:
        """GPUs that they ask for together."""
        return len(self.waiting) * self.task.gpus


class LeaseTable:
    """The leases of one pool."""

    def __init__(self, state: PoolState, memory: LeaseMemory, round_length: float, hp_rounds: int) -> None:
        """`hp_rounds`: how many rounds an HP lease lasts; a spot lease lasts one."""
        self._memory = memory
        self._round = round_length
        self._resources = state.pool.counts_resources
        self.on: list[dict[Run, int]] = [{} for _ in state.pool.nodes]
        """Node -> runs with a lease there -> whole cards they hold there."""
        self._sorted: list[list[Run] | None] = [None] * len(self.on)
        """Node -> these runs, most cards first; None where they have changed since."""
        self._rounds = (hp_rounds, 1)
        self._ending: tuple[dict[int, dict[Run, TaskShape]], ...] = ({}, {})
        """Class -> round modulo the length of a lease -> runs whose leases end then, in the order of starting."""
        self._latest = -inf
        """When the run began that began last."""
        self._queues: tuple[dict[QueueKey, LeaseQueue], ...] = ({}, {})
        """Class -> shape and whether it has run before -> queue."""
        for run in state.runs.values():
            self.open(run)
        queued: dict[QueueKey, dict[int, Waiting]] = {}
        for waiting in state.waiting.values():
            queued.setdefault(self._key(waiting), {})[waiting.task.index] = waiting
        for key, alike in queued.items():  # those that came up while nobody here watched are the last in order
            memory.order[next(iter(alike.values())).task.priority].setdefault(key)
        for order, queues in zip(memory.order, self._queues, strict=True):
            for key in list(order):
                if key in queued:
                    queues[key] = LeaseQueue(key[0], next(iter(queued[key].values())).task, queued[key])
                else:
                    del order[key]

    def shape_of(self, task: Task) -> TaskShape:
        """Tasks with the same answer are alike in all that counts here."""
        return shape_of(task, resources=self._resources)

    def _key(self, waiting: Waiting) -> QueueKey:
        return self.shape_of(waiting.task), waiting.number > 1

    def _phase(self, run: Run) -> int:
        """In which round, modulo the length of a lease, its leases end."""
        return round_at(run.start, self._round)[0] % self._rounds[run.task.priority]

    def open(self, run: Run) -> None:
        """A run has a lease since its start; its cards are held already."""
        self._ending[run.task.priority].setdefault(self._phase(run), {})[run] = self.shape_of(run.task)
        self._latest = max(self._latest, run.start)
        self.enter(run)

    def close(self, run: Run) -> None:
        """A run is over: its lease and its cards are given back."""
        self.expire(run)
        self.leave(run)

    def shrink(self, run: Run) -> None:
        """A run has left some of its cards: its lease goes on with the others."""
        for position, here in enumerate(self.on):
            if here.pop(run, None) is not None:
                self._sorted[position] = None
        self._ending[run.task.priority][self._phase(run)][run] = self.shape_of(run.task)
        self.enter(run)

    def expire(self, run: Run) -> None:
        """A run's lease is not renewed; its cards were taken from it already."""
        priority, phase = run.task.priority, self._phase(run)
        del self._ending[priority][phase][run]
        if not self._ending[priority][phase]:
            del self._ending[priority][phase]

    def enter(self, run: Run) -> None:
        """Note the cards of a run on its nodes."""
        for node, _, cards in run.places:
            if not node.closed:
                here = self.on[node.index]
                here[run] = here.get(run, 0) + cards
                self._sorted[node.index] = None

    def leave(self, run: Run) -> None:
        """Undo `enter`."""
        for node, _, _ in run.places:
            if not node.closed:
                self.on[node.index].pop(run, None)
                self._sorted[node.index] = None

    def ending(self, priority: Priority, number: int, now: float) -> dict[Run, TaskShape]:
        """Runs of a class whose leases end in round `number`, which begins now: none of those it has started."""
        runs = self._ending[priority].get(number % self._rounds[priority], {})
        if self._latest < now:
            return runs.copy()
        return {run: shape for run, shape in runs.items() if run.start < now}

    def here(self, node: Node) -> dict[Run, int]:
        """Runs with a lease on the node -> whole cards they hold there."""
        return self.on[node.index]

    def most_cards_first(self, node: Node) -> list[Run]:
        """The same runs in the order in which they make room: those with the most cards here, of these the smallest."""
        runs = self._sorted[node.index]
        if runs is None:
            here = self.on[node.index]
            runs = sorted(here, key=lambda run: (-here[run], run.task.gpus, run.task.index))
            self._sorted[node.index] = runs
        return runs

    def queue(self, waiting: Waiting) -> None:
        """A task waits. Tasks must be queued in order of time."""
        task, key = waiting.task, self._key(waiting)
        queues = self._queues[task.priority]
        if key not in queues:
            queues[key] = LeaseQueue(key[0], task, {})
            self._memory.order[task.priority][key] = None
        queues[key].waiting[task.index] = waiting

    def unqueue(self, waiting: Waiting) -> None:
        """A task waits no longer."""
        task, key = waiting.task, self._key(waiting)
        queue = self._queues[task.priority][key]
        del queue.waiting[task.index]
        if not queue.waiting:
            del self._queues[task.priority][key]
            del self._memory.order[task.priority][key]

    def find(self, task: Task) -> Waiting:
        """The entry of a task that waits."""
        shape = self.shape_of(task)
        queues = self._queues[task.priority]
        both = (queues[key] for key in ((shape, False), (shape, True)) if key in queues)
        return next(queue.waiting[task.index] for queue in both if task.index in queue.waiting)

    def queues(self, priority: Priority) -> list[LeaseQueue]:
        """The queues of a class."""
        return list(self._queues[priority].values())

    @property
    def anybody_waits(self) -> bool:
        """Whether a task waits."""
        return any(self._queues)
