"""A trial: place and evict as if, see everything that follows from it, then commit or roll back.

A gang never half-starts and nothing is evicted in vain: all of it happens on a trial first.
"""

from __future__ import annotations

from collections.abc import Callable

from gfs.core.node import Node, Pod
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Task


class Trial:
    """Changes to a pool that can be undone. One task at a time."""

    __slots__ = ("_task", "evicted", "pods", "pool")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.pods: list[Pod] = []
        """Pods placed so far."""
        self.evicted: list[Run] = []
        """Spot runs evicted so far."""
        self._task: Task | None = None

    def place(self, node: Node, task: Task) -> None:
        """Put one pod of the task on `node`. All pods of a trial belong to one task."""
        self._task = task
        self.pods.append(self.pool.occupy(node, task))

    def fill(self, task: Task, choose: Callable[[Task], Node | None]) -> bool:
        """Place the pods still missing, each where `choose` says, until all are placed or it finds no node."""
        self._task = task
        pods, occupy = self.pods, self.pool.occupy
        for _ in range(task.pods - len(pods)):
            node = choose(task)
            if node is None:
                return False
            pods.append(occupy(node, task))
        return True

    def evict(self, run: Run) -> None:
        """Take a spot run off all its nodes: a victim is a whole task."""
        pool = self.pool
        pool.forget_spot(run)
        pool.release(run.pods, run.task)
        self.evicted.append(run)

    def commit(self) -> list[Pod]:
        """Keep everything; hand over the pods placed."""
        pods = self.pods
        self.pods = []
        self.evicted = []
        return pods

    def rollback(self) -> None:
        """Undo everything: every card is where it was.

        Cards of evicted runs can only have gone to pods of this trial, so once these are gone they are free.
        """
        pool = self.pool
        if self._task is not None:
            pool.release(self.pods, self._task)
        for run in self.evicted:
            for pod in run.pods:
                pool.hold(pod, run.task)
            pool.register_spot(run)
        self.pods = []
        self.evicted = []
