"""Demand from a file: CSV, gzipped CSV or Parquet.

Long: `time, organization, gpu_model, gpus` and, if you like, `cluster`, one row per series and hour; further columns
are ignored. Wide: the first column is `hour` or `time`, every other column is a series; a blank is no record. A time is
the number of an hour (hour 0 is midnight) or a timestamp in ISO 8601. Gaps, duplicates and silence:
`gfs.forecasting.sources`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from math import inf
from pathlib import Path

import numpy as np

from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.limits import MOST_GPUS, MOST_SECONDS
from gfs.domain.units import HOUR, MICRO
from gfs.forecasting.history import DAY_HOURS, DemandHistory, Floats, Ints, SeriesKey
from gfs.forecasting.sources import history_of_records
from gfs.workloads.readers.checks import Checks
from gfs.workloads.readers.file_bytes import read_bytes
from gfs.workloads.readers.tables import (
    Table,
    TableSource,
    arrow_table,
    column_names,
    read_table,
    source_name,
    table_of_bytes,
)

LONG = ("time", "organization", "gpu_model", "gpus")
TIMES = ("time", "hour", "timestamp", "datetime", "date")
"""What the first column of a wide file may be called."""
MOST_HOUR = 10_000_000
"""A larger number is a year, a date or seconds, and no number of an hour."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DemandRead:
    """What a file of demand holds."""

    history: DemandHistory
    skipped: tuple[BadRow, ...]
    """The values for which rows were left out; empty unless `skip_bad_rows` was given."""


def read_demand(source: TableSource, *, skip_bad_rows: bool = False) -> DemandRead:
    """Read and check hourly demand, of a file or a frame.

    Raises `BadRows` for rows that cannot be used, unless they are to be skipped, and `InputError` for a file that
    cannot. Series of a long file come in alphabetical order, those of a wide one in the order of its columns.
    """
    path = source_name(source, "demand")
    if isinstance(source, Path | str):
        data = read_bytes(Path(source))
        header, read = column_names(path, data), partial(table_of_bytes, path, data)
    else:
        frame = arrow_table(source, "demand")
        header, read = frame.column_names, partial(read_table, frame, name="demand")
    if len(set(LONG) & set(header)) >= 2 or len(header) < 2:
        checks, records = _read_long(read(LONG, ("cluster",)))
    elif header[0] in TIMES:
        checks, records = _read_wide(read(header), header)
    else:
        raise InputError(
            f"{path}: this is no file of demand (found: {', '.join(header[:8])}). It must have the columns"
            f" {', '.join(LONG)}, or a first column called time or hour and one column a series."
        )
    bad = checks.bad_rows()
    if bad and not skip_bad_rows:
        raise BadRows(bad)
    if not len(records.hours):
        raise InputError(f"{path}: there is no usable row of demand in this file.")
    return DemandRead(records.history(), bad)


@dataclass(frozen=True, slots=True, eq=False)
class _Records:
    """The good records, one element each."""

    keys: list[SeriesKey]
    series: Ints
    hours: Ints
    """Number of the hour; if they were timestamps, since the beginning of 1970."""
    gpus: Floats
    dated: bool

    def history(self) -> DemandHistory:
        """With the hours counted from the midnight before the first one, if they were timestamps."""
        if not self.dated:
            return history_of_records(self.keys, self.series, self.hours, self.gpus)
        day = int(self.hours.min()) // DAY_HOURS
        first_day = date(1970, 1, 1) + timedelta(days=day)
        return history_of_records(self.keys, self.series, self.hours - day * DAY_HOURS, self.gpus, first_day)


def _read_long(table: Table) -> tuple[Checks, _Records]:
    checks = Checks(table)
    hours, dated = _hours(checks, table, "time")
    owners, models = checks.text("organization"), checks.text("gpu_model")
    gpus = _not_negative(checks, "gpus", checks.number("gpus", most=MOST_GPUS))
    good = checks.good
    found: dict[SeriesKey, int] = {}
    clusters = table.text("cluster") if "cluster" in table.columns else [""] * len(owners)
    named = map(SeriesKey, owners, models, clusters)
    codes = np.fromiter((found.setdefault(key, len(found)) for key in named), np.int64, len(owners))
    used = np.bincount(codes[good], minlength=len(found)) > 0
    keys = sorted(key for key, code in found.items() if used[code])
    rank = np.zeros(len(found), np.int64)
    rank[[found[key] for key in keys]] = np.arange(len(keys))
    series = rank[codes]
    return checks, _Records(keys, series[good], hours[good], gpus[good], dated)


def _read_wide(table: Table, header: list[str]) -> tuple[Checks, _Records]:
    checks = Checks(table)
    hours, dated = _hours(checks, table, header[0])
    columns = []
    for name in header[1:]:
        gpus = checks.number(name, missing=-1.0, most=MOST_GPUS)  # a blank: no record
        blank = gpus == -1.0
        if blank.any():
            blank &= np.fromiter((not text for text in table.text(name)), bool, len(table))
        if blank.all() and len(table):
            raise InputError(f"{table.file}: column {name} holds no value. Remove it.")
        gpus = _not_negative(checks, name, np.where(blank, 0.0, gpus))
        columns.append(np.where(blank, -1.0, gpus))
    grid = np.stack(columns)[:, checks.good]
    told = np.flatnonzero((grid >= 0).any(axis=1))  # a series may have had values in bad rows only
    keys = [SeriesKey("", header[1 + i]) for i in told]
    grid = grid[told]
    series, row = np.nonzero(grid >= 0)
    return checks, _Records(keys, series, hours[checks.good][row], grid[series, row], dated)


def _not_negative(checks: Checks, column: str, gpus: Floats) -> Floats:
    """Demand below 0 is refused; what is left over from adding up (-3e-12) is 0."""
    checks.reject(column, gpus * MICRO < -0.5, "must not be negative")
    return np.maximum(gpus, 0.0)


def _hours(checks: Checks, table: Table, column: str) -> tuple[Ints, bool]:
    """The hour of every row, and whether they were timestamps: the first that is not blank decides for all."""
    if table.kind(column) == "timestamp":
        seconds = checks.number(column, most=MOST_SECONDS, kinds=("timestamp",))
        return np.floor(seconds / HOUR).astype(np.int64), True
    if table.kind(column) == "duration":
        hours = np.floor(checks.number(column, most=MOST_SECONDS, kinds=("duration",)) / HOUR)
    else:
        first = next((text for text in table.text(column) if text), "0")
        if _hour_of(first) is not None:
            return _hours_of_timestamps(checks, table, column), True
        hours = checks.number(column, most=inf)
    checks.reject(column, hours < 0, "must not be negative")
    checks.reject(column, hours > MOST_HOUR, "too large for the number of an hour; write 2024-04-01T05:00")
    checks.reject(column, hours != np.floor(hours), "the number of an hour must be whole")
    return np.where(checks.fine(column), hours, 0.0).astype(np.int64), False


def _hours_of_timestamps(checks: Checks, table: Table, column: str) -> Ints:
    """Hours since 1970 as the clock shows them; what has an offset is turned into UTC."""
    texts = table.text(column)
    parsed: dict[str, int | None] = {text: _hour_of(text) for text in dict.fromkeys(texts)}
    unknown = {text for text, hour in parsed.items() if hour is None}
    if unknown:
        blank = np.fromiter((not text for text in texts), bool, len(texts))
        checks.reject(column, blank, "missing")
        wrong = np.fromiter((text in unknown for text in texts), bool, len(texts))
        checks.reject(column, wrong, "not a timestamp like 2024-04-01T05:00, as the first row has")
    return np.fromiter((parsed[text] or 0 for text in texts), np.int64, len(texts))


def _hour_of(text: str) -> int | None:
    if text.isdecimal():  # ISO 8601 would take it for a date without dashes
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(hours=1)
