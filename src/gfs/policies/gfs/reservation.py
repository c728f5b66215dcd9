"""No gang starves under `gfs-plus`: nodes are reserved for the spot task that has waited too long.

Small tasks fit into every gap and go on taking the cards that a large one waits for. When a spot task has waited
for longer than `starvation_timeout`, enough nodes are closed to all other spot tasks, those with fewest spot cards
first; when the cards on them suffice, it starts there. One task at a time, the one that has waited longest. HP tasks
may use reserved nodes like any others. What it costs, cards that stand idle on reserved nodes, is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gfs.core.index import Bucket
from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.ports import Attempt, TaskLimit
from gfs.core.run import End, Run
from gfs.core.state import PoolState
from gfs.domain.task import Role, Task
from gfs.domain.units import format_seconds
from gfs.policies.gfs.scoring import ClassSeparatingPlacer
from gfs.policies.queues import Demand, SizedQueue

PAUSE = 9.0
"""After a reserved task has started nothing is reserved for so many times as long as that took. Where more spot work
comes than the quota lets through, everybody starves: to drain the quota for one after the other would waste it."""
CHECK_INTERVAL = 300.0
"""Seconds between two checks of who waits and which nodes to reserve."""


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
    begun: float = 0.0
    pause_until: float = 0.0
    """Until when nobody else gets nodes reserved."""


class Reservation(Listener):
    """Sees who waits, and says for whom nodes are reserved and which."""

    def __init__(self, state: PoolState, starvation_timeout: float, cost: ReservationCost) -> None:
        self._pool = state.pool
        self._timeout = starvation_timeout
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
        self._observers: list[Callable[[Node], None]] = []
        state.listen(self)

    def observe(self, tell: Callable[[Node], None]) -> None:
        """Tell this function of every node that is reserved from now on, or no longer."""
        self._observers.append(tell)

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
            self._reserve(None, {}, now)

    def passed(self, now: float) -> None:
        """The nodes of a task that has started are given free when the pass is over."""
        task = self.task
        if self._started and task is not None:
            self._started = False
            self._since.pop(task.index, None)
            self._reserve(None, {}, now)
            self.reserved.pause_until = now + PAUSE * (now - self.reserved.begun)

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
        if now - reserved.checked < CHECK_INTERVAL:
            return
        if reserved.task is not None:
            self._cost.gpu_seconds += (now - reserved.checked) * sum(node.idle for node in reserved.nodes)
        reserved.checked = now
        task = reserved.task or (self._starving(now) if now >= reserved.pause_until else None)
        if task is not None:
            nodes = self._nodes_for(task)
            self._reserve(task if nodes else None, nodes, now)

    def _starving(self, now: float) -> Task | None:
        """The task that has waited longest, if that is too long; of tasks of equal pods of whole GPUs on any nodes."""
        for task, since in self._since.values():
            if now - since <= self._timeout:
                break
            if task.cards and not task.mixed and not task.topology_key:
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

    def _reserve(self, task: Task | None, nodes: dict[Node, None], now: float) -> None:
        reserved = self.reserved
        if task is not None and reserved.task is None:
            self._cost.tasks += 1
            reserved.begun = now
        before, reserved.task, reserved.nodes = reserved.nodes, task, nodes
        for node in (*before, *nodes):
            if (node in before) != (node in nodes):
                for tell in self._observers:
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


class ReservationPlacer(ClassSeparatingPlacer):
    """Keeps all spot tasks but one away from the nodes that are reserved for that one."""

    def __init__(
        self, state: PoolState, reservation: Reservation, *, gamma: float, m: float, caution: Callable[[], float]
    ) -> None:
        self._reservation = reservation
        super().__init__(state, gamma=gamma, m=m, caution=caution)
        reservation.observe(self._refile)

    def choose(self, role: Role) -> Node | None:
        """The node for one more pod of the role: a reserved one first, if it is for its task."""
        if self._reservation.is_for(role):
            for node in self._reservation.nodes:
                if node.idle >= role.cards:
                    return node
        return super().choose(role)

    def ranked(self, role: Role) -> Iterator[Node]:
        """The nodes with GPUs for one more pod of the role, best first; those reserved for its task before all."""
        if self._reservation.is_for(role):
            yield from [node for node in self._reservation.nodes if node.idle >= role.cards]
        yield from super().ranked(role)

    def best_of(self, role: Role, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod; None if it refuses them."""
        if self._reservation.is_for(role):
            nodes = set(nodes)
            reserved = next((node for node in self._reservation.nodes if node in nodes), None)
            if reserved is not None:
                return reserved
        return super().best_of(role, nodes)

    def _marked(self, node: Node) -> bool:
        return super()._marked(node) or node in self._reservation.nodes

    def _special_bucket(self, node: Node) -> Bucket:
        bucket = super()._special_bucket(node)
        if node not in self._reservation.nodes:
            return bucket
        return self._index.bucket(node.idle, node.room, tuple(self._without_spot(bucket.ranks)))

    def kept_from_spot(self) -> dict[Node, Task | None]:
        """The nodes that are closed after evictions, and those reserved for a task."""
        return {**super().kept_from_spot(), **dict.fromkeys(self._reservation.nodes, self._reservation.task)}

    def closed(self, task: Task) -> tuple[int, str]:
        """Nodes with idle cards for a pod of this spot task that it is kept away from, and for whom."""
        reservation = self._reservation
        closed, why = super().closed(task)
        if reservation.task is not None and task is not reservation.task:
            why = reservation.why()
        if not task.is_spot or task is reservation.task:
            return closed, why
        return closed + sum(node.idle >= max(task.cards, 1) for node in reservation.nodes), why
