"""From records and from tasks to hourly demand: what happens to gaps, duplicates and silence is decided here.

Records of an hour (`history_of_records`):

* several of one series in one hour: the highest counts;
* none in an hour between two others: the value before it is carried on;
* none before the first: the organization did not exist (`DemandHistory.first`);
* none after the last while other series go on: the organization fell silent, its demand is 0.

Tasks (`history_of_spans`): GPUs wanted at once, the maximum of each hour. A task that ends at the instant at which
another begins does not add to it, and a task of no length wants nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gfs.domain.errors import InputError
from gfs.domain.units import HOUR, MICRO
from gfs.forecasting.history import DemandHistory, Floats, Ints, SeriesKey

Number = TypeVar("Number", np.float64, np.int64)

MOST_HOURS = 200_000
"""Almost 23 years: one odd timestamp must not fill the memory."""


def history_of_records(
    keys: Sequence[SeriesKey], series: Ints, hours: Ints, gpus: Floats, first_day: date | None = None
) -> DemandHistory:
    """The history that these records tell: `series` is the position of each one's key, every key having one."""
    if not len(hours):
        raise InputError("there is no record of demand")
    start = int(hours.min())
    length = _length(start, int(hours.max()) + 1)
    grid = np.full((len(keys), length), -1.0)
    np.maximum.at(grid, (series, hours - start), gpus)
    known = grid >= 0
    first = known.argmax(axis=1)
    last = length - 1 - known[:, ::-1].argmax(axis=1)
    columns = np.arange(length)
    filled = np.maximum(_carry_on(grid, known), 0.0)
    filled[columns[None, :] > last[:, None]] = 0.0
    return DemandHistory(tuple(keys), filled, first.astype(np.int64), start, first_day)


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """From when to when some tasks want how many GPUs, one element a task."""

    series: Ints
    begin: Floats
    end: Floats
    micro: Ints
    """In micro-cards, so that sums are exact."""


def history_of_spans(keys: Sequence[SeriesKey], spans: Spans, since: float, until: float) -> DemandHistory:
    """Hourly maxima from the hour of `since` to the last one that is over at `until` (seconds); at least one."""
    start = int(since // HOUR)
    end = max(int(until // HOUR), start + 1)
    length = _length(start, end)
    first = np.full(len(keys), end * HOUR)  # nothing yet: not before the end
    np.minimum.at(first, spans.series, spans.begin)
    column = np.clip(first // HOUR - start, 0, length)
    peaks = _peaks(spans, len(keys), start, length)
    return DemandHistory(tuple(keys), peaks, column.astype(np.int64), start)


def _peaks(spans: Spans, count: int, start: int, length: int) -> Floats:
    """Series x hours: the highest sum of what spans want at once."""
    series = np.concatenate([spans.series, spans.series])
    time = np.concatenate([spans.begin, spans.end])
    change = np.concatenate([spans.micro, -spans.micro])
    order = np.lexsort((time, series))
    series, time = series[order], time[order]
    level = np.cumsum(change[order])  # every series ends at 0, where the next one begins
    settled = np.ones(len(time), dtype=bool)  # all that happens at one instant has happened
    settled[:-1] = (series[1:] != series[:-1]) | (time[1:] != time[:-1])
    series, time, level = series[settled], time[settled], level[settled]

    opening = np.zeros((count, length), dtype=np.int64)
    """Level when the hour begins: after the last event at or before that instant."""
    told = np.zeros((count, length), dtype=bool)
    column = np.maximum(np.ceil(time / HOUR) - start, 0.0)
    inside = column < length
    at = (series[inside], column[inside].astype(np.int64))
    opening[at] = level[inside]  # of several in one hour the last, as they are in the order of time
    told[at] = True
    peaks = _carry_on(opening, told)

    column = time // HOUR - start
    inside = (column >= 0) & (column < length)
    np.maximum.at(peaks, (series[inside], column[inside].astype(np.int64)), level[inside])
    return np.asarray(peaks / MICRO, dtype=np.float64)


def _carry_on(values: NDArray[Number], known: NDArray[np.bool_]) -> NDArray[Number]:
    """Every value that is not known becomes the last one before it; before the first one column 0 stands."""
    source = np.where(known, np.arange(values.shape[1]), 0)
    np.maximum.accumulate(source, axis=1, out=source)
    return np.take_along_axis(values, source, axis=1)


def _length(start: int, end: int) -> int:
    if end - start > MOST_HOURS:
        raise InputError(
            f"demand from hour {start:,} to hour {end:,} is more than {MOST_HOURS:,} hours: is a time wrong?"
        )
    return end - start
