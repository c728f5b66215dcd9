"""The hours of a demand history on charts and in words: dates where they are known, numbers where not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Final

MILLISECONDS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns numbers of hours into what a person reads."""

    first_day: date | None
    """The day that hour 0 begins, if it is known."""

    @property
    def step(self) -> int:
        """An hour on the axis of a chart."""
        return 1 if self.first_day is None else MILLISECONDS

    @property
    def axis(self) -> dict[str, Any]:
        """The layout of an axis of hours."""
        if self.first_day is None:
            return {"title_text": "number of the hour", "tickformat": ",d"}
        return {"type": "date"}

    def at(self, hour: int) -> int | str:
        """Where an hour stands on the axis of a chart."""
        moment = self.moment(hour)
        return hour if moment is None else moment.isoformat(timespec="minutes")

    def moment(self, hour: int) -> datetime | None:
        """When an hour begins, if the day is known."""
        if self.first_day is None:
            return None
        return datetime.combine(self.first_day, time()) + timedelta(hours=hour)

    def words(self, hour: int) -> str:
        """'2024-04-29 13:00' or 'hour 672'."""
        moment = self.moment(hour)
        return f"hour {hour:,}" if moment is None else f"{moment:%Y-%m-%d %H:%M}"

    def short(self, hour: int) -> str:
        """'04-29 13:00' or 'hour 672': for a narrow column."""
        moment = self.moment(hour)
        return f"hour {hour}" if moment is None else f"{moment:%m-%d %H:%M}"
