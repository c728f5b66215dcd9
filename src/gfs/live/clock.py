"""Time for the controller: the wall clock, one that runs faster (demonstrations), or one that stands (tests)."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since 1970 as the scheduler counts them."""

    def now(self) -> float:
        """The present."""

    def of_wall(self, moment: float) -> float:
        """The time of a moment that the API server wrote down."""

    def until(self, moment: float) -> float:
        """Seconds to wait until then."""


class WallClock:
    """The wall clock as it was at its making, `speed` times as fast from then on, whoever sets that one."""

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed
        self._wall = self._began = time.time()
        self._ticks = time.monotonic()

    def not_before(self, moment: float) -> None:
        """A saved state is of this moment: no time is before it, though the wall clock was set back."""
        self._began += max(0.0, moment - self.now())

    def now(self) -> float:
        """The present."""
        return self._began + (time.monotonic() - self._ticks) * self._speed

    def of_wall(self, moment: float) -> float:
        """The time of a moment that the API server wrote down; nothing has happened in the future."""
        return min(self._began + (moment - self._wall) * self._speed, self.now())

    def until(self, moment: float) -> float:
        """Seconds to wait until then."""
        return max(0.0, (moment - self.now()) / self._speed)
