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
from gfs.core.run import Run
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
    """GPUs idle on reserved nodes x time, as seen at the checks."""


@dataclass(slots=True)
class ReservedNodes:
    """What is remembered of a reservation."""

    checked: float = float("-inf")
    task: Task | None = None
    since: float = 0.0
    """When the task began to wait."""
    nodes: dict[Node, None] = field(default_factory=dict)


class Reservation(Listener):
    """Says for which task nodes are reserved, and which."""

    def __init__(self, state: PoolState, starvation_timeout: float, tick: float, cost: ReservationCost) -> None:
        """`tick`: seconds between two checks of which tasks wait and which nodes to reserve."""
        self._pool, self._waiting = state.pool, state.waiting
        self._timeout, self._tick = starvation_timeout, tick
        self._cost = cost
        self.reserved = reserved = state.remember(ReservedNodes)
        if reserved.task is not None and reserved.task.index not in state.waiting:
            reserved.task, reserved.nodes = None, {}  # it has left in the meantime
        there = set(state.pool.nodes)
        reserved.nodes = {node: None for node in reserved.nodes if node in there}
        self._started = False
        """Whether the task that nodes are reserved for has started in the pass that goes on."""
        self._tell: list[Callable[[Node], None]] = []
        state.listen(self)

    def observe(self, tell: Callable[[Node], None]) -> None:
        """Calls this function with every node that is reserved from now on, or no longer."""
        self._tell.append(tell)

    @property
    def task(self) -> Task | None:
        """The task that nodes are reserved for."""
        return self.reserved.task

    @property
    def nodes(self) -> dict[Node, None]:
        """The nodes that are reserved."""
        return self.reserved.nodes

    def is_for(self, role: Role) -> bool:
        """Returns whether nodes are reserved for the role's task."""
        return self.reserved.task is not None and self.reserved.task.index == role.index

    def why(self) -> str:
        """Returns such as 'reserved for s17, which has waited 7.1 h'."""
        reserved = self.reserved
        assert reserved.task is not None
        return (
            f"reserved for {reserved.task.name}, which has waited {format_seconds(reserved.checked - reserved.since)}"
        )

    def submitted(self, task: Task, now: float) -> None:
        """Checks, if it is time to."""
        self._check(now)

    def finished(self, run: Run, now: float) -> None:
        """Checks, if it is time to."""
        self._check(now)

    def started(self, run: Run, now: float) -> None:
        """Notes that the reserved nodes have served their purpose."""
        self._started = self._started or run.task is self.task

    def passed(self, now: float) -> None:
        """Gives the nodes of a task that has started free, when the pass is over."""
        if self._started:
            self._started = False
            self._reserve(None, {})

    def withdrawn(self, task: Task, now: float) -> None:
        """Gives the nodes of a task that is gone free."""
        if task is self.task:
            self._reserve(None, {})

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
        """Returns the spot task that nodes can be reserved for that has waited longest, if that is too long."""
        latest = now - self._timeout
        late = [each for each in self._waiting.values() if each.since < latest and _can_reserve(each.task)]
        first = min(late, key=lambda each: (each.since, each.task.index), default=None)
        return first.task if first is not None else None

    def _nodes_for(self, task: Task) -> dict[Node, None]:
        """Returns nodes on which all its pods fit beside HP, fewest spot GPUs first; none if there are not enough."""
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
            reserved.since = self._waiting[task.index].since
        before, reserved.task, reserved.nodes = reserved.nodes, task, nodes
        for node in (*before, *nodes):
            if (node in before) != (node in nodes):
                for tell in self._tell:
                    tell(node)


def _can_reserve(task: Task) -> bool:
    return task.is_spot and task.cards > 0 and not task.mixed and not task.topology_key


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
