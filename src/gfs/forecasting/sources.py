"""Demand of a trace or of an event log: HP GPUs running or queued, per organization and GPU model.

Of a trace the queue is not known: demand is as if every task started when it was submitted. Of an event log it is
known: a task wants its GPUs from submission to finish. One that is cancelled wants them until then. Both end with
the last hour that was over when the last task was submitted; after it demand only fades out because nothing more
is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gfs.domain.errors import InputError
from gfs.domain.task import Priority
from gfs.domain.units import MICRO
from gfs.domain.workload import Workload
from gfs.forecasting.history import DemandHistory, Floats, Ints, SeriesKey
from gfs.forecasting.hourly import Spans, history_of_spans

EVENT_COLUMNS = ("time", "event", "task", "kind", "organization", "gpu_model", "gpus")


def history_of_workload(workload: Workload, until: float | None = None) -> DemandHistory:
    """HP demand of a trace; `until` (seconds) in place of the last submission."""
    tasks = [task for task in workload.tasks if not task.is_spot]
    if not tasks:
        raise InputError("there is no HP task in this trace: no demand to forecast")
    keys, series = _series((SeriesKey(task.organization, task.gpu_model) for task in tasks), len(tasks))
    begin = np.fromiter((task.submit_time for task in tasks), np.float64, len(tasks))
    end = begin + np.fromiter((workload.durations[task.index] for task in tasks), np.float64, len(tasks))
    if workload.cancel_times:
        cancel = np.fromiter((workload.cancel_times[task.index] for task in tasks), np.float64, len(tasks))
        end = np.minimum(end, cancel)
    micro = np.fromiter((task.micro for task in tasks), np.int64, len(tasks))
    since, last = workload.tasks[0].submit_time, workload.tasks[-1].submit_time
    spans = Spans(series, begin, end, micro)
    return history_of_spans(keys, spans, since, last if until is None else until)


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
