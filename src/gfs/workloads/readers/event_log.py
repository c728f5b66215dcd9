"""Event logs, as `gfs simulate --events` writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gfs.domain.errors import InputError
from gfs.domain.limits import MOST_SECONDS
from gfs.domain.task import Priority
from gfs.telemetry.event_log import EVENTS
from gfs.workloads.readers.checks import Checks
from gfs.workloads.readers.tables import read_table

NUMBERS = ("time", "run", "gpus")
WORDS = {"event": EVENTS, "kind": tuple(priority.label for priority in Priority)}
"""Columns that hold one of a few words."""


def read_events(
    path: Path,
    needed: Sequence[str],
    optional: Sequence[str] = (),
    check: Callable[[Checks, pa.Table], None] | None = None,
) -> pa.Table:
    """An Arrow table of these columns; a file that is no event log gives an error that says what is missing.

    `check` may reject more rows, once every value is what its column holds.
    """
    read = read_table(path, needed, optional)
    if read.bad:
        worst = read.bad[0]
        raise InputError(f"{path}: row {worst.row}: {worst.reason}; was the file cut off? Write it again.")
    checks, columns = Checks(read), dict[str, Any]()
    for name in read.columns:
        if name in NUMBERS:
            columns[name] = checks.number(name, most=MOST_SECONDS, kinds=("duration",))
            checks.reject(name, columns[name] < 0, "must not be negative")
            checks.reject(name, (columns[name] % 1 != 0) & (name == "run"), "must be a whole number")
            continue
        texts, allowed = read.text(name), WORDS.get(name)
        if allowed is not None and not set(texts) <= set(allowed):
            strange = np.array([text not in allowed for text in texts])
            checks.reject(name, strange, f"must be {', '.join(allowed[:-1])} or {allowed[-1]}")
        if any("\0" in text for text in set(texts)):
            checks.reject(name, np.array(["\0" in text for text in texts]), "holds a NUL character")
        columns[name] = pa.array(texts, pa.string())
    _raise_first(checks)
    table = pa.table(columns)
    if check is not None:
        check(checks, table)
        _raise_first(checks)
    return table


def _raise_first(checks: Checks) -> None:
    for file, row, column, value, reason in checks.bad_rows()[:1]:
        place = f"{file}: row {row}, {column} = {value!r}"
        raise InputError(f"{place}: {reason}; was this file written by `gfs simulate --events`?")
