"""What is known of how long spot runs last: those seen so far in the pool, by whose they are and their size.

A scheduler knows when runs start, finish and are evicted, and nothing of their future. A run counts in three
groups, each wider than the one before: its organization's runs of its size, all of its size, all. A run after an
eviction is another thing than a first one, for tasks that last long are evicted more: it has groups of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from gfs.core.actions import Plan
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.domain.units import HOUR
from gfs.policies.gfs.life_table import LifeTable, share_beyond

EDGES = (1 / 12, 0.5, 1.0, 2.0, 4.0, 12.0)
"""Hours. Most runs are over in minutes, and half a day is as long as anyone looks."""

Group = tuple[str | int | bool, ...]


def size_class(task: Task) -> int:
    """Up to one GPU a pod, less than a node of eight, or more; gangs apart."""
    pod = 0 if task.gpus_per_pod <= 1 else 1 if task.gpus_per_pod < 8 else 2
    return 2 * pod + (task.pods > 1)


class RunTimes:
    """Sees runs come and go. A run costs a few steps in all, a question a few dozen."""

    def __init__(self, hours: Iterable[float] = ()) -> None:
        """`hours`: other edges than the usual ones that will be asked for."""
        self.hours = tuple(sorted({*EDGES, *hours}))
        """The edges: how likely a run lasts beyond each of them can be asked."""
        self._tables: dict[Group, LifeTable] = {}
        self._there: dict[Run, tuple[list[LifeTable], int]] = {}
        """Spot run -> its groups, and the piece of time it has come to."""
        self._due: list[deque[tuple[float, Run]]] = [deque() for _ in self.hours]
        """Edge -> when each run that has come to the piece before it passes it, in order."""
        self._known: set[int] = set()
        """Tasks that have run."""

    # -- what happens ------------------------------------------------------------------------------

    def arrived(self, tasks: Sequence[Task], now: float) -> None:
        """A task that comes says nothing about how long it will run."""

    def finished(self, run: Run, now: float) -> None:
        """A run is done."""
        if run.task.kind:
            self._pass_edges(now)
            tables, piece = self._there.pop(run)
            self._known.discard(run.task.index)
            for table in tables:
                table.ended[piece] += 1

    def decided(self, plan: Plan, now: float) -> None:
        """Runs are evicted, and others start."""
        self._pass_edges(now)
        for eviction in plan.evictions:
            tables, piece = self._there.pop(eviction.run)
            for table in tables:
                table.evicted[piece] += 1
        for run in plan.starts:
            if run.task.kind:
                tables = self._groups(run.task)
                self._known.add(run.task.index)
                self._there[run] = tables, 0
                for table in tables:
                    table.entered[0] += 1
                self._due[0].append((run.start + self.hours[0] * HOUR, run))

    # -- what it tells -----------------------------------------------------------------------------

    def beyond(self, task: Task, hours: float) -> float:
        """How likely a run of this task that starts now lasts for longer than so many hours, one of the edges."""
        return share_beyond(self._groups(task), self.hours.index(hours) + 1)

    def _groups(self, task: Task) -> list[LifeTable]:
        """Widest first."""
        again, size = task.index in self._known, size_class(task)
        names: tuple[Group, ...] = ((again,), (again, size), (again, size, task.organization))
        tables = self._tables
        for name in names:
            if name not in tables:
                tables[name] = LifeTable(len(self.hours))
        return [tables[name] for name in names]

    def _pass_edges(self, now: float) -> None:
        """Runs that have lasted for longer than an edge by now enter the next piece; one that ends at it does not.

        In every queue times rise: those who come to it have all waited equally long in the one before.
        """
        for edge, queue in enumerate(self._due):
            while queue and queue[0][0] < now:
                _, run = queue.popleft()
                if run not in self._there:
                    continue
                tables, piece = self._there[run]
                self._there[run] = tables, piece + 1
                for table in tables:
                    table.entered[piece + 1] += 1
                if edge + 1 < len(self.hours):
                    self._due[edge + 1].append((run.start + self.hours[edge + 1] * HOUR, run))
