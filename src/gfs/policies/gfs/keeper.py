"""No gang starves under `gfs-plus`: nodes are kept for the spot task that has waited too long.

Small tasks fit into every gap and go on taking the cards that a large one waits for. When a spot task has waited
for longer than `patience`, enough nodes are closed to all other spot tasks, those with fewest spot cards first;
when the cards on them suffice, it starts there. One task at a time, the one that has waited longest. HP tasks may
use kept nodes like any others. What it costs, cards that stand idle on kept nodes, is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gfs.core.actions import Plan
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.domain.units import MICRO, format_seconds

LOOK = 300.0
"""Seconds between two looks at who waits and which nodes to keep."""


@dataclass(slots=True)
class KeptCards:
    """What keeping nodes came to."""

    tasks: int = 0
    """Spot tasks that nodes were kept for."""
    gpu_seconds: float = 0.0
    """Cards idle on kept nodes x time, as seen at the looks."""


class Keeper:
    """Sees who waits, and says for whom nodes are kept and which."""

    def __init__(self, pool: Pool, patience: float, cost: KeptCards) -> None:
        self._pool = pool
        self._patience = patience
        self._cost = cost
        self._since: dict[int, tuple[Task, float]] = {}
        """Task index -> spot task and since when it waits; the first one waits longest."""
        self._looked = float("-inf")
        self.task: Task | None = None
        """For whom nodes are kept."""
        self.nodes: dict[Node, None] = {}
        """The nodes that are kept."""
        self.changed: Callable[[Node], None] = lambda node: None
        """Told of every node that is kept from now on, or no longer."""

    # -- what happens ------------------------------------------------------------------------------

    def arrived(self, tasks: Sequence[Task], now: float) -> None:
        """Tasks have been submitted."""
        for task in tasks:
            if task.kind:
                self._since[task.index] = (task, now)
        self._look(now)

    def finished(self, run: Run, now: float) -> None:
        """A run is done."""
        self._look(now)

    def decided(self, plan: Plan, now: float) -> None:
        """The evicted wait again, those who start no longer."""
        for eviction in plan.evictions:
            self._since[eviction.run.task.index] = (eviction.run.task, now)
        for run in plan.starts:
            if run.task.kind:
                del self._since[run.task.index]
                if run.task is self.task:
                    self._keep_for(None, {})

    # -- what is kept ------------------------------------------------------------------------------

    def spot_held(self, hours: float) -> float:
        """GPUs of running spot tasks that count against a quota for so many hours."""
        return self._pool.spot_held(hours) / MICRO

    def why(self) -> str:
        """Such as 'kept for s17, which has waited 7.1 h'."""
        assert self.task is not None
        waited = self._looked - self._since[self.task.index][1]
        return f"kept for {self.task.name}, which has waited {format_seconds(waited)}"

    def _look(self, now: float) -> None:
        if now - self._looked < LOOK:
            return
        if self.task is not None:
            self._cost.gpu_seconds += (now - self._looked) * sum(node.idle for node in self.nodes)
        self._looked = now
        task = self.task or self._starving(now)
        if task is not None:
            nodes = self._nodes_for(task)
            self._keep_for(task if nodes else None, nodes)

    def _starving(self, now: float) -> Task | None:
        """The task that has waited longest, if that is too long and it asks for whole cards."""
        for task, since in self._since.values():
            if now - since <= self._patience:
                break
            if task.cards:
                return task
        return None

    def _nodes_for(self, task: Task) -> dict[Node, None]:
        """Nodes on which all its pods fit beside HP, none if there are not enough: fewest spot cards first."""
        able = [node for node in self._pool.nodes if node.total - node.hp_cards >= task.cards]
        able.sort(key=lambda node: (node not in self.nodes, node.total - node.hp_cards - node.idle, node.index))
        pods, chosen = 0, dict[Node, None]()
        for node in able:
            chosen[node] = None
            pods += (node.total - node.hp_cards) // task.cards
            if pods >= task.pods:
                return chosen
        return {}

    def _keep_for(self, task: Task | None, nodes: dict[Node, None]) -> None:
        if task is not None and self.task is None:
            self._cost.tasks += 1
        before, self.task, self.nodes = self.nodes, task, nodes
        for node in (*before, *nodes):
            if (node in before) != (node in nodes):
                self.changed(node)
