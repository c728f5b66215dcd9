"""Why a task waits for a lease, and why a run stops at the end of one."""

from __future__ import annotations

from typing import NamedTuple

from gfs.domain.execution import LEASE_END
from gfs.domain.units import format_gpus, format_seconds


class LeaseEnd(NamedTuple):
    """The lease of a run was not renewed."""

    def text(self) -> str:
        """The word by which readers of the event log know it."""
        return LEASE_END


class BetweenLeases(NamedTuple):
    """GPUs are given out only when leases end."""

    wait: float
    """Seconds to the next such moment."""

    def text(self) -> str:
        """How long the task waits for the next round."""
        return f"leases are given out in rounds, the next one {format_seconds(self.wait)} after it was queued"


class NoLease(NamedTuple):
    """Others got the leases of this round."""

    free: float
    """GPUs that are idle after the round."""
    gpus: float
    """GPUs that the task asks for."""
    short: str = ""
    """What else than GPUs is short: '8 idle GPUs on n12, but 14 of 96 CPUs free, pod asks 24'."""

    @property
    def lacks_more_than_cards(self) -> bool:
        """Whether CPUs, memory, pods or a node filter keep it waiting."""
        return bool(self.short)

    def text(self) -> str:
        """How much was left, and what the task asks for."""
        left, short = format_gpus(round(self.free, 2)), f"; {self.short}" if self.short else ""
        return f"no lease in this round: {left} GPUs were left, task asks {format_gpus(self.gpus)}{short}"
