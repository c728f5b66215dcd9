"""What the scheduler asks the world to do, and what it tells the world has happened."""

from __future__ import annotations

from math import inf
from typing import NamedTuple, TypeAlias

from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.domain.task import Task

SUBMIT, START, FINISH, EVICT = range(4)

Record: TypeAlias = tuple[float, int, Task, Run | None, Reason | None]
"""(time, one of SUBMIT, START, FINISH, EVICT, task, run, reason). A plain tuple: there are millions of them."""


class Eviction(NamedTuple):
    """Stop all pods of a run now; its task is queued again."""

    run: Run
    reason: Reason
    keeps_progress: bool = False
    """A suspension: all its progress is kept, not only what was saved at checkpoints."""


class Plan:
    """What to do now: first the evictions, then the starts (each at its `run.start`, perhaps after a grace)."""

    __slots__ = ("evictions", "starts", "wake")

    def __init__(self) -> None:
        self.evictions: list[Eviction] = []
        self.starts: list[Run] = []
        self.wake = inf
        """When the policy wants to be asked again even if nothing happens."""


NOTHING = Plan()
"""The empty plan. Never add to it."""
