"""The last hours of all series, as one block of memory that grows hour by hour."""

from __future__ import annotations

import numpy as np

from gfs.forecasting.history import Floats
from gfs.forecasting.orgquantile.features import LOOK_BACK

ROOM = 2 * LOOK_BACK
"""Hours until the block is moved back to the beginning."""


class Window:
    """LOOK_BACK hours x series; the next hour costs one row, not a copy of them all."""

    def __init__(self, hours: Floats) -> None:
        self._rows = np.empty((LOOK_BACK + ROOM, hours.shape[1]))
        self._rows[:LOOK_BACK] = hours
        self._end = LOOK_BACK

    def append(self, hour: Floats) -> None:
        """One more hour is over."""
        if self._end == len(self._rows):
            self._rows[:LOOK_BACK] = self._rows[-LOOK_BACK:]
            self._end = LOOK_BACK
        self._rows[self._end] = hour
        self._end += 1

    @property
    def block(self) -> Floats:
        """The last hours, as they are until one more is appended."""
        return self._rows[self._end - LOOK_BACK : self._end]
