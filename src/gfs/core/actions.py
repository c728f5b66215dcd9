"""What the scheduler asks the world to do, and what it tells the world has happened."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.domain.task import Task

SUBMIT, START, FINISH, EVICT, LOST, CANCEL = range(6)

Record: TypeAlias = tuple[float, int, Task, Run | None, Reason | None]
"""(time, one of SUBMIT, START, FINISH, EVICT, LOST, CANCEL, task, run, reason). No run: a submission, or a
cancellation of a task that waited. A plain tuple: there are millions of them."""


class Eviction(NamedTuple):
    """Stop all pods of a run now; its task is queued again."""

    run: Run
    reason: Reason
    keeps_progress: bool = False
    """All its progress is saved at once, not only what was saved at checkpoints; there is no grace period."""


class LostRun(NamedTuple):
    """A run that ended because its node went; its task is queued again."""

    run: Run
    why: str
    began: bool = True
    """False: it had its cards, but its pods were still to start; its task waits as if it had not been tried."""

    def text(self) -> str:
        """Such as 'node n3 failed'."""
        return self.why


class Plan(Struct, eq=False, gc=False):
    """What to do now: first the evictions, then the starts.

    A start that evictions were made for begins when those runs have left, as foreseen at its `start`.
    """

    evictions: list[Eviction] = []
    starts: list[Run] = []
    lost: Sequence[LostRun] = ()
    """Runs that ended with their nodes: nothing to do, but good to know."""
    wake: float = inf
    """When the policy wants to be asked again even if nothing happens."""

    def joined(self, other: Plan) -> Plan:
        """This plan and another one, of another pool."""
        if other is not NOTHING:
            self.evictions += other.evictions
            self.starts += other.starts
            self.wake = min(self.wake, other.wake)
        return self


NOTHING = Plan()
"""The empty plan. Never add to it."""
