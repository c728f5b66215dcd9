"""Time for the controller: the API server's clock, or one that runs faster (demonstrations)."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """Seconds since 1970 as the scheduler counts them.

    It starts with the time of day of the API server, for the machine's own clock may be wrong, and then runs `speed`
    times as fast, whatever happens to the machine's clock.
    """

    def __init__(self, speed: float = 1.0, wall: Callable[[], float] = time.time) -> None:
        """`wall`: the time of day by the API server."""
        self._speed, self._read_wall = speed, wall
        self.begin()

    def begin(self, not_before: float = 0.0) -> None:
        """Begin now. No time is before that of a saved state, though the API server's clock was set back."""
        self._wall, self._ticks = self._read_wall(), time.monotonic()
        self._began = max(self._wall, not_before)

    def now(self) -> float:
        """Returns the present."""
        return self._began + (time.monotonic() - self._ticks) * self._speed

    def of_wall(self, moment: float) -> float:
        """Returns the time of a moment that the API server wrote down; nothing has happened in the future."""
        return min(self._began + (moment - self._wall) * self._speed, self.now())

    def until(self, moment: float) -> float:
        """Returns the seconds to wait until then."""
        return max(0.0, (moment - self.now()) / self._speed)
