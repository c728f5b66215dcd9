"""Eviction history of nodes: evictions in the last hour and in the last 24 (criterion 3 of the paper)."""

from __future__ import annotations

from collections import deque

from gfs.domain.units import DAY, HOUR


class EvictionHistory:
    """Counts per node that follow time exactly: each eviction leaves the windows at a known moment."""

    def __init__(self, nodes: int) -> None:
        self.last_hour = [0] * nodes
        self.last_day = [0] * nodes
        self._leaving_hour: deque[tuple[float, int]] = deque()
        self._leaving_day: deque[tuple[float, int]] = deque()

    def record(self, node: int, now: float) -> None:
        """A task with pods on `node` has been evicted."""
        self.last_hour[node] += 1
        self.last_day[node] += 1
        self._leaving_hour.append((now + HOUR, node))
        self._leaving_day.append((now + DAY, node))

    def advance(self, now: float) -> list[int]:
        """Let old evictions go; the nodes whose counts changed."""
        changed: list[int] = []
        for leaving, counts in (
            (self._leaving_hour, self.last_hour),
            (self._leaving_day, self.last_day),
        ):
            while leaving and leaving[0][0] <= now:
                node = leaving.popleft()[1]
                counts[node] -= 1
                changed.append(node)
        return changed

    @property
    def next_change(self) -> float:
        """When the next count changes by itself."""
        hour, day = self._leaving_hour, self._leaving_day
        return min(hour[0][0] if hour else float("inf"), day[0][0] if day else float("inf"))
