"""Admission by how long a spot task will likely run.

A guarantee of four hours asks that HP demand leaves room for four hours. Most tasks are done long before: a peak
that is foreseen for the third hour will not find them. So a task may also start if there is room in the quota for
the shortest time by which it is more likely done than not. What it is promised stays the same: in the books it
counts as a task of four hours, others with such a guarantee find the less room, and its eviction breaks a period
of four hours. A task that will likely outlast its guarantee is checked for the guarantee, as ever.

How long is likely is asked once, when a task comes or comes back: its lane in the queue and the reason it is given
do not move while it waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from gfs.core.actions import Plan
from gfs.core.ports import Lengths
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.policies.gfs.run_times import RunTimes

LIKELY = 0.5
"""More likely than not."""


class ByLikelyRun:
    """The quota for the guarantee must have room, or that for as long as the task will likely run."""

    def __init__(self, times: RunTimes, looks: Sequence[float]) -> None:
        """`looks`: the hours that there is a quota for, shortest first."""
        self._times = times
        self._looks = looks
        self._lengths: dict[int, Lengths] = {}
        """Task index -> its lengths, for tasks that wait."""

    def lengths(self, task: Task) -> Lengths:
        """Its guarantee, and the hours by which it is likely done if these are fewer."""
        lengths = self._lengths.get(task.index)
        if lengths is None:
            lengths = self._lengths[task.index] = self._asked(task)
        return lengths

    def why(self, task: Task, hours: float) -> str:
        """Such as 'likely done by then, guaranteed 4 h'; nothing if it is the guarantee that counts."""
        guarantee = task.guarantee_hours
        return f"likely done by then, guaranteed {guarantee:g} h" if hours < guarantee else ""

    def _asked(self, task: Task) -> Lengths:
        guarantee = task.guarantee_hours
        for hours in self._looks:
            if hours >= guarantee:
                break
            if self._times.beyond(task, hours) < 1 - LIKELY:
                return (guarantee, hours)
        return (guarantee,)

    # -- what happens ------------------------------------------------------------------------------

    def arrived(self, tasks: Sequence[Task], now: float) -> None:
        """They are looked at when they are tried."""

    def finished(self, run: Run, now: float) -> None:
        """Others learn from it."""

    def decided(self, plan: Plan, now: float) -> None:
        """Those who start need no more answers."""
        for run in plan.starts:
            self._lengths.pop(run.task.index, None)
