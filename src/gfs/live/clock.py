"""Time for the controller: the API server's clock, one that runs faster (demonstrations), or stands (tests)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Seconds since 1970 as the scheduler counts them."""

    def now(self) -> float:
        """Returns the present."""

    def of_wall(self, moment: float) -> float:
        """Returns the time of a moment that the API server wrote down."""

    def until(self, moment: float) -> float:
        """Returns the seconds to wait until then."""


class WallClock:
    """The time of day as it was at its making, `speed` times as fast from then on, whoever sets the machine's clock."""

    def __init__(self, speed: float = 1.0, wall: Callable[[], float] = time.time) -> None:
        """`wall`: the time of day by the API server, for the machine's own clock may be wrong."""
        self._speed = speed
        self._wall = self._began = wall()
        self._ticks = time.monotonic()

    def not_before(self, moment: float) -> None:
        """A saved state is of this moment: no time is before it, though the clock was set back."""
        self._began += max(0.0, moment - self.now())

    def now(self) -> float:
        """Returns the present."""
        return self._began + (time.monotonic() - self._ticks) * self._speed

    def of_wall(self, moment: float) -> float:
        """Returns the time of a moment that the API server wrote down; nothing has happened in the future."""
        return min(self._began + (moment - self._wall) * self._speed, self.now())

    def until(self, moment: float) -> float:
        """Returns the seconds to wait until then."""
        return max(0.0, (moment - self.now()) / self._speed)
