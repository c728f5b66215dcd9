"""Hourly demand of records, traces and event logs: HP GPUs running or queued, per organization and GPU model.

Records of an hour (`history_of_records`):

* several of one series in one hour: the highest counts;
* none in an hour between two others: the value before it is carried on;
* none before the first: the organization did not exist (`DemandHistory.first`);
* none after the last while other series go on: the organization fell silent, its demand is 0.

Tasks of a trace or an event log: GPUs wanted at once, the maximum of each hour. A task that ends at the instant at
which another begins does not add to it, and a task of no length wants nothing. The queue of a trace is not known:
demand is as if every task started when it was submitted. In an event log a task wants its GPUs from submission until
it finishes or is cancelled. Both end with the last hour that was over when the last task was submitted; after it
demand only fades out because nothing more is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gfs.domain.errors import InputError
from gfs.domain.task import Priority, Task
from gfs.domain.units import HOUR, MICRO
from gfs.domain.workload import Workload
from gfs.forecasting.history import DemandHistory, Floats, Ints, SeriesKey

EVENT_COLUMNS = ("time", "event", "task", "kind", "organization", "gpu_model", "gpus")
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
    """In millionths of a GPU, so that sums are exact."""


def history_of_spans(keys: Sequence[SeriesKey], spans: Spans, since: float, until: float) -> DemandHistory:
    """Hourly maxima from the hour of `since` to the last one that is over at `until` (seconds); at least one."""
    start = int(since // HOUR)
    end = max(int(until // HOUR), start + 1)
    length = _length(start, end)
    first = np.full(len(keys), end * HOUR)  # nothing yet: not before the end
    np.minimum.at(first, spans.series, spans.begin)
    column = np.clip(first // HOUR - start, 0, length)
    peaks = peaks_of(spans, len(keys), start, length)
    return DemandHistory(tuple(keys), peaks, column.astype(np.int64), start)


def peaks_of(spans: Spans, count: int, start: int, length: int, step: float = HOUR) -> Floats:
    """Series x hours (or steps of `step` seconds) from `start` on: the highest sum of what spans want at once."""
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
    """Level when the step begins: after the last event at or before that instant."""
    known = np.zeros((count, length), dtype=bool)
    column = np.maximum(np.ceil(time / step) - start, 0.0)
    inside = column < length
    at = (series[inside], column[inside].astype(np.int64))
    opening[at] = level[inside]  # of several in one step the last, as they are in the order of time
    known[at] = True
    peaks = _carry_on(opening, known)

    column = time // step - start
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


def history_of_workload(workload: Workload, until: float | None = None) -> DemandHistory:
    """HP demand of a trace; `until` (seconds) in place of the last submission."""
    tasks = [task for task in workload.tasks if not task.is_spot]
    if not tasks:
        raise InputError("there is no HP task in this trace: no demand to forecast")
    keys, series = _series((SeriesKey(task.organization, task.gpu_model) for task in tasks), len(tasks))
    since, last = workload.tasks[0].submit_time, workload.tasks[-1].submit_time
    return history_of_spans(keys, spans_of(tasks, series, workload), since, last if until is None else until)


def spans_of(tasks: Sequence[Task], series: Ints, workload: Workload) -> Spans:
    """What these tasks of a workload want, if each starts when it is submitted."""
    begin = np.fromiter((task.submit_time for task in tasks), np.float64, len(tasks))
    end = begin + np.fromiter((workload.durations[task.index] for task in tasks), np.float64, len(tasks))
    if workload.cancel_times:
        cancel = np.fromiter((workload.cancel_times[task.index] for task in tasks), np.float64, len(tasks))
        end = np.minimum(end, cancel)
    return Spans(series, begin, end, np.fromiter((task.micro for task in tasks), np.int64, len(tasks)))


def history_of_events(events: pa.Table, until: float | None = None) -> DemandHistory:
    """HP demand of an event log (docs/reference/files.md); `until` (seconds) in place of the last submission.

    A task that has neither finished nor been cancelled wants its GPUs to the end.
    """
    missing = [name for name in EVENT_COLUMNS if name not in events.column_names]
    if missing:
        raise InputError(f"the event log has no column {', '.join(missing)}: was it written by GFS?")
    submissions = events.filter(pc.equal(events["event"].cast(pa.string()), "submit"))
    asked = submissions.filter(pc.equal(submissions["kind"].cast(pa.string()), Priority.HP.label))
    if not len(asked):
        raise InputError("no HP task is submitted in this event log: no demand to forecast")
    owners, models = (asked[name].cast(pa.string()).to_pylist() for name in ("organization", "gpu_model"))
    keys, series = _series(map(SeriesKey, owners, models), len(asked))
    submitted = submissions["time"].to_numpy()
    last = float(submitted.max()) if until is None else until
    begin: Floats = asked["time"].to_numpy()
    micro = np.rint(asked["gpus"].to_numpy() * MICRO).astype(np.int64)
    spans = Spans(series, begin, np.maximum(_ends(events, asked["task"], last), begin), micro)
    return history_of_spans(keys, spans, float(submitted.min()), last)


def _ends(events: pa.Table, tasks: pa.ChunkedArray, otherwise: float) -> Floats:
    """When each of these tasks finished (its last pod) or was cancelled, or `otherwise`."""
    ended = pc.is_in(events["event"].cast(pa.string()), value_set=pa.array(["finish", "cancel"]))
    done = events.filter(ended)
    names = tasks.cast(pa.string()).combine_chunks()
    rows = pc.index_in(done["task"].cast(pa.string()), value_set=names)
    ours = rows.is_valid()
    end = np.full(len(names), -np.inf)
    np.maximum.at(end, rows.filter(ours).to_numpy().astype(np.int64), done["time"].filter(ours).to_numpy())
    return np.where(np.isfinite(end), end, otherwise)


def _series(each: Iterable[SeriesKey], count: int) -> tuple[Sequence[SeriesKey], Ints]:
    """The keys in alphabetical order, and the position of each one among them."""
    seen: dict[SeriesKey, int] = {}
    codes = np.fromiter((seen.setdefault(key, len(seen)) for key in each), np.int64, count)
    keys = sorted(seen)
    rank = np.empty(len(keys), np.int64)
    rank[[seen[key] for key in keys]] = np.arange(len(keys))
    return keys, rank[codes]
