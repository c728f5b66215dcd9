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
        self._due: dict[float, deque[tuple[float, Run]]] = {}
        self._kept: dict[Run, int] = {}
        """Running spot run -> its periods completed so far."""

    def started(self, run: Run, now: float) -> None:
        """A spot run begins its first period."""
        self._advance(now)
        seconds = run.task.guarantee_seconds
        self._kept[run] = 0
        self._due.setdefault(seconds, deque()).append((run.start + seconds, run))

    def finished(self, run: Run, now: float) -> None:
        """A spot run, still marked alive, is done: the period it was in counts as kept."""
        self._advance(now)
        periods = ceil((now - run.start - PROGRESS_EPS) / run.task.guarantee_seconds)
        self._completed += max(periods, 1) - self._kept.pop(run)

    def broken(self, run: Run, now: float) -> None:
        """A spot run, still marked alive, is evicted: the period it was in is broken."""
        self._advance(now)
        del self._kept[run]
        self.evicted += 1

    def completed(self, now: float) -> int:
        """G: guarantee periods completed by `now`."""
        self._advance(now)
        return self._completed

    def _advance(self, now: float) -> None:
        # Each queue stays sorted: a period that ends between the last call and now is renewed to an end
        # later than every end already queued.
        for seconds, queue in self._due.items():
            while queue and queue[0][0] <= now:
                end, run = queue.popleft()
                if run.alive:
                    self._completed += 1
                    self._kept[run] += 1
                    queue.append((end + seconds, run))
