"""Whether a spot task may start: the quota of every guarantee on offer up to its own (docs/concepts/spot-quota.md).

A task with a guarantee of four hours holds GPUs in the next hour as well, so it must fit into the quota for one hour,
too: for every h <= H on offer, what spot tasks with a guarantee of at least h hold, and the task, stay within Q_h.
"""

from __future__ import annotations

from math import inf

from gfs.core.pool import Pool
from gfs.core.ports import Quota
from gfs.domain.task import Task
from gfs.domain.units import MICRO


class SpotAdmission:
    """The quota check of one pool."""

    def __init__(self, pool: Pool, quota: Quota) -> None:
        self._pool = pool
        self._quota = quota
        self._counted: dict[float, tuple[float, ...]] = {}

    def counted(self, guarantee_hours: float) -> tuple[float, ...]:
        """The guarantees whose quotas count for a task with this one."""
        known = self._counted.get(guarantee_hours)
        if known is None:
            shorter = [hours for hours in self._quota.horizons if hours < guarantee_hours]
            known = self._counted[guarantee_hours] = (*shorter, guarantee_hours)
        return known

    def exceeded(self, task: Task) -> float | None:
        """The first guarantee whose quota the task would exceed; None: it may start."""
        for hours in self.counted(task.guarantee_hours):
            if self._pool.spot_held(hours) + task.micro > self._quota.limit(hours) * MICRO:
                return hours
        return None

    def fallen_below(self, task: Task) -> bool:
        """Returns whether spot tasks hold more than a quota that counts for this one, which holds its GPUs already."""
        counted = self.counted(task.guarantee_hours)
        return any(self._pool.spot_held(hours) > self._quota.limit(hours) * MICRO for hours in counted)

    def headroom(self, guarantee_hours: float) -> float:
        """GPUs that spot tasks with this guarantee may still take."""
        room = inf
        for hours in self.counted(guarantee_hours):
            room = min(room, self._quota.limit(hours) - self._pool.spot_held(hours) / MICRO)
        return room
