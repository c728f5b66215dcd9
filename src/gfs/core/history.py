"""Eviction history of nodes: evictions in the last hour and in the last 24 (criterion 3 of the paper)."""

from __future__ import annotations

from collections import deque

from gfs.domain.units import DAY, HOUR


class EvictionHistory:
    """Counts per node that follow time exactly: each eviction leaves the windows at a known moment."""

    def __init__(self) -> None:
        self._last_hour: dict[str, int] = {}
        self._last_day: dict[str, int] = {}
        self._leaving_hour: deque[tuple[float, str]] = deque()
        self._leaving_day: deque[tuple[float, str]] = deque()
        self.next_change = float("inf")
        """When the next count changes by itself."""

    def counts(self, node: str) -> tuple[int, int]:
        """Evictions on a node in the last hour and in the last day."""
        day = self._last_day.get(node, 0)
        return (self._last_hour.get(node, 0), day) if day else (0, 0)

    def record(self, node: str, now: float) -> None:
        """A task with pods on the node has been evicted."""
        self._last_hour[node] = self._last_hour.get(node, 0) + 1
        self._last_day[node] = self._last_day.get(node, 0) + 1
        self._leaving_hour.append((now + HOUR, node))
        self._leaving_day.append((now + DAY, node))
        self._set_next_change()

    def advance(self, now: float) -> list[str]:
        """Let old evictions go; the nodes whose counts changed."""
        changed: list[str] = []
        for leaving, counts in (
            (self._leaving_hour, self._last_hour),
            (self._leaving_day, self._last_day),
        ):
            while leaving and leaving[0][0] <= now:
                node = leaving.popleft()[1]
                counts[node] -= 1
                if not counts[node]:
                    del counts[node]
                changed.append(node)
        self._set_next_change()
        return changed

    def _set_next_change(self) -> None:
        hour, day = self._leaving_hour, self._leaving_day
        self.next_change = min(hour[0][0] if hour else float("inf"), day[0][0] if day else float("inf"))
