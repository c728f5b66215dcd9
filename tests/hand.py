"""Time in the hands of a test: a controller must decide the same at any hour and on any machine."""

from __future__ import annotations

from datetime import UTC, datetime

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp()


class Hand:
    """A clock that stands until the test moves it; called, it gives the seconds since noon."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at

    def now(self) -> float:
        return NOON + self.at

    def of_wall(self, moment: float) -> float:
        return min(moment, self.now())

    def until(self, moment: float) -> float:
        return max(0.0, moment - self.now())
