"""A trial: place and evict as if, see everything that follows from it, then commit or roll back.

A gang never half-starts and nothing is evicted in vain: all of it happens on a trial first.
"""

from __future__ import annotations

from collections.abc import Callable

from gfs.core.node import Node, Place
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Task


class Trial:
    """Changes to a pool that can be undone. One task at a time."""

    __slots__ = ("_task", "evicted", "places", "pods", "pool")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.places: list[Place] = []
        """What the task holds so far."""
        self.pods = 0
        """Pods placed so far."""
        self.evicted: list[Run] = []
        """Spot runs evicted so far."""
        self._task: Task | None = None

    def place(self, node: Node, task: Task, pods: int = 1) -> None:
        """Put pods of the task on `node`. All pods of a trial belong to one task."""
        self._task = task
        self.places.append(self.pool.occupy(node, task, pods))
        self.pods += pods

    def fill(self, task: Task, choose: Callable[[Task], Node | None], *, up: bool = False) -> bool:
        """Place the pods still missing, each where `choose` says, until all are placed or it finds no node.

        `up`: a node once chosen is filled up with the task's pods before `choose` is asked again.
        """
        self._task = task
        places, occupy = self.places, self.pool.occupy
        left = task.pods - self.pods
        cards = task.cards if up else 0
        while left:
            node = choose(task)
            if node is None:
                break
            pods = 1
            if cards:
                pods = node.idle // cards
                if pods > left:
                    pods = left
            places.append(occupy(node, task, pods))
            left -= pods
        self.pods = task.pods - left
        return not left

    def evict(self, run: Run) -> None:
        """Take a spot run off all its nodes: a victim is a whole task."""
        pool = self.pool
        pool.forget_spot(run)
        pool.release(run.places, run.task)
        self.evicted.append(run)

    def commit(self) -> list[Place]:
        """Keep everything; hand over what the task holds."""
        places = self.places
        self._clear()
        return places

    def rollback(self) -> None:
        """Undo everything: every card is where it was.

        Cards of evicted runs can only have gone to pods of this trial, so once these are gone they are free.
        """
        pool = self.pool
        if self._task is not None:
            pool.release(self.places, self._task)
        for run in self.evicted:
            for place in run.places:
                pool.hold(place, run.task)
            pool.register_spot(run)
        self._clear()

    def _clear(self) -> None:
        self.places = []
        self.pods = 0
        self.evicted = []
