"""How long spot tasks wait: the l of the feedback, from what is seen to happen (docs/concepts/spot-quota.md)."""

from __future__ import annotations

from collections import deque

from gfs.core.listeners import Listener
from gfs.core.run import End, Run
from gfs.domain.task import Task
from gfs.domain.units import HOUR


class SpotWaits(Listener):
    """Waits of spot tasks, those that last and those that have ended, by guarantee.

    A task waits from its submission or eviction to its start.
    """

    def __init__(self) -> None:
        self._since: dict[float, dict[int, float]] = {}
        """Guarantee hours -> task index -> since when it waits; the first one waits longest."""
        self._ended: dict[float, deque[tuple[float, float]]] = {}
        """Guarantee hours -> (start, wait), without those that a later and longer wait has made irrelevant."""

    def submitted(self, task: Task, now: float) -> None:
        """A task has come."""
        if task.is_spot:
            self._queue(task, now)

    def started(self, run: Run, now: float) -> None:
        """Who starts waits no longer."""
        if run.task.is_spot:
            self._start(run.task, run.start)

    def ended(self, run: Run, end: End, now: float) -> None:
        """Who was stopped waits again; after a failed start as if it had not been tried."""
        if not run.task.is_spot or not end.waits_again:
            return
        if end is End.START_FAILED:
            self._take_back(run)
        else:
            self._queue(run.task, now)

    def withdrawn(self, task: Task, now: float) -> None:
        """Who is gone does not wait."""
        if task.is_spot:
            del self._since[task.guarantee_hours][task.index]

    def longest(self, guarantee_hours: float, now: float) -> float:
        """Seconds of the longest wait that lasts or ended in the last H hours, guarantees of at least H."""
        longest = 0.0
        since = now - guarantee_hours * HOUR
        for hours, waiting in self._since.items():
            if hours < guarantee_hours:
                continue
            for first in waiting.values():
                longest = max(longest, now - first)
                break
            for start, wait in self._ended[hours]:  # falling: the first one that is recent is the longest
                if start >= since:
                    longest = max(longest, wait)
                    break
        return longest

    def _queue(self, task: Task, now: float) -> None:
        hours = task.guarantee_hours
        if hours not in self._since:
            self._since[hours] = {}
            self._ended[hours] = deque()
        self._since[hours][task.index] = now

    def _start(self, task: Task, start: float) -> None:
        hours = task.guarantee_hours
        wait = max(start - self._since[hours].pop(task.index), 0.0)  # one that was adopted began before it came
        ended = self._ended[hours]
        while ended and ended[-1][1] <= wait:
            ended.pop()
        while ended and ended[0][0] < start - hours * HOUR:
            ended.popleft()
        ended.append((start, wait))

    def _take_back(self, run: Run) -> None:
        """The wait that seemed to be over goes on."""
        hours = run.task.guarantee_hours
        ended = self._ended[hours]
        if (run.start, run.start - run.since) in ended:
            ended.remove((run.start, run.start - run.since))
        waiting = self._since[hours]
        waiting[run.task.index] = run.since
        self._since[hours] = dict(sorted(waiting.items(), key=lambda entry: (entry[1], entry[0])))
