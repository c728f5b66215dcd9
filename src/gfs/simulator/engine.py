"""The simulated cluster: a clock, what runs when it will finish, and the one loop.

Arrivals come from the sorted workload, everything that begins or finishes from a heap of (time, sequence
number, ...). All that falls on one instant goes to the scheduler together; its plan is carried out at once.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import floor, inf

from gfs.core.actions import EVICT, FINISH, NOTHING, START, SUBMIT, Eviction, Record
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.domain.errors import StuckError
from gfs.domain.execution import ExecutionRules
from gfs.domain.garbage import uncollected
from gfs.domain.task import Task
from gfs.domain.units import DAY
from gfs.domain.workload import Workload

PATIENCE = 14 * DAY
"""Simulated time without arrivals and without anything running after which what still waits is stuck."""

Heap = list[tuple[float, int, Run | None, bool]]
"""(time, sequence number, run, whether it begins rather than finishes then); no run: a moment asked for."""

Progress = Callable[[int], None]
"""Told now and then how many tasks have finished."""


class Engine:
    """Runs a workload through a scheduler until every task has finished."""

    def __init__(
        self,
        workload: Workload,
        scheduler: Scheduler,
        record: Callable[[Record], None],
        *,
        rules: ExecutionRules,
        tick: float = 300.0,
        progress: Progress | None = None,
    ) -> None:
        self._workload = workload
        self._scheduler = scheduler
        self._record = record
        self._rules = rules
        self._tick = tick
        self._progress = progress
        self._remaining: dict[int, float] = {}
        """Task index -> work left in seconds, for tasks that were evicted."""

    def run(self) -> None:
        """Simulate to the end."""
        with uncollected():  # to collect would cost a fifth of the time
            self._loop()

    def _loop(self) -> None:
        tasks, tick, record, remaining = self._workload.tasks, self._tick, self._record, self._remaining
        handle, sequence = self._scheduler.handle, count(1)
        heap: Heap = []

        def begin(run: Run) -> None:
            """A run's pods start; it will finish when what is left of its work is done."""
            task = run.task
            left = task.duration if run.number == 1 else remaining[task.index]
            record((run.start, START, task, run, run.waited_for))
            heappush(heap, (run.progress_from + left, next(sequence), run, False))

        total, following, done, last_moved = len(tasks), 0, 0, inf
        next_arrival = tasks[0].submit_time if tasks else inf
        next_tick = _first_tick(next_arrival, tick)
        nobody: list[Run] = []  # stand for empty lists in the many instants with one event; never added to
        nothing: list[Task] = []
        while done < total:
            now = next_arrival if next_arrival < next_tick else next_tick
            finished, settled, arrived, woken = nobody, nobody, nothing, False
            if heap and heap[0][0] <= now:
                now = heap[0][0]
                finished, settled = [], []
                while heap and heap[0][0] == now:
                    _, _, run, begins = heappop(heap)
                    if run is None:
                        woken = True
                    elif begins:
                        begin(run)
                        settled.append(run)
                    elif run.alive:
                        finished.append(run)
                        record((now, FINISH, run.task, run, None))
                        done += 1
                        last_moved = now
            if next_arrival == inf and now > last_moved + max(PATIENCE, 2 * tick) and not _lives(heap):
                raise self._stuck(total - done)
            if next_arrival == now:
                arrived = []
                while next_arrival == now:
                    task = tasks[following]
                    arrived.append(task)
                    record((now, SUBMIT, task, None, None))
                    following += 1
                    next_arrival = tasks[following].submit_time if following < total else inf
                last_moved = now
            if now == next_tick:
                next_tick += tick
                plan = handle(now, finished, True, arrived, settled, woken)
                if self._progress:
                    self._progress(done)
            elif finished or arrived or settled or woken:
                plan = handle(now, finished, False, arrived, settled, woken)
            else:
                continue  # only the end of a run that was evicted before it came
            if plan is NOTHING:
                continue
            for eviction in plan.evictions:
                self._stop(now, eviction)
            for run in plan.starts:
                if run.start > now:
                    heappush(heap, (run.start, next(sequence), run, True))
                else:
                    begin(run)
            if plan.wake != inf:
                heappush(heap, (plan.wake, next(sequence), None, True))

    def _stop(self, now: float, eviction: Eviction) -> None:
        """An evicted run keeps what it had saved."""
        run, reason, keeps_progress = eviction
        task = run.task
        left = self._remaining.get(task.index, task.duration)
        if keeps_progress:
            saved = max(0.0, now - run.progress_from)
        else:
            saved = self._rules.saved(task, run.number, now - run.start)
        self._remaining[task.index] = left - saved
        self._record((now, EVICT, task, run, reason))

    def _stuck(self, tasks: int) -> StuckError:
        lines = [f"{tasks} tasks can never start, though the cluster is empty. The first of them:"]
        for task, reason in list(self._scheduler.waiting())[:5]:
            lines.append(f"  {task.name}: {task.pods} pods x {task.gpus_per_pod:g} GPUs: {reason.text()}")
        lines.append(
            "Nothing has moved for days of simulated time. Take these tasks out of the trace or, where the spot"
            " quota is the reason, raise it (for example --set quota_share=0.5)."
        )
        return StuckError("\n".join(lines))


def _lives(heap: Heap) -> bool:
    """Whether a run in the heap will still begin or finish."""
    return any(run is not None and run.alive for _, _, run, _ in heap)


def _first_tick(start: float, tick: float) -> float:
    """The first multiple of `tick` at or after `start`."""
    if start == inf:
        return inf
    ticks = floor(start / tick)
    return ticks * tick if ticks * tick >= start else (ticks + 1) * tick
