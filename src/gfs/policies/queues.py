"""The orders in which waiting tasks get their chance.

Each queue keeps its tasks by per-pod size, so that a pass tries only what could fit: once a size has
failed, what is as large or larger and asks for the same fails too, and a pass costs a few tries however long the
queue is. What a task asks for besides cards (`asks`) keeps it in a lane of its own. The heaps are plain ones, no
`LazyHeap`: a task that waits no longer is taken out at once, which is rare.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Sequence
from heapq import heapify, heappop, heappush

from gfs.core.ports import Attempt, Queue, TaskLimit
from gfs.domain.task import Task

Asks = Callable[[Task], Hashable]
"""What a task asks for besides cards: tasks with the same answer fit or fail alike."""


def _largest_first(task: Task) -> tuple[float, int, int]:
    """More GPUs per pod, then fewer pods, then earlier submission and id."""
    return (-task.gpus_per_pod, task.pods, task.index)


class SizedQueue(Queue):
    """GFS: more GPUs per pod first, then fewer pods, then earlier submission, then id.

    A size that failed in a pass is not tried again in it for tasks with the same guarantee that ask for the same.
    """

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self._sizes: list[float] = []
        """Minus the GPUs per pod that occur, so largest first."""
        self._lanes: dict[float, dict[tuple[float, Hashable], list[tuple[int, int, Task]]]] = {}
        """-GPUs per pod -> (guarantee hours, what else it asks) -> heap of (pods, index, task)."""
        self._length = 0

    def push(self, task: Task) -> None:
        """Add a task."""
        size = -task.gpus_per_pod
        lanes = self._lanes.get(size)
        if lanes is None:
            lanes = self._lanes[size] = {}
            insort(self._sizes, size)
        heappush(lanes.setdefault((task.guarantee_hours, self._asks(task)), []), (task.pods, task.index, task))
        self._length += 1

    def remove(self, task: Task) -> None:
        """Take a task out that waits no longer."""
        lane = self._lanes[-task.gpus_per_pod][task.guarantee_hours, self._asks(task)]
        lane.remove((task.pods, task.index, task))
        heapify(lane)
        self._length -= 1
        if not lane:
            self._drop_empty()

    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """Newcomers: others of their size that wait do not fit, which says nothing about these."""
        if len(tasks) > 1:
            tasks = sorted(tasks, key=_largest_first)
        for task in tasks:
            if not attempt(task):
                self.push(task)

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Offer the waiting tasks in order."""
        if not self._length:
            return
        sizes, emptied = self._sizes, False
        limits: dict[float, float] = {}  # by guarantee; they stand until a task starts
        for position in range(bisect_left(sizes, -pod_limit), len(sizes)):
            size = sizes[position]
            heads = []
            for (hours, _), lane in self._lanes[size].items():
                if lane:
                    if hours not in limits:
                        limits[hours] = task_limit(hours)
                    if lane[0][2].gpus <= limits[hours]:
                        heads.append(lane)
            while heads:
                lane = min(heads) if len(heads) > 1 else heads[0]
                if attempt(lane[0][2]):
                    heappop(lane)
                    self._length -= 1
                    limits.clear()
                    if lane:
                        continue
                    emptied = True
                heads.remove(lane)
        if emptied:
            self._drop_empty()

    def _drop_empty(self) -> None:
        for size, lanes in list(self._lanes.items()):
            for key in [key for key, lane in lanes.items() if not lane]:
                del lanes[key]
            if not lanes:
                del self._lanes[size]
                self._sizes.remove(size)


class HeadBlockingQueue(Queue):
    """First come, first served, and nobody overtakes: a head that does not fit blocks the rest (YARN-CS)."""

    def __init__(self, asks: Asks) -> None:
        """What tasks ask for makes no difference: the head's turn comes first, whatever it is."""
        self._heap: list[tuple[int, Task]] = []

    def push(self, task: Task) -> None:
        """Add a task; one that comes back after an eviction keeps its place by submission."""
        heappush(self._heap, (task.index, task))

    def remove(self, task: Task) -> None:
        """Take a task out that waits no longer."""
        self._heap.remove((task.index, task))
        heapify(self._heap)

    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """A newcomer gets a chance only if nobody waits."""
        for task in tasks:
            if self._heap or not attempt(task):
                self.push(task)

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Serve from the head until one does not fit."""
        heap = self._heap
        while heap and heap[0][1].gpus_per_pod <= pod_limit and attempt(heap[0][1]):
            heappop(heap)

    def head(self) -> Task:
        """Whoever is served next."""
        return self._heap[0][1]


class FcfsQueue(Queue):
    """First come, first served, but a task that does not fit lets the next one try (static, FGD)."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self._lanes: dict[tuple[float, int, float, Hashable], list[tuple[int, Task]]] = {}
        """(GPUs per pod, pods, guarantee hours, what else) -> heap of (index, task): equals fail or fit alike."""
        self._length = 0

    def _key(self, task: Task) -> tuple[float, int, float, Hashable]:
        return task.gpus_per_pod, task.pods, task.guarantee_hours, self._asks(task)

    def push(self, task: Task) -> None:
        """Add a task."""
        heappush(self._lanes.setdefault(self._key(task), []), (task.index, task))
        self._length += 1

    def remove(self, task: Task) -> None:
        """Take a task out that waits no longer."""
        lane = self._lanes[self._key(task)]
        lane.remove((task.index, task))
        heapify(lane)
        self._length -= 1
        if not lane:
            del self._lanes[self._key(task)]

    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """A newcomer may go while others wait for more room."""
        for task in tasks:
            if not attempt(task):
                self.push(task)

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Offer the waiting tasks by submission; once one has failed, nothing as large has to try."""
        if not self._length:
            return
        limits = {hours: task_limit(hours) for hours in {key[2] for key in self._lanes}}
        heads = [
            (lane[0][0], key)
            for key, lane in self._lanes.items()
            if key[0] <= pod_limit and lane[0][1].gpus <= limits[key[2]]
        ]
        heapify(heads)
        failed: list[tuple[float, int, float, Hashable]] = []
        while heads:
            size, pods, hours, asks = key = heappop(heads)[1]
            if any(size >= s and pods >= p and hours == h and asks == a for s, p, h, a in failed):
                continue
            lane = self._lanes[key]
            if attempt(lane[0][1]):
                heappop(lane)
                self._length -= 1
                if lane:
                    heappush(heads, (lane[0][0], key))
                else:
                    del self._lanes[key]
            else:
                failed.append(key)
