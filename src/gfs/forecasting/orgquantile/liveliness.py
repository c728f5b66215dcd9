"""Whether the last two days were livelier than the week: quiet and lively days come in rows.

The size of an hour is how far it was from the middles forecast for it, in fitted widths. Widths are stretched by
the square root of (sum of the sizes of 48 hours + 24 w) / ((48 + 24) w), where w is the mean size in the week:
after two lively days they are up to two thirds wider, after two that came as forecast 0.58 of what was fitted.
"""

from __future__ import annotations

import numpy as np

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, Floats

RECENT_HOURS = 2 * DAY_HOURS
USUAL_HOURS = DAY_HOURS
"""Hours of the week's mean size that count beside the recent ones."""
LARGEST_SIZE = 3.0
"""Widths: what is further off counts as so far, or one jump would make two days lively."""
SMALLEST_SIZE = 1e-6
"""Widths: a series that is less off than this in the mean is not stretched."""


class Liveliness:
    """The sizes of the last week's hours, each at its place in a ring."""

    def __init__(self, series: int) -> None:
        self._sizes = np.zeros((WEEK_HOURS, series))
        self._known = np.zeros((WEEK_HOURS, series))

    def note(self, hour: int, off: Floats) -> None:
        """In this hour demand was so many widths off: hours ahead x series, infinity where nothing was scored."""
        known = np.isfinite(off).all(axis=0)
        size = np.minimum(np.abs(off), LARGEST_SIZE).mean(axis=0)
        self._known[hour % WEEK_HOURS] = known
        self._sizes[hour % WEEK_HOURS] = np.where(known, size, 0.0)

    def stretch(self, hour: int) -> Floats:
        """By what widths are multiplied, per series, the last noted hour being this one."""
        recent = (hour - np.arange(RECENT_HOURS)) % WEEK_HOURS
        size, known = self._sizes[recent].sum(axis=0), self._known[recent].sum(axis=0)
        usual = self._sizes.sum(axis=0) / np.maximum(self._known.sum(axis=0), 1.0)
        ratio = (size + USUAL_HOURS * usual) / ((known + USUAL_HOURS) * np.maximum(usual, SMALLEST_SIZE))
        stretch: Floats = np.sqrt(np.where(usual > SMALLEST_SIZE, ratio, 1.0))
        return stretch
