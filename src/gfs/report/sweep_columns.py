"""What is shown of a sweep, on the terminal and on a page alike."""

from __future__ import annotations

from typing import Any, Protocol

from gfs.report.columns import amount, percent, short_seconds


class Group(Protocol):
    """Runs that differ in their seeds alone."""

    @property
    def settings(self) -> dict[str, Any]:
        """What varied."""

    @property
    def seeds(self) -> int:
        """How many runs."""

    @property
    def means(self) -> dict[str, float]:
        """Means of what came out."""

    @property
    def best(self) -> bool:
        """Whether it is on the front."""


COLUMNS = (
    ("spot wait", "spot_jqt_mean", short_seconds),
    ("evicted", "spot_eviction_rate", percent),
    ("periods broken", "spot_evictions_per_guarantee_period", percent),
    ("wasted GPU-h", "spot_wasted_gpu_hours", amount),
    ("HP wait", "hp_jqt_mean", short_seconds),
    ("goodput", "goodput", percent),
)
