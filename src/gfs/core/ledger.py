"""The books of promises: guarantee periods kept and runs evicted (F and G of the paper's eq. for the cost).

Our reading: a spot run completes one period for every H hours it lasts, and a run that finishes
inside a period has completed that one too, for its promise was kept. A run that was lost or cancelled inside a
period has neither kept nor broken it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, floor, inf
from operator import add
from typing import NamedTuple

from gfs.core.run import Run
from gfs.domain.execution import PROGRESS_EPS
from gfs.domain.units import DAY, HOUR

MARK = 6 * HOUR
"""Seconds between two marks of what the counts were: how finely the look back is cut."""
MOST_GUARANTEES = 64
"""Guarantees that are counted one by one although no run has them any more; a cluster offers a few."""


class GuaranteeCounts(NamedTuple):
    """What has happened to spot runs so far."""

    evicted: int
    finished: int
    periods: int
    """Guarantee periods completed."""
    kept: int
    """Runs that had their guaranteed hours, or were done before."""
    broken: int
    """Runs that were evicted within them."""


NOTHING_COUNTED = GuaranteeCounts(0, 0, 0, 0, 0)


@dataclass(eq=False)
class GuaranteeLedger:
    """Counts completed guarantee periods and evicted runs of one pool up to now."""

    look_back: float = inf
    """Seconds that F and G cover. A simulation counts from its beginning, a cluster 30 days."""
    _marks: deque[tuple[float, int, int]] = field(default_factory=deque)
    """(time, evicted, completed) now and then; the first is the last one at least `look_back` ago."""
    _evicted: int = 0
    _completed: int = 0
    _by_guarantee: dict[float, list[int]] = field(default_factory=dict)
    """Guarantee in seconds -> `GuaranteeCounts` so far."""
    _asked: set[float] = field(default_factory=set)
    """Guarantees in seconds that counts were asked for."""
    _due: dict[float, deque[tuple[float, Run]]] = field(default_factory=dict)
    """Guarantee in seconds -> (end of the period, run), as far as there are such runs."""
    _kept: dict[Run, int] = field(default_factory=dict)
    """Running spot run -> its periods completed so far."""

    def started(self, run: Run, now: float) -> None:
        """A spot run begins its first period."""
        self._advance(now)
        seconds = run.task.guarantee_seconds
        self._kept[run] = 0
        due = self._due.get(seconds)
        if due is None:
            due = self._due[seconds] = deque()
            self._by_guarantee.setdefault(seconds, [0] * 5)
        due.append((run.start + seconds, run))

    def adopted(self, runs: Iterable[Run], now: float) -> None:
        """Spot runs that nobody here started: what they had completed by now was not seen and does not count."""
        self._advance(now)
        for run in runs:
            seconds = run.task.guarantee_seconds
            self._kept[run] = periods = max(floor((now - run.start) / seconds), 0)
            self._by_guarantee.setdefault(seconds, [0] * 5)
            self._due.setdefault(seconds, deque()).append((run.start + (periods + 1) * seconds, run))
        for seconds, due in self._due.items():
            self._due[seconds] = deque(sorted(due, key=lambda entry: entry[0]))

    def finished(self, run: Run, now: float) -> None:
        """A spot run is done: the period it was in counts as kept, and those before it that nobody has counted yet."""
        seconds = run.task.guarantee_seconds
        periods = ceil((now - run.start - PROGRESS_EPS) / seconds)
        before = self._kept.pop(run)
        newly = max(periods, 1) - before
        self._completed += newly
        counts = self._by_guarantee[seconds]
        counts[1] += 1
        counts[2] += newly
        if not before:
            counts[3] += 1

    def broken(self, run: Run, now: float) -> None:
        """A spot run, still marked alive, is evicted: the period it was in is broken."""
        self._advance(now)
        self._evicted += 1
        counts = self._by_guarantee[run.task.guarantee_seconds]
        counts[0] += 1
        if not self._kept.pop(run):
            counts[4] += 1

    def forgotten(self, run: Run, now: float) -> None:
        """A spot run, still marked alive, was lost or cancelled: the period it was in counts for nothing."""
        self._advance(now)
        del self._kept[run]

    def totals(self, now: float) -> tuple[int, int]:
        """F and G: runs evicted and guarantee periods completed by `now`, as far as the ledger looks back."""
        self._advance(now)
        if self.look_back == inf:
            return self._evicted, self._completed
        first, evicted, completed = self._marks[0]
        if first > now - self.look_back:
            return self._evicted, self._completed
        return self._evicted - evicted, self._completed - completed

    def counts(self, guarantee_seconds: float, now: float) -> GuaranteeCounts:
        """What has happened by `now`, ever, to tasks with at least this guarantee."""
        self._advance(now)
        self._asked.add(guarantee_seconds)
        counted = [counts for seconds, counts in self._by_guarantee.items() if seconds >= guarantee_seconds]
        if len(counted) == 1:  # nearly always
            return GuaranteeCounts(*counted[0])
        return GuaranteeCounts(*map(sum, zip(*counted, strict=True))) if counted else NOTHING_COUNTED

    def _advance(self, now: float) -> None:
        # Each queue stays sorted: a period that ends between the last call and now is renewed to an end
        # later than every end already queued.
        over: list[float] = []
        for seconds, queue in self._due.items():
            while queue and queue[0][0] <= now:
                end, run = queue.popleft()
                if run.alive:
                    self._completed += 1
                    counts = self._by_guarantee[seconds]
                    counts[2] += 1
                    if not self._kept[run]:
                        counts[3] += 1
                    self._kept[run] += 1
                    queue.append((end + seconds, run))
            if not queue:
                over.append(seconds)
        if over:
            for seconds in over:
                del self._due[seconds]
            if len(self._by_guarantee) > MOST_GUARANTEES + len(self._due) + len(self._asked):
                self._sum_up()
        if self.look_back < inf and (not self._marks or now - self._marks[-1][0] >= MARK):
            self._marks.append((now, self._evicted, self._completed))
            while len(self._marks) > 1 and self._marks[1][0] <= now - self.look_back:
                self._marks.popleft()

    def _sum_up(self) -> None:
        """Add the counts of guarantees that no run has to those of the longest shorter one that is asked for."""
        for seconds in self._by_guarantee.keys() - self._due.keys() - self._asked:
            forgotten = self._by_guarantee.pop(seconds)
            shorter = max((asked for asked in self._asked if asked < seconds), default=0.0)
            counts = self._by_guarantee.setdefault(shorter, [0] * 5)
            counts[:] = map(add, counts, forgotten)


LIVE_LOOK_BACK = 30 * DAY
"""What a live cluster's ledger covers (docs/concepts/how-gfs-decides.md): the T of the preemption cost is the same."""


NO_EVICTIONS = (0, 0)


@dataclass(eq=False)
class EvictionHistory:
    """Counts per node that follow time exactly: each eviction leaves the windows at a known moment."""

    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Node -> evictions in the last hour and in the last day, for nodes that had any (else `NO_EVICTIONS`)."""
    _leaving_hour: deque[tuple[float, str]] = field(default_factory=deque)
    _leaving_day: deque[tuple[float, str]] = field(default_factory=deque)
    next_change: float = inf
    """When the next count changes by itself."""

    def record(self, node: str, now: float) -> None:
        """A task with pods on the node has been evicted."""
        self._change(node, 1, 1)
        self._leaving_hour.append((now + HOUR, node))
        self._leaving_day.append((now + DAY, node))
        self._set_next_change()

    def advance(self, now: float) -> list[str]:
        """Let old evictions go; the nodes whose counts changed."""
        changed: list[str] = []
        for leaving, step in ((self._leaving_hour, (-1, 0)), (self._leaving_day, (0, -1))):
            while leaving and leaving[0][0] <= now:
                node = leaving.popleft()[1]
                self._change(node, *step)
                changed.append(node)
        self._set_next_change()
        return changed

    def _change(self, node: str, hour: int, day: int) -> None:
        last_hour, last_day = self.counts.get(node, NO_EVICTIONS)
        if last_day + day:
            self.counts[node] = (last_hour + hour, last_day + day)
        else:
            del self.counts[node]

    def _set_next_change(self) -> None:
        hour, day = self._leaving_hour, self._leaving_day
        self.next_change = min(hour[0][0] if hour else float("inf"), day[0][0] if day else float("inf"))
