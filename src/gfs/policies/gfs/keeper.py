"""No gang starves under `gfs-plus`: nodes are kept for the spot task that has waited too long.

Small tasks fit into every gap and go on taking the cards that a large one waits for. When a spot task has waited
for longer than `patience`, enough nodes are closed to all other spot tasks, those with fewest spot cards first;
when the cards on them suffice, it starts there. One task at a time, the one that has waited longest. HP tasks may
use kept nodes like any others. What it costs, cards that stand idle on kept nodes, is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.run import End, Run
from gfs.core.state import PoolState
from gfs.domain.task import Task
from gfs.domain.units import MICRO, format_seconds
from gfs.policies.displace import could_hold

LOOK = 300.0
"""Seconds between two looks at who waits and which nodes to keep."""


@dataclass(slots=True)
class KeptCards:
    """What keeping nodes came to."""

    tasks: int = 0
    """Spot tasks that nodes were kept for."""
    gpu_seconds: float = 0.0
    """Cards idle on kept nodes x time, as seen at the looks."""


@dataclass(slots=True)
class Kept:
    """What is remembered: for whom nodes are kept, and which. Who waits since when is in the state."""

    looked: float = float("-inf")
    task: Task | None = None
    nodes: dict[Node, None] = field(default_factory=dict)
    quota_closed: bool = False
    """Whether the quota is left to that task."""


class Keeper(Listener):
    """Sees who waits, and says for whom nodes are kept and which."""

    def __init__(self, state: PoolState, patience: float, cost: KeptCards) -> None:
        self._pool = state.pool
        self._patience = patience
        self._cost = cost
        self._kept = kept = state.remember("kept nodes", Kept)
        if kept.task is not None and kept.task.index not in state.waiting:
            kept.task, kept.nodes = None, {}  # it has left while nobody here watched
        there = set(state.pool.nodes)
        for node in [node for node in kept.nodes if node not in there]:
            del kept.nodes[node]
        waiting = [each for each in state.waiting.values() if each.task.is_spot]
        waiting.sort(key=lambda each: (each.since, each.task.index))
        self._since = {each.task.index: (each.task, each.since) for each in waiting}
        """Task index -> spot task and since when it waits; by that, then by index."""
        self._started = False
        """Whether the task that nodes are kept for has started in the pass that goes on."""
        self.changed: Callable[[Node], None] = lambda node: None
        """Told of every node that is kept from now on, or no longer."""
        state.listen(self)

    @property
    def task(self) -> Task | None:
        """For whom nodes are kept."""
        return self._kept.task

    @property
    def nodes(self) -> dict[Node, None]:
        """The nodes that are kept."""
        return self._kept.nodes

    @property
    def quota_closed(self) -> bool:
        """Whether the quota is left to the task that nodes are kept for."""
        return self._kept.quota_closed

    @quota_closed.setter
    def quota_closed(self, closed: bool) -> None:
        self._kept.quota_closed = closed

    # -- what happens ------------------------------------------------------------------------------

    def submitted(self, task: Task, now: float) -> None:
        """A task has come."""
        if task.is_spot:
            self._queue(task, now)
        self._look(now)

    def started(self, run: Run, now: float) -> None:
        """Who starts waits no longer."""
        if run.task is self.task:
            self._started = True
        elif run.task.is_spot:
            self._since.pop(run.task.index, None)

    def ended(self, run: Run, end: End, now: float) -> None:
        """Who was stopped waits again."""
        task = run.task
        if task.is_spot and end.waits_again:
            self._queue(task, run.since if end is End.START_FAILED else now)

    def finished(self, run: Run, now: float) -> None:
        """Time has passed."""
        self._look(now)

    def withdrawn(self, task: Task, now: float) -> None:
        """Who is gone does not wait, and needs no nodes."""
        if task.is_spot:
            self._since.pop(task.index, None)
        if task is self.task:
            self._keep_for(None, {})

    def passed(self, now: float) -> None:
        """The nodes of a task that has started are given free when the pass is over."""
        task = self.task
        if self._started and task is not None:
            self._started = False
            self._since.pop(task.index, None)
            self._keep_for(None, {})

    def _queue(self, task: Task, since: float) -> None:
        waiting = self._since
        latest, index = next(((at, last.index) for last, at in reversed(waiting.values())), (since, task.index))
        waiting[task.index] = (task, since)
        if (since, task.index) < (latest, index):  # it goes on with an earlier wait
            self._since = dict(sorted(waiting.items(), key=lambda entry: (entry[1][1], entry[0])))

    # -- what is kept ------------------------------------------------------------------------------

    def held(self, hours: float) -> float:
        """GPUs of running spot tasks that count against a quota for so many hours."""
        return self._pool.spot_held(hours) / MICRO

    def why(self) -> str:
        """Such as 'kept for s17, which has waited 7.1 h'."""
        assert self.task is not None
        waited = self._kept.looked - self._since[self.task.index][1]
        return f"kept for {self.task.name}, which has waited {format_seconds(waited)}"

    def _look(self, now: float) -> None:
        kept = self._kept
        if now - kept.looked < LOOK:
            return
        if kept.task is not None:
            self._cost.gpu_seconds += (now - kept.looked) * sum(node.idle for node in kept.nodes)
        kept.looked = now
        task = kept.task or self._starving(now)
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
        kept = self._kept.nodes
        pool = self._pool
        able = [node for node in pool.nodes if could_hold(pool, node, task)]
        able.sort(key=lambda node: (node not in kept, node.hp_free - node.idle, node.index))
        pods, chosen = 0, dict[Node, None]()
        for node in able:
            chosen[node] = None
            pods += pool.most_pods(node, task, node.hp_free // task.cards, without_spot=True)
            if pods >= task.pods:
                return chosen
        return {}

    def _keep_for(self, task: Task | None, nodes: dict[Node, None]) -> None:
        kept = self._kept
        if task is not None and kept.task is None:
            self._cost.tasks += 1
        before, kept.task, kept.nodes = kept.nodes, task, nodes
        for node in (*before, *nodes):
            if (node in before) != (node in nodes):
                self.changed(node)
