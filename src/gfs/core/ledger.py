"""The books of promises: guarantee periods kept and runs evicted (F and G of the paper's eq. for the cost).

Our reading: a spot run completes one period for every H hours it lasts, and a run that finishes
inside a period has completed that one too, for its promise was kept.
"""

from __future__ import annotations

from collections import deque
from math import ceil

from gfs.core.run import Run
from gfs.domain.execution import PROGRESS_EPS


class GuaranteeLedger:
    """Counts completed guarantee periods and evicted runs of one pool up to now."""

    def __init__(self) -> None:
        self.evicted = 0
        """F: spot runs evicted so far."""
        self._completed = 0
        self._by_guarantee: dict[float, list[int]] = {}
        """Guarantee in seconds -> runs evicted and periods completed so far."""
        self._due: dict[float, deque[tuple[float, Run]]] = {}
        self._kept: dict[Run, int] = {}
        """Running spot run -> its periods completed so far."""

    def started(self, run: Run, now: float) -> None:
        """A spot run begins its first period."""
        self._advance(now)
        seconds = run.task.guarantee_seconds
        self._kept[run] = 0
        if seconds not in self._due:
            self._due[seconds] = deque()
            self._by_guarantee[seconds] = [0, 0]
        self._due[seconds].append((run.start + seconds, run))

    def finished(self, run: Run, now: float) -> None:
        """A spot run, still marked alive, is done: the period it was in counts as kept."""
        self._advance(now)
        seconds = run.task.guarantee_seconds
        periods = ceil((now - run.start - PROGRESS_EPS) / seconds)
        newly = max(periods, 1) - self._kept.pop(run)
        self._completed += newly
        self._by_guarantee[seconds][1] += newly

    def broken(self, run: Run, now: float) -> None:
        """A spot run, still marked alive, is evicted: the period it was in is broken."""
        self._advance(now)
        del self._kept[run]
        self.evicted += 1
        self._by_guarantee[run.task.guarantee_seconds][0] += 1

    def completed(self, now: float) -> int:
        """G: guarantee periods completed by `now`."""
        self._advance(now)
        return self._completed

    def counts(self, guarantee_seconds: float, now: float) -> tuple[int, int]:
        """Runs evicted and periods completed by `now`, of tasks with at least this guarantee."""
        self._advance(now)
        evicted = completed = 0
        for seconds, (broken, kept) in self._by_guarantee.items():
            if seconds >= guarantee_seconds:
                evicted += broken
                completed += kept
        return evicted, completed

    def _advance(self, now: float) -> None:
        # Each queue stays sorted: a period that ends between the last call and now is renewed to an end
        # later than every end already queued.
        for seconds, queue in self._due.items():
            while queue and queue[0][0] <= now:
                end, run = queue.popleft()
                if run.alive:
                    self._completed += 1
                    self._by_guarantee[seconds][1] += 1
                    self._kept[run] += 1
                    queue.append((end + seconds, run))
