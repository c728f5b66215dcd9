"""The spot queue and the placer of `gfs-plus` mind what is kept for a task that has waited too long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gfs.core.index import Bucket
from gfs.core.node import Node
from gfs.core.ports import Attempt, TaskLimit
from gfs.core.state import PoolState
from gfs.domain.task import Task
from gfs.policies.gfs.apart import ApartPlacer
from gfs.policies.gfs.keeper import Keeper
from gfs.policies.queues import Asks, SizedQueue


class PatientQueue(SizedQueue):
    """Serves the task that nodes are kept for first; while others hold too much quota for it, nobody else."""

    def __init__(self, keeper: Keeper, asks: Asks) -> None:
        super().__init__(asks)
        self._keeper = keeper

    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """Newcomers get a chance unless the quota is kept."""
        if self._keeper.quota_closed and self._keeper.task is not None:
            for task in tasks:
                self.push(task)
        else:
            super().arrive(tasks, attempt)

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Offer the waiting tasks, the one that nodes are kept for first."""
        keeper = self._keeper
        task = keeper.task
        keeper.quota_closed = False
        if task is not None:
            hours = task.guarantee_hours
            over = task_limit(hours) < task.gpus
            if attempt(task):
                self.remove(task)
            elif over and task.gpus <= task_limit(hours) + keeper.held(hours):
                keeper.quota_closed = True
                return
        super().scan(attempt, pod_limit, task_limit)


class KeepingPlacer(ApartPlacer):
    """Keeps all spot tasks but one away from the nodes that are kept for that one."""

    def __init__(self, state: PoolState, keeper: Keeper, *, gamma: float, m: float) -> None:
        self._keeper = keeper
        super().__init__(state, gamma=gamma, m=m)
        self._anywhere = self.choose
        self.choose = self._choose_kept
        keeper.changed = self._refile

    def _choose_kept(self, task: Task) -> Node | None:
        if task is self._keeper.task:
            for node in self._keeper.nodes:
                if node.idle >= task.cards:
                    return node
        return self._anywhere(task)

    def ranked(self, task: Task) -> Iterator[Node]:
        """The nodes with cards for one more pod of the task, best first; those kept for it before all."""
        if task is self._keeper.task:
            yield from [node for node in self._keeper.nodes if node.idle >= task.cards]
        yield from super().ranked(task)

    def best_of(self, task: Task, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod; None if it refuses them."""
        if task is self._keeper.task:
            nodes = set(nodes)
            kept = next((node for node in self._keeper.nodes if node in nodes), None)
            if kept is not None:
                return kept
        return super().best_of(task, nodes)

    def _marked(self, node: Node) -> bool:
        return super()._marked(node) or node in self._keeper.nodes

    def _special_bucket(self, node: Node) -> Bucket:
        bucket = super()._special_bucket(node)
        if node not in self._keeper.nodes:
            return bucket
        return self._index.bucket(node.idle, node.room, tuple(self._without_spot(bucket.ranks)))

    def closed(self, task: Task) -> tuple[int, str]:
        """Nodes with idle cards for a pod of this spot task that it is kept away from, and for whom."""
        keeper = self._keeper
        why = keeper.why() if keeper.task is not None and task is not keeper.task else ""
        tired, _ = super().closed(task)
        if not task.is_spot or task is keeper.task:
            return tired, why
        return tired + sum(node.idle >= max(task.cards, 1) for node in keeper.nodes), why
