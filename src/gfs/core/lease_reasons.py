"""Why tasks wait and stop under a scheduler of leases."""

from __future__ import annotations

from typing import Final, NamedTuple

from gfs.domain.task import Task
from gfs.domain.units import format_gpus, format_seconds

LEASE_END: Final = "lease-end"
"""The reason in the event log where a run was suspended because its lease was not renewed."""


class LeaseEnd(NamedTuple):
    """A run's lease ended and was not renewed, or only in another place."""

    def text(self) -> str:
        """The word that the event log is read by."""
        return LEASE_END


class BetweenLeases(NamedTuple):
    """Cards are given out only when leases end."""

    wait: float
    """Seconds to the next such moment."""

    def text(self) -> str:
        """Say it so that a person understands."""
        return f"leases are given out in rounds, the next one {format_seconds(self.wait)} after it was queued"


class NoLease(NamedTuple):
    """Others got the leases of this round."""

    task: Task
    free: float
    """GPUs that are idle after the round."""
    asked: float
    """GPUs that waiting tasks of its class ask for."""
    short: str = ""
    """What else than cards is short: '8 idle cards on n12, but 14 of 96 CPUs free, pod asks 24'."""

    @property
    def lacks_more_than_cards(self) -> bool:
        """Whether CPUs, memory, pods or a node filter keep it waiting."""
        return bool(self.short)

    def text(self) -> str:
        """Say it so that a person understands."""
        return (
            f"no lease in this round: waiting {self.task.priority.label} tasks asked for"
            f" {format_gpus(round(self.asked, 2))} GPUs, {format_gpus(round(self.free, 2))} were left"
        ) + (f"; {self.short}" if self.short else "")
