"""Which spot quota must have room for a task to start: as in the paper, the one for its guarantee."""

from __future__ import annotations

from gfs.core.ports import Lengths
from gfs.domain.task import Task


def guarantee(task: Task) -> Lengths:
    """The hours of its guarantee and no others."""
    return (task.guarantee_hours,)


class ByGuarantee:
    """The paper's rule (SPEC 4)."""

    def __init__(self) -> None:
        self.lengths = guarantee

    def why(self, task: Task, hours: float) -> str:
        """The guarantee says it all."""
        return ""
