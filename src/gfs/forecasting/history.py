"""What is known of demand: HP GPUs running or queued, the maximum of each hour, per organization and GPU model.

Hours are counted from some hour 0; hour of day and weekday follow from it, and dates if the first day is known. Then
public holidays are known, too, of a country that is given (from the `holidays` package).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from gfs.domain.errors import InputError
from gfs.domain.limits import MOST_GPUS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DAY_HOURS, WEEK_HOURS = 24, 168


class SeriesKey(NamedTuple):
    """Whose demand a series is."""

    organization: str
    gpu_model: str
    cluster: str = ""

    def __str__(self) -> str:
        series = f"{self.organization} on {self.gpu_model}" if self.organization else self.gpu_model
        return f"{series} in {self.cluster}" if self.cluster else series


@dataclass(frozen=True, slots=True, eq=False)
class DemandHistory:
    """Hourly demand of some series, all over the same hours."""

    keys: tuple[SeriesKey, ...]
    gpus: Floats
    """Series x hours. An hour without any record has the value before it, and 0 before the first one."""
    first: Ints
    """Per series: the column of its first record. What stands before is not demand of 0 but no organization."""
    start: int = 0
    """Number of the first hour; hour 0 is midnight."""
    first_day: date | None = None
    """The date of the day that hour 0 begins, if it is known. Without it hour 0 is a Monday."""

    def __post_init__(self) -> None:
        if self.gpus.shape[0] != len(self.keys) or len(self.first) != len(self.keys):
            raise InputError(f"{len(self.keys)} series, but demand of {self.gpus.shape[0]}")
        if not ((self.gpus >= 0) & (self.gpus <= MOST_GPUS)).all():
            raise InputError(f"demand must be a number of GPUs from 0 to {MOST_GPUS:,.0f}")

    def __repr__(self) -> str:
        since = f", hour 0 on {self.first_day}" if self.first_day else ""
        return f"<DemandHistory: {len(self.keys):,} series, hours {self.start:,} to {self.end:,}{since}>"

    @classmethod
    def trusted(
        cls, keys: tuple[SeriesKey, ...], gpus: Floats, first: Ints, start: int = 0, first_day: date | None = None
    ) -> Self:
        """A history whose numbers need no checking: they come from a checked one, or from a meter."""
        history, put = object.__new__(cls), object.__setattr__  # at every tick: without a loop
        put(history, "keys", keys)
        put(history, "gpus", gpus)
        put(history, "first", first)
        put(history, "start", start)
        put(history, "first_day", first_day)
        return history

    @property
    def hours(self) -> int:
        """How many hours are known."""
        return int(self.gpus.shape[1])

    @property
    def end(self) -> int:
        """Number of the first hour that is not known: the next one to forecast."""
        return self.start + self.hours

    def until(self, end: int) -> Self:
        """The same as it was known when hour `end` began."""
        gpus = self.gpus[:, : max(end - self.start, 0)]
        return self.trusted(self.keys, gpus, self.first, self.start, self.first_day)

    def since(self, start: int) -> Self:
        """The same without the hours before `start`."""
        cut = min(max(start - self.start, 0), self.hours)
        first = np.maximum(self.first - cut, 0)
        return self.trusted(self.keys, self.gpus[:, cut:], first, self.start + cut, self.first_day)

    def only(self, rows: Sequence[int]) -> Self:
        """Some of the series."""
        keys = tuple(self.keys[row] for row in rows)
        chosen = list(rows)
        return self.trusted(keys, self.gpus[chosen], self.first[chosen], self.start, self.first_day)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The series of several histories that end with the same hour, one after the other."""
        if len(parts) == 1:
            return parts[0]
        hours = max(part.hours for part in parts)
        ahead = [hours - part.hours for part in parts]
        gpus = np.concatenate([np.pad(part.gpus, ((0, 0), (n, 0))) for part, n in zip(parts, ahead, strict=True)])
        first = np.concatenate([part.first + n for part, n in zip(parts, ahead, strict=True)])
        keys = tuple(key for part in parts for key in part.keys)
        return cls.trusted(keys, gpus, first, parts[0].end - hours, parts[0].first_day)

    def padded(self, since: int) -> Floats:
        """Demand from hour `since` on, even before the history; before its first record a series has that value."""
        column = since - self.start
        before, begin = max(-column, 0), max(column, 0)
        if not self.hours:
            return np.zeros((len(self.first), before))
        first = np.minimum(self.first, self.hours - 1)
        late = np.flatnonzero(first > begin)
        if not before and not len(late):
            return self.gpus[:, begin:]
        values = self.gpus[np.arange(len(first)), first]
        known = np.empty((len(first), self.hours - column))
        known[:, before:] = self.gpus[:, begin:]
        known[:, :before] = values[:, None]
        for row in late.tolist():
            known[row, before : first[row] - column] = values[row]
        return known

    def origins(self, horizon: int, rows: Sequence[int] | None = None) -> list[Ints]:
        """Columns to learn from, of each series: a day of records before it, and all hours ahead after it."""
        chosen = range(len(self.keys)) if rows is None else rows
        return [np.arange(max(int(self.first[row]) + DAY_HOURS, 1), self.hours - horizon + 1) for row in chosen]

    def weekday_of(self, hours: Ints) -> Ints:
        """0 = Monday for each of these hours."""
        monday = self.first_day.weekday() if self.first_day is not None else 0
        return (hours // DAY_HOURS + monday) % 7


def hour_of_day(hours: Ints) -> Ints:
    """0 to 23 for each of these hours."""
    return hours % DAY_HOURS


def holiday_hours(history: DemandHistory, hours: Ints, country: str) -> Bools:
    """Whether each of these hours falls on a public holiday."""
    if not country or history.first_day is None or not len(hours):
        return np.zeros(len(hours), np.bool_)
    begin = history.first_day
    first, last = (begin + timedelta(days=int(h) // DAY_HOURS) for h in (hours.min(), hours.max()))
    free = [day for year in range(first.year, last.year + 1) for day in _holidays(country, year)]
    days = np.array([(day - begin).days for day in free], dtype=np.int64)
    found: Bools = np.isin(hours // DAY_HOURS, days)
    return found


def check_country(country: str) -> None:
    """`InputError` if the holidays of a country are not known."""
    if country:
        _holidays(country, 2000)


@cache
def _holidays(country: str, year: int) -> tuple[date, ...]:
    import holidays

    try:
        return tuple(sorted(holidays.country_holidays(country, years=year)))
    except NotImplementedError:
        message = f"country {country!r}: no calendar of public holidays is known for it; use a code such as CN or DE"
        raise InputError(message) from None
