"""Event logs, as `gfs simulate --events` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from gfs.domain.errors import InputError
from gfs.domain.limits import MOST_SECONDS
from gfs.domain.task import Priority
from gfs.telemetry.event_log import EVENTS
from gfs.workloads.readers.tables import Table, read_table

NUMBERS = ("time", "run", "gpus")
WORDS = {"event": EVENTS, "kind": tuple(priority.label for priority in Priority)}
"""Columns that hold one of a few words."""


def read_events(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> pa.Table:
    """An Arrow table of these columns; a file that is no event log gives an error that says what is missing."""
    read = read_table(path, needed, optional)
    if read.bad:
        worst = read.bad[0]
        raise InputError(f"{path}: row {worst.row}: {worst.reason}; was the file cut off? Write it again.")
    columns: dict[str, Any] = {}
    for name in read.columns:
        if name not in NUMBERS:
            texts = read.text(name)
            allowed = WORDS.get(name)
            if allowed is not None and not set(texts) <= set(allowed):
                row = next(row for row, text in enumerate(texts) if text not in allowed)
                _refuse(read, name, row, f"must be {', '.join(allowed[:-1])} or {allowed[-1]}")
            if any("\0" in text for text in set(texts)):
                _refuse(read, name, next(i for i, text in enumerate(texts) if "\0" in text), "holds a NUL character")
            columns[name] = pa.array(texts, pa.string())
            continue
        if read.kind(name) == "timestamp":
            raise InputError(f"{path}: column {name} holds timestamps where numbers belong. Write seconds into it.")
        values, good = read.numbers(name)
        wrong = ~good
        reason = "not a number"
        if good.all():
            wrong = ~((values >= 0) & (values <= MOST_SECONDS))
            reason = f"must be between 0 and {MOST_SECONDS:,.0f}"
            if name == "run" and not wrong.any():
                wrong, reason = values % 1 != 0, "must be a whole number"
        if wrong.any():
            _refuse(read, name, int(wrong.argmax()), reason)
        columns[name] = values
    return pa.table(columns)


def _refuse(table: Table, column: str, row: int, reason: str) -> NoReturn:
    raise InputError(
        f"{table.file}: row {table.lines[row]}, {column} = {table.shown(column, row)!r}: {reason};"
        " was this file written by `gfs simulate --events`?"
    )
