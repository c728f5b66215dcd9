"""No gang starves under `gfs-plus`: nodes are reserved for the spot task that has waited too long.

Small tasks fit into every gap and go on taking the cards that a large one waits for. When a spot task has waited
for longer than `starvation_timeout`, enough nodes are closed to all other spot tasks, those with fewest spot cards
first; when the cards on them suffice, it starts there. One task at a time, the one that has waited longest. HP tasks
may use reserved nodes like any others. What it costs, cards that stand idle on reserved nodes, is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.ports import Attempt, TaskLimit
from gfs.core.run import End, Run
from gfs.core.state import PoolState
from gfs.domain.task import Role, Task
from gfs.domain.units import format_seconds
from gfs.policies.queues import Demand, SizedQueue


@dataclass(slots=True)
class ReservationCost:
    """What reserving nodes came to."""

    tasks: int = 0
    """Spot tasks that nodes were reserved for."""
    gpu_seconds: float = 0.0
    """Cards idle on reserved nodes x time, as seen at the checks."""


@dataclass(slots=True)
class ReservedNodes:
    """What is remembered of a reservation. Who waits since when is in the state."""

    checked: float = float("-inf")
    task: Task | None = None
    nodes: dict[Node, None] = field(default_factory=dict)


class Reservation(Listener):
    """Sees who waits, and says for whom nodes are reserved and which."""

    def __init__(self, state: PoolState, starvation_timeout: float, tick: float, cost: ReservationCost) -> None:
        """`tick`: seconds between two checks of who waits and which nodes to reserve."""
        self._pool = state.pool
        self._timeout, self._tick = starvation_timeout, tick
        self._cost = cost
        self.reserved = reserved = state.remember(ReservedNodes)
        if reserved.task is not None and reserved.task.index not in state.waiting:
            reserved.task, reserved.nodes = None, {}  # it has left while nobody here watched
        there = set(state.pool.nodes)
        for node in [node for node in reserved.nodes if node not in there]:
            del reserved.nodes[node]
        waiting = [each for each in state.waiting.values() if each.task.is_spot]
        waiting.sort(key=lambda each: (each.since, each.task.index))
        self._since = {each.task.index: (each.task, each.since) for each in waiting}
        """Task index -> spot task and since when it waits; by that, then by index."""
        self._started = False
        """Whether the task that nodes are reserved for has started in the pass that goes on."""
        self._tell: list[Callable[[Node], None]] = []
        state.listen(self)

    def observe(self, tell: Callable[[Node], None]) -> None:
        """Calls this function with every node that is reserved from now on, or no longer."""
        self._tell.append(tell)

    @property
    def task(self) -> Task | None:
        """For whom nodes are reserved."""
        return self.reserved.task

    def is_for(self, role: Role) -> bool:
        """Returns whether nodes are reserved for the role's task."""
        task = self.reserved.task
        return task is not None and task.index == role.index

    @property
    def nodes(self) -> dict[Node, None]:
        """The nodes that are reserved."""
        return self.reserved.nodes

    # -- what happens ------------------------------------------------------------------------------

    def submitted(self, task: Task, now: float) -> None:
        """A task has come."""
        if task.is_spot:
            self._queue(task, now)
        self._check(now)

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
        self._check(now)

    def withdrawn(self, task: Task, now: float) -> None:
        """Who is gone does not wait, and needs no nodes."""
        if task.is_spot:
            self._since.pop(task.index, None)
        if task is self.task:
            self._reserve(None, {})

    def passed(self, now: float) -> None:
        """The nodes of a task that has started are given free when the pass is over."""
        task = self.task
        if self._started and task is not None:
            self._started = False
            self._since.pop(task.index, None)
            self._reserve(None, {})

    def _queue(self, task: Task, since: float) -> None:
        waiting = self._since
        latest, index = next(((at, last.index) for last, at in reversed(waiting.values())), (since, task.index))
        waiting[task.index] = (task, since)
        if (since, task.index) < (latest, index):  # it goes on with an earlier wait
            self._since = dict(sorted(waiting.items(), key=lambda entry: (entry[1][1], entry[0])))

    # -- what is reserved --------------------------------------------------------------------------

    def why(self) -> str:
        """Such as 'reserved for s17, which has waited 7.1 h'."""
        assert self.task is not None
        waited = self.reserved.checked - self._since[self.task.index][1]
        return f"reserved for {self.task.name}, which has waited {format_seconds(waited)}"

    def _check(self, now: float) -> None:
        reserved = self.reserved
        if now - reserved.checked < self._tick:
            return
        if reserved.task is not None:
            self._cost.gpu_seconds += (now - reserved.checked) * sum(node.idle for node in reserved.nodes)
        reserved.checked = now
        task = reserved.task or self._starving(now)
        if task is not None:
            nodes = self._nodes_for(task)
            self._reserve(task if nodes else None, nodes)

    def _starving(self, now: float) -> Task | None:
        """The task that has waited longest, if that is too long and it asks for whole cards."""
        for task, since in self._since.values():
            if now - since <= self._timeout:
                break
            if task.cards:
                return task
        return None

    def _nodes_for(self, task: Task) -> dict[Node, None]:
        """Nodes on which all its pods fit beside HP, none if there are not enough: fewest spot cards first."""
        reserved = self.reserved.nodes
        pool = self._pool
        able = [node for node in pool.nodes if pool.could_hold(node, task)]
        able.sort(key=lambda node: (node not in reserved, node.hp_free - node.idle, node.index))
        pods, chosen = 0, dict[Node, None]()
        for node in able:
            chosen[node] = None
            pods += pool.most_pods(node, task, node.hp_free // task.cards, without_spot=True)
            if pods >= task.pods:
                return chosen
        return {}

    def _reserve(self, task: Task | None, nodes: dict[Node, None]) -> None:
        reserved = self.reserved
        if task is not None and reserved.task is None:
            self._cost.tasks += 1
        before, reserved.task, reserved.nodes = reserved.nodes, task, nodes
        for node in (*before, *nodes):
            if (node in before) != (node in nodes):
                for tell in self._tell:
                    tell(node)


class ReservationQueue(SizedQueue):
    """Serves the task that nodes are reserved for first. The quota is not kept for it: others would wait for hours."""

    def __init__(self, reservation: Reservation, demand: Demand) -> None:
        super().__init__(demand)
        self._reservation = reservation

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Offer the waiting tasks, the one that nodes are reserved for first."""
        task = self._reservation.task
        if task is not None and attempt(task):
            self.remove(task)
        super().scan(attempt, pod_limit, task_limit)
