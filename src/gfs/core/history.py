"""Eviction history of nodes: evictions in the last hour and in the last 24 (criterion 3 of the paper)."""

from __future__ import annotations

from collections import deque

from gfs.domain.units import DAY, HOUR

NO_EVICTIONS = (0, 0)


class EvictionHistory:
    """Counts per node that follow time exactly: each eviction leaves the windows at a known moment."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, int]] = {}
        """Node -> evictions in the last hour and in the last day, for nodes that had any (else `NO_EVICTIONS`)."""
        self._leaving_hour: deque[tuple[float, str]] = deque()
        self._leaving_day: deque[tuple[float, str]] = deque()
        self.next_change = float("inf")
        """When the next count changes by itself."""

    def record(self, node: str, now: float) -> None:
        """A task with pods on the node has been evicted."""
        self._change(node, 1, 1)
        self._leaving_hour.append((now + HOUR, node))
        self._leaving_day.append((now + DAY, node))
        self._set_next_change()

    def advance(self, now: float) -> list[str]:
        """Let old evictions go; the nodes whose counts changed."""
        changed: list[str] = []
        for leaving, step in ((self._leaving_hour, (-1, 0)), (self._leaving_day, (0, -1))):
            while leaving and leaving[0][0] <= now:
                node = leaving.popleft()[1]
                self._change(node, *step)
                changed.append(node)
        self._set_next_change()
        return changed

    def _change(self, node: str, hour: int, day: int) -> None:
        last_hour, last_day = self.counts.get(node, NO_EVICTIONS)
        if last_day + day:
            self.counts[node] = (last_hour + hour, last_day + day)
        else:
            del self.counts[node]

    def _set_next_change(self) -> None:
        hour, day = self._leaving_hour, self._leaving_day
        self.next_change = min(hour[0][0] if hour else float("inf"), day[0][0] if day else float("inf"))
