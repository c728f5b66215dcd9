"""The orders in which waiting tasks get their chance.

An order is a list of criteria, compared one after the other; the last one, the index of a task, is unique. Tasks that
ask for the same stand in one lane: when the first of them fails, all of them do. So a pass costs a few tries however
long the queue is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from heapq import heapify, heappop, heappush

from gfs.core.ports import Attempt, Queue, TaskLimit
from gfs.domain.task import Task

Criterion = Callable[[Task], float]
"""What is compared, lower first."""

Demand = Callable[[Task], Hashable]
"""What decides where a task fits besides its GPUs (`Pool.demand`): equals fit or fail alike."""


def higher_urgency(task: Task) -> float:
    """The task with the higher priority comes first."""
    return -task.urgency


def larger_pods(task: Task) -> float:
    """The task with more GPUs per pod comes first."""
    return -task.gpus_per_pod


def fewer_pods(task: Task) -> float:
    """The task with fewer pods comes first."""
    return task.pods


def earlier(task: Task) -> float:
    """The task that was submitted earlier comes first, of two in one instant the one with the lower id."""
    return task.index


LARGEST_FIRST: tuple[Criterion, ...] = (higher_urgency, larger_pods, fewer_pods, earlier)
FIRST_COME: tuple[Criterion, ...] = (higher_urgency, earlier)

Key = tuple[float, ...]
"""What a task is compared by: the values of the criteria."""


def key_of(order: Sequence[Criterion], task: Task) -> Key:
    """Returns the values of the criteria for a task."""
    return tuple([criterion(task) for criterion in order])


Lane = tuple[float, int, float, float, Hashable]
"""GPUs per pod, pods, GPUs, guarantee hours and demand of the tasks that stand in it."""


class OrderedQueue(Queue):
    """Serves tasks in the order of its criteria; one that does not fit lets the next one try."""

    order: tuple[Criterion, ...] = FIRST_COME

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._lanes: dict[Lane, list[tuple[Key, Task]]] = {}
        """Lane -> heap of its tasks with their keys."""

    def _key(self, task: Task) -> Key:
        return key_of(self.order, task)

    def _lane(self, task: Task) -> Lane:
        return task.gpus_per_pod, task.pods, task.gpus, task.guarantee_hours, self._demand(task)

    def push(self, task: Task) -> None:
        """Adds a task; one that comes back after an eviction keeps its place by submission."""
        heappush(self._lanes.setdefault(self._lane(task), []), (self._key(task), task))

    def remove(self, task: Task) -> None:
        """Takes out a task that waits no longer."""
        lane = self._lane(task)
        tasks = self._lanes[lane]
        tasks.remove((self._key(task), task))
        heapify(tasks)
        if not tasks:
            del self._lanes[lane]

    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """Tries newcomers in order: that others wait says nothing about these."""
        for task in sorted(tasks, key=self._key) if len(tasks) > 1 else tasks:
            if not attempt(task):
                self.push(task)

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Offers the waiting tasks in order. Once one has failed, none that asks for as much has to try."""
        heads = [(tasks[0][0], lane) for lane, tasks in self._lanes.items() if lane[0] <= pod_limit]
        heapify(heads)
        limits: dict[float, float] = {}  # by guarantee; they stand until a task starts
        failed: dict[tuple[float, Hashable], list[tuple[float, int]]] = {}
        while heads:
            lane = heappop(heads)[1]
            size, pods, gpus, hours, demand = lane
            if hours not in limits:
                limits[hours] = task_limit(hours)
            tasks = self._lanes[lane]
            if gpus > limits[hours]:
                continue
            too_large = failed.get((hours, demand), ())
            if any(size >= s and pods >= p for s, p in too_large):
                continue
            if attempt(tasks[0][1]):
                heappop(tasks)
                limits.clear()
                if tasks:
                    heappush(heads, (tasks[0][0], lane))
                else:
                    del self._lanes[lane]
            else:
                failed.setdefault((hours, demand), []).append((size, pods))


class FcfsQueue(OrderedQueue):
    """First come, first served, but a task that does not fit lets the next one try (static, FGD)."""


class SizedQueue(OrderedQueue):
    """GFS: more GPUs per pod first, then fewer pods, then earlier submission, then id."""

    order = LARGEST_FIRST


class HeadBlockingQueue(Queue):
    """First come, first served, and no task overtakes: a head that does not fit blocks the rest (YARN-CS)."""

    def __init__(self, demand: Demand) -> None:
        """What tasks ask for makes no difference: the head's turn comes first, whatever it is."""
        self._heap: list[tuple[Key, Task]] = []

    def push(self, task: Task) -> None:
        """Adds a task; one that comes back after an eviction keeps its place by submission."""
        heappush(self._heap, (key_of(FIRST_COME, task), task))

    def remove(self, task: Task) -> None:
        """Takes out a task that waits no longer."""
        self._heap.remove((key_of(FIRST_COME, task), task))
        heapify(self._heap)

    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """Tries a newcomer only if it would be the head."""
        for task in sorted(tasks, key=lambda task: key_of(FIRST_COME, task)):
            if (self._heap and self._heap[0][0] < key_of(FIRST_COME, task)) or not attempt(task):
                self.push(task)

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Serves from the head until one does not fit."""
        heap = self._heap
        while heap and heap[0][1].gpus_per_pod <= pod_limit and attempt(heap[0][1]):
            heappop(heap)

    def head(self) -> Task | None:
        """Returns the task that must be served next."""
        return self._heap[0][1] if self._heap else None
