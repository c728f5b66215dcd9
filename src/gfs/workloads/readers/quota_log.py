"""Quota logs, as `gfs simulate --quota-log` writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from gfs.domain.errors import BadRow, InputError
from gfs.domain.limits import MOST_SECONDS
from gfs.telemetry.event_log import QUOTA_SCHEMA
from gfs.workloads.readers.checks import Checks
from gfs.workloads.readers.tables import read_table

NEEDED = ("time", "gpu_model", "guarantee_hours", "quota", "spot_in_use")
TEXTS = ("gpu_model", "forecaster", "organization")


def read_quota(path: Path) -> pa.Table:
    """The rows of a quota log as far as the file has its columns; empty cells are NaN or ''.

    Raises InputError at the first row that cannot be one.
    """
    read = read_table(path, NEEDED, [name for name in QUOTA_SCHEMA.names if name not in NEEDED])
    checks, columns = Checks(read), {}
    for name in read.columns:
        if name in TEXTS:
            columns[name] = pa.array(checks.text(name) if name == "gpu_model" else read.text(name), pa.string())
        elif name in ("time", "guarantee_hours"):
            columns[name] = pa.array(checks.number(name, most=MOST_SECONDS))
            checks.reject(name, columns[name].to_numpy() < 0, "must not be negative")
        else:
            values, present = read.numbers(name)
            blank = np.array([not text for text in read.text(name)], dtype=bool)
            checks.reject(name, ~present & ~blank, "not a number")
            columns[name] = pa.array(np.where(present, values, np.nan))
    times = columns["time"].to_numpy()
    checks.reject("time", np.diff(times, prepend=times[:1]) < 0, "is before the row above it")
    for file, row, column, value, reason in checks.bad_rows()[:1]:
        raise InputError(_told(BadRow(file, row, column, value, reason)))
    return pa.table(columns)


def _told(bad: BadRow) -> str:
    place = f"{bad.file}: row {bad.row}, {bad.column} = {bad.value!r}"
    return f"{place}: {bad.reason}; was this file written by `gfs simulate --quota-log`?"
