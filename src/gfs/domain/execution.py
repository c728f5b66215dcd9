"""What running, checkpointing and evicting cost in time. Shared by decisions, simulation and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from gfs.domain.task import Task

LEASE_END = "lease-end"
"""The reason in the event log of a run that stopped because its lease was not renewed: it keeps all progress."""

PROGRESS_EPS = 1e-6
"""Slack in seconds when counting whole checkpoint intervals, so that 3600.0000001 - 1e-7 is one hour."""


@dataclass(frozen=True, slots=True)
class ExecutionRules:
    """The time model (docs/concepts/time-model.md)."""

    grace_period: float = 30.0
    """Seconds between the eviction of a victim and the start of the pods that take over."""
    restart_overhead: float = 40.0
    """Seconds a run after an eviction spends before its progress counts (small tasks)."""
    restart_overhead_large: float = 60.0
    """The same for tasks of more than `small_task_gpus` GPUs."""
    small_task_gpus: float = 8.0
    resume_overhead: float = 120.0
    """Seconds a run after a lost lease spends before its progress counts (schedulers of leases)."""
    checkpoint_on_grace: bool = False
    """Victims save their progress during the grace period instead of losing it."""

    def overhead(self, task: Task, run: int) -> float:
        """Seconds of restart overhead at the beginning of the task's run number `run` (1 is the first)."""
        if run == 1:
            return 0.0
        return self.restart_overhead if task.gpus <= self.small_task_gpus else self.restart_overhead_large

    def saved(self, task: Task, run: int, length: float) -> float:
        """Progress that an evicted run of `length` seconds keeps: its whole checkpoint intervals."""
        progress = max(0.0, length - self.overhead(task, run))
        return progress if self.checkpoint_on_grace else self.saved_at_loss(task, progress)

    def saved_at_loss(self, task: Task, progress: float) -> float:
        """What is left of so much progress in a run that ends without warning: whole checkpoint intervals."""
        progress = max(0.0, progress)
        return progress - since_checkpoint(0.0, task.checkpoint_interval, progress)


def since_checkpoint(progress_from: float, interval: float, now: float) -> float:
    """Seconds of progress an eviction at `now` would lose: the `t - t_check` of the paper's waste.

    The last checkpoint of a run is where its progress began, then every `interval` of progress after it;
    during restart overhead there is nothing to lose yet.
    """
    age = now - progress_from
    if age <= 0.0:
        return 0.0
    return max(age - floor((age + PROGRESS_EPS) / interval) * interval, 0.0)
