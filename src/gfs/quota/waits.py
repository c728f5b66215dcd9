"""How long spot tasks wait: the l of the feedback, from what is seen to happen (docs/concepts/spot-quota.md).

Who waits, and since when, follows from the state; only waits that have ended must be remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from gfs.core.listeners import Listener
from gfs.core.run import End, Run, Waiting
from gfs.domain.task import Task
from gfs.domain.units import HOUR


@dataclass(slots=True)
class EndedWaits:
    """What is remembered of waits that are over."""

    by_guarantee: dict[float, deque[tuple[float, float]]] = field(default_factory=dict)
    """Guarantee hours -> (start, wait), without those that a later and longer wait has made irrelevant."""


class SpotWaits(Listener):
    """Waits of spot tasks, those that last and those that have ended, by guarantee.

    A task waits from its submission or eviction to its start.
    """

    def __init__(self, ended: EndedWaits | None = None, waiting: Iterable[Waiting] = ()) -> None:
        """`ended`: the waits that are remembered; `waiting`: who waits now."""
        self._ended = (ended or EndedWaits()).by_guarantee
        self._since: dict[float, dict[int, float]] = {}
        """Guarantee hours -> task index -> since when it waits; the first one waits longest."""
        for each in sorted(waiting, key=lambda each: each.since):
            if each.task.is_spot:
                self._queue(each.task, each.since)

    def submitted(self, task: Task, now: float) -> None:
        """A task has come."""
        if task.is_spot:
            self._queue(task, now)

    def started(self, run: Run, now: float) -> None:
        """Who starts waits no longer."""
        if run.task.is_spot:
            self._start(run)

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
            self._leave(task, now)

    def longest(self, guarantee_hours: float, now: float) -> float:
        """Seconds of the longest wait that lasts or ended in the last H hours, guarantees of at least H."""
        if self._ended:
            self._forget_old(now)
        longest = 0.0
        since = now - guarantee_hours * HOUR
        for hours, waiting in self._since.items():
            if hours >= guarantee_hours:
                longest = max(longest, now - next(iter(waiting.values())))
        for hours, ended in self._ended.items():
            if hours < guarantee_hours:
                continue
            for start, wait in ended:  # falling: the first one that is recent is the longest
                if start >= since:
                    longest = max(longest, wait)
                    break
        return longest

    def _forget_old(self, now: float) -> None:
        """Waits that ended longer ago than their guarantee lasts count no more."""
        for hours, ended in list(self._ended.items()):
            while ended and ended[0][0] < now - hours * HOUR:
                ended.popleft()
            if not ended:
                del self._ended[hours]

    def _queue(self, task: Task, now: float) -> None:
        self._since.setdefault(task.guarantee_hours, {})[task.index] = now

    def _leave(self, task: Task, since: float) -> float:
        """A task waits no longer; since when it did, `since` if it was not seen to wait."""
        waiting = self._since.get(task.guarantee_hours, {})
        since = waiting.pop(task.index, since)
        if not waiting:
            self._since.pop(task.guarantee_hours, None)
        return since

    def _start(self, run: Run) -> None:
        start, hours = run.start, run.task.guarantee_hours
        wait = max(start - self._leave(run.task, run.since), 0.0)  # one that was adopted began before it came
        ended = self._ended.setdefault(hours, deque())
        while ended and ended[-1][1] <= wait:
            ended.pop()
        while ended and ended[0][0] < start - hours * HOUR:
            ended.popleft()
        ended.append((start, wait))

    def _take_back(self, run: Run) -> None:
        """The wait that seemed to be over goes on."""
        hours, over = run.task.guarantee_hours, (run.start, run.start - run.since)
        ended = self._ended.get(hours)
        if ended and over in ended:
            ended.remove(over)
        waiting = self._since.setdefault(hours, {})
        waiting[run.task.index] = run.since
        self._since[hours] = dict(sorted(waiting.items(), key=lambda entry: (entry[1], entry[0])))
