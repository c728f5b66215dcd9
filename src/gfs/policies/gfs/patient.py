"""The spot queue and the placer of `gfs-plus` mind what is kept for a task that has waited too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify

from gfs.core.index import Bucket
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Attempt, Lengths, TaskLimit
from gfs.domain.task import Task
from gfs.policies.gfs.apart import ApartPlacer
from gfs.policies.gfs.keeper import Keeper
from gfs.policies.queues import SizedQueue


class PatientQueue(SizedQueue):
    """Serves the task that nodes are kept for first; while others hold too much quota for it, nobody else."""

    def __init__(self, keeper: Keeper, lengths: Callable[[Task], Lengths]) -> None:
        super().__init__(lengths)
        self._keeper = keeper
        self._closed = False
        """Whether the quota is left to the task that nodes are kept for."""

    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """Newcomers get a chance unless the quota is kept."""
        if self._closed and self._keeper.task is not None:
            for task in tasks:
                self.push(task)
        else:
            super().arrive(tasks, attempt)

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Offer the waiting tasks, the one that nodes are kept for first."""
        task = self._keeper.task
        self._closed = False
        if task is not None:
            lengths = self._lengths(task)
            over = task_limit(lengths) < task.gpus
            if attempt(task):
                self._remove(task)
            elif over and any(task.gpus <= task_limit((h,)) + self._keeper.spot_held(h) for h in lengths):
                self._closed = True
                return
        super().scan(attempt, pod_limit, task_limit)

    def _remove(self, task: Task) -> None:
        lane = self._lanes[-task.gpus_per_pod][self._lengths(task)]
        lane.remove((task.pods, task.index, task))
        heapify(lane)
        self._length -= 1
        if not lane:
            self._drop_empty()


class KeepingPlacer(ApartPlacer):
    """Keeps all spot tasks but one away from the nodes that are kept for that one."""

    def __init__(self, pool: Pool, keeper: Keeper, *, gamma: float, m: float) -> None:
        self._keeper = keeper
        super().__init__(pool, gamma=gamma, m=m)
        self._anywhere = self.choose
        self.choose = self._choose_kept
        keeper.changed = self._history_changed

    def _choose_kept(self, task: Task) -> Node | None:
        if task is self._keeper.task:
            for node in self._keeper.nodes:
                if node.idle >= task.cards:
                    return node
        return self._anywhere(task)

    def _marked(self, node: Node) -> bool:
        return super()._marked(node) or node in self._keeper.nodes

    def _special_bucket(self, node: Node) -> Bucket:
        bucket = super()._special_bucket(node)
        if node not in self._keeper.nodes:
            return bucket
        return self._index.bucket(node.idle, node.room, tuple(self._without_spot(bucket.ranks)))

    def closed(self, task: Task) -> int:
        """Nodes with idle cards for a pod of this spot task that it is kept away from."""
        if not task.kind or task is self._keeper.task:
            return super().closed(task)
        return super().closed(task) + sum(node.idle >= max(task.cards, 1) for node in self._keeper.nodes)

    def why_closed(self, task: Task) -> str:
        """Who the nodes are kept for; nothing if none are: then it is recent evictions."""
        keeper = self._keeper
        return keeper.why() if keeper.task is not None and task is not keeper.task else ""
