"""Any table of jobs, by a file that says which of its columns are which of ours.

```toml
[jobs]                          # our column = "your column"
job_name = "id"
organization = "team"
gpu_request = "gpus"            # GPUs per pod; or gpus = "..." for all pods together
submit_time = "submitted"
start_time = "started"          # with end_time in place of duration
end_time = "ended"
job_type = "queue"

[values]                        # for all jobs, where the table has no such column
gpu_model = "A100"
worker_num = 1

[times]
unit = "ms"                     # of numbers: s, ms, us or ns. Dates (2026-05-01T12:00:00Z) are recognised
timezone = "Europe/Berlin"      # of dates that name none; UTC if it is not said

[job_type]
spot = ["low", "preempt*"]      # what makes a job spot; all others are HP

[gpu_model]                     # your names -> those of the nodes
"Tesla A100-SXM4-80GB" = "A100"

[nodes]                         # as [jobs], for the table of nodes; left out where it has our names
node_name = "host"
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np

from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.limits import MOST_CPUS, MOST_GPUS, MOST_GPUS_A_NODE, MOST_SECONDS
from gfs.domain.node import NodeSpec
from gfs.domain.units import HOUR
from gfs.files import read_toml
from gfs.records.conversion import Conversion, JobRecord, Notes, SpotRule, assemble, time_zone
from gfs.workloads.readers.checks import Checks, Floats
from gfs.workloads.readers.tables import Table, read_table

PER_SECOND: Final = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
LATEST: Final = 4e9
"""Seconds since 1970 of the year 2096: a number above it is no time in seconds."""


class _Jobs(msgspec.Struct, forbid_unknown_fields=True):
    """The user's column for each of ours."""

    submit_time: str
    job_name: str = ""
    organization: str = ""
    gpu_model: str = ""
    gpu_request: str = ""
    gpus: str = ""
    worker_num: str = ""
    cpu_request: str = ""
    duration: str = ""
    start_time: str = ""
    end_time: str = ""
    job_type: str = ""
    guarantee_hours: str = ""
    checkpoint_interval: str = ""


class _Values(msgspec.Struct, forbid_unknown_fields=True):
    organization: str = ""
    gpu_model: str = ""
    gpu_request: float = 0.0
    worker_num: int = 1
    cpu_request: float = 0.0
    job_type: str = ""
    guarantee_hours: float = 1.0
    checkpoint_interval: float = HOUR


class _Times(msgspec.Struct, forbid_unknown_fields=True):
    unit: Literal["s", "ms", "us", "ns"] = "s"
    timezone: str = "UTC"


class _JobType(msgspec.Struct, forbid_unknown_fields=True):
    spot: list[str] = []


class _Nodes(msgspec.Struct, forbid_unknown_fields=True):
    node_name: str = "node_name"
    gpu_model: str = "gpu_model"
    gpu_capacity_num: str = "gpu_capacity_num"
    cpu_num: str = "cpu_num"


class ColumnMap(msgspec.Struct, forbid_unknown_fields=True):
    """What the file of `--map` says."""

    jobs: _Jobs
    values: _Values = msgspec.field(default_factory=_Values)
    times: _Times = msgspec.field(default_factory=_Times)
    job_type: _JobType = msgspec.field(default_factory=_JobType)
    gpu_model: dict[str, str] = msgspec.field(default_factory=dict)
    nodes: _Nodes = msgspec.field(default_factory=_Nodes)


def read_map(path: Path) -> ColumnMap:
    """Read and check the file of `--map`."""
    try:
        found = msgspec.convert(read_toml(path), ColumnMap)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}. The guide to your own records shows a whole file.") from None
    jobs = found.jobs
    if not (jobs.gpu_request or jobs.gpus or found.values.gpu_request):
        raise InputError(f"{path}: [jobs] names neither gpu_request (GPUs per pod) nor gpus (of all pods).")
    if jobs.gpu_request and jobs.gpus:
        raise InputError(f"{path}: [jobs] names both gpu_request (GPUs per pod) and gpus (of all pods). Keep one.")
    if not jobs.duration and not (jobs.start_time and jobs.end_time):
        raise InputError(f"{path}: [jobs] names neither duration nor start_time and end_time.")
    if not (jobs.gpu_model or found.values.gpu_model):
        raise InputError(f"{path}: no GPU model: name its column in [jobs], or one for all in [values].")
    return found


def read_mapped(jobs: Path, nodes: Path, columns: Path, *, skip_bad_rows: bool = False) -> Conversion:
    """Read a table of jobs and one of nodes by the map in `columns`."""
    mapping, notes = read_map(columns), Notes()
    zone = time_zone(mapping.times.timezone, f"{columns}: [times] timezone =")
    specs, bad_nodes = _read_nodes(nodes, mapping)
    reading = _JobsTable(jobs, mapping, zone, notes)
    records, dated = reading.records()
    bad = (*bad_nodes, *reading.checks.bad_rows())
    if bad and not skip_bad_rows:
        raise BadRows(bad)
    if bad:
        notes.left_out["cannot be used"] += len({(row.file, row.row) for row in bad})
    return assemble(records, specs, jobs.name, notes, dated)


@dataclass(slots=True)
class _JobsTable:
    """The table of jobs while it is read."""

    path: Path
    mapping: ColumnMap
    zone: tzinfo
    notes: Notes
    table: Table = None  # type: ignore[assignment]
    checks: Checks = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        wanted = [name for name in msgspec.structs.astuple(self.mapping.jobs) if name]
        self.table = read_table(self.path, list(dict.fromkeys(wanted)))
        self.checks = Checks(self.table)

    def records(self) -> tuple[list[JobRecord], bool]:
        """The usable rows as records, and whether submissions are dates."""
        columns, values = self.mapping.jobs, self.mapping.values
        submitted, dated = self._times(columns.submit_time)
        duration = self._durations()
        pods = self._numbers(columns.worker_num, values.worker_num, MOST_GPUS)
        gpus = self._numbers(columns.gpus or columns.gpu_request, values.gpu_request, MOST_GPUS)
        if columns.gpus:
            gpus = gpus / np.maximum(pods, 1)
        asked = columns.gpus or columns.gpu_request
        if asked:
            self.checks.reject(asked, (gpus > 1) & (gpus != np.floor(gpus)), "is no whole number of GPUs per pod")
            self.checks.reject(asked, gpus < 0, "must not be negative")
        if columns.worker_num:
            wrong = (pods < 1) | (pods != np.floor(pods))
            self.checks.reject(columns.worker_num, wrong, "must be a whole number of 1 or more")
        cpus = self._numbers(columns.cpu_request, values.cpu_request, MOST_CPUS)
        guarantee = self._numbers(columns.guarantee_hours, values.guarantee_hours, MOST_SECONDS / HOUR)
        interval = self._numbers(columns.checkpoint_interval, values.checkpoint_interval, MOST_SECONDS)
        names = self._texts(columns.job_name, "") or [f"row-{line}" for line in self.table.lines.tolist()]
        owners = self._texts(columns.organization, values.organization or "all")
        models = [self.mapping.gpu_model.get(m, m) for m in self._texts(columns.gpu_model, values.gpu_model)]
        kinds = self._texts(columns.job_type, values.job_type or "HP")
        if not columns.organization and not values.organization:
            self.notes.guess("all jobs are of one organization, called all: the map names no column for it")
        is_spot = SpotRule(self.mapping.job_type.spot, f"column {columns.job_type or 'job_type'}", "in [job_type]")
        found = []
        for row in np.flatnonzero(self.checks.good).tolist():
            if not gpus[row]:
                self.notes.left_out["asks for no GPU"] += 1
                continue
            if np.isnan(duration[row]):
                self.notes.left_out["never ran: no start"] += 1
                continue
            words = (names[row], owners[row], models[row], is_spot(kinds[row]), int(pods[row]))
            numbers = (gpus[row], submitted[row], duration[row], cpus[row], guarantee[row], interval[row])
            found.append(JobRecord(*words, *map(float, numbers)))
        is_spot.note(self.notes)
        return found, dated

    def _texts(self, column: str, value: str) -> list[str]:
        if column:
            return self.checks.text(column)
        return [value] * len(self.table) if value else []

    def _numbers(self, column: str, value: float, most: float) -> Floats:
        if not column:
            return np.full(len(self.table), float(value))
        return self.checks.number(column, most=most, missing=float(value) if value else None, kinds=("duration",))

    def _durations(self) -> Floats:
        columns, per_second = self.mapping.jobs, PER_SECOND[self.mapping.times.unit]
        if columns.duration:
            stored = self.table.kind(columns.duration)
            found = self.checks.number(columns.duration, most=MOST_SECONDS * per_second, kinds=("duration",))
            found = found if stored else found / per_second
            self.checks.reject(columns.duration, found < 0, "must not be negative")
            return found
        start, _ = self._times(columns.start_time, blanks=True)
        end, _ = self._times(columns.end_time, blanks=True)
        usable = self.checks.fine(columns.start_time) & self.checks.fine(columns.end_time)
        runs = usable & np.isnan(end) & ~np.isnan(start)
        if runs.any():
            self.notes.guess("jobs without an end still run: they last until the latest time in the table")
            end = np.where(runs, np.nanmax(np.concatenate([start[usable], end[usable]])), end)
        self.checks.reject(columns.end_time, usable & (end < start), "is before the start")
        return np.maximum(end - start, 0.0)

    def _times(self, column: str, *, blanks: bool = False) -> tuple[Floats, bool]:
        """Seconds of a column of times, and whether they are dates: Arrow timestamps, epochs or written ones.

        `blanks`: a missing time is fine, and NaN.
        """
        if self.table.kind(column) == "timestamp":
            found, present = self.table.numbers(column)
            if not blanks:
                self.checks.reject(column, ~present, "missing")
            return np.where(present, found, np.nan if blanks else 1.0), True
        texts = self.table.text(column)
        first = next((text for text in texts if text), "")
        if not _is_number(first):
            return self._written(column, texts, blanks), True
        per_second = PER_SECOND[self.mapping.times.unit]
        missing = np.nan if blanks else None
        found = self.checks.number(column, missing=missing, most=LATEST * 1e9) / per_second
        self.checks.reject(column, found < 0, "must not be negative")
        late = found > LATEST
        if late.any() and self.checks.fine(column).any():
            self.checks.reject(
                column, late, f"is no time in {self.mapping.times.unit}: set unit in [times] (ms, us, ns)"
            )
        return found, bool(len(found)) and float(np.nanmedian(found)) > 10 * 365 * 86400

    def _written(self, column: str, texts: Sequence[str], blanks: bool) -> Floats:
        found, wrong = np.ones(len(texts)), np.zeros(len(texts), dtype=bool)
        for row, text in enumerate(texts):
            try:
                moment = datetime.fromisoformat(text)
                found[row] = (moment if moment.tzinfo else moment.replace(tzinfo=self.zone)).timestamp()
            except (ValueError, OverflowError):
                wrong[row] = True
        blank = np.fromiter((not text for text in texts), bool, len(texts))
        if not blanks:
            self.checks.reject(column, blank, "missing")
        self.checks.reject(column, wrong & ~blank, "not a date such as 2026-05-01T12:00:00Z")
        return np.where(blank & blanks, np.nan, found)


def _read_nodes(path: Path, mapping: ColumnMap) -> tuple[tuple[NodeSpec, ...], tuple[BadRow, ...]]:
    names = mapping.nodes
    optional = (names.cpu_num,)
    constant = mapping.values.gpu_model
    needed = [names.node_name, names.gpu_capacity_num] + ([] if constant else [names.gpu_model])
    table = read_table(path, needed, (*optional, *([names.gpu_model] if constant else [])))
    checks = Checks(table)
    hosts = checks.text(names.node_name)
    models = checks.text(names.gpu_model) if names.gpu_model in table.columns else [constant] * len(table)
    gpus = checks.number(names.gpu_capacity_num, most=MOST_GPUS_A_NODE)
    cpus = checks.number(names.cpu_num, missing=0.0, most=MOST_CPUS)
    checks.reject(names.gpu_capacity_num, (gpus < 0) | (gpus != np.floor(gpus)), "must be a whole number")
    checks.reject_duplicates(names.node_name, hosts)
    rows = [row for row in np.flatnonzero(checks.good).tolist() if gpus[row]]
    renamed: Mapping[str, str] = mapping.gpu_model
    specs = (
        NodeSpec(i, hosts[row], renamed.get(models[row], models[row]), int(gpus[row]), float(cpus[row]))
        for i, row in enumerate(rows)
    )
    return tuple(specs), checks.bad_rows()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
