"""Event logs from files, for the commands that read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gfs.domain.errors import InputError

NUMBERS = ("time", "run", "gpus")


def read_events(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Any:
    """An Arrow table of these columns; a file that is no event log gives an error that says what is missing."""
    import numpy as np
    import pyarrow as pa

    from gfs.workloads.readers.tables import read_table

    read = read_table(path, needed, optional)
    if read.bad:
        worst = read.bad[0]
        raise InputError(f"{path}: row {worst.row}: {worst.reason}; was the file cut off? Write it again.")
    columns: dict[str, Any] = {}
    for name in read.columns:
        if name not in NUMBERS:
            columns[name] = pa.array(read.text(name), pa.string())
            continue
        values, good = read.numbers(name)
        wrong = ~good
        reason = "not a number"
        if good.all():
            wrong = ~np.isfinite(values) | (values < 0)
            reason = "must be finite and not negative"
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(
                f"{path}: row {read.lines[row]}, {name} = {read.shown(name, row)!r}: {reason};"
                " was this file written by `gfs simulate --events`?"
            )
        columns[name] = values
    return pa.table(columns)
