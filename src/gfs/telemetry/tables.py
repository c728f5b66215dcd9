"""Tables to files: CSV, gzipped CSV or Parquet by the name of the file.

A text that a spreadsheet would take for a formula (it begins with =, @, a tab or a carriage return, or with + or -
and is no number) gets an apostrophe before it in CSV. Reading takes it off again, so the text comes back equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from gfs.domain.errors import InputError
from gfs.files import write_atomically

FORMATS = (".csv", ".csv.gz", ".parquet")

_FORMULA, _ESCAPED = r"^'*[=@+\-\t\r]", r"^'+[=@+\-\t\r]"
_NUMBER = re.compile(r"[+-](\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as .csv, .csv.gz or .parquet, atomically."""
    if path.name.endswith(".parquet"):
        write_atomically(path, lambda temporary: pyarrow.parquet.write_table(table, temporary))
    elif path.name.endswith((".csv", ".csv.gz")):
        compression = "gzip" if path.name.endswith(".gz") else None

        def write(temporary: Path) -> None:
            with pa.output_stream(str(temporary), compression=compression) as out:
                pyarrow.csv.write_csv(csv_table(table), out, pyarrow.csv.WriteOptions(quoting_style="needed"))

        write_atomically(path, write)
    else:
        raise InputError(f"{path}: unknown kind of file; use a name that ends in {', '.join(FORMATS)}")


def with_timestamps(events: pa.Table, first_day: str) -> pa.Table:
    """An event log with a last column `timestamp` (ISO 8601), if it is known on which day second 0 begins."""
    if not first_day:
        return events
    begin = np.datetime64(first_day, "ms")
    moments = begin + np.round(1000 * events["time"].to_numpy()).astype("timedelta64[ms]")
    return events.append_column("timestamp", pa.array(np.datetime_as_string(moments, unit="s")))


def csv_table(table: pa.Table) -> pa.Table:
    """Dictionary columns as plain strings, whole numbers without '.0': what people expect in a CSV."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string(column.type):
            column = escaped_cells(column)
        elif pa.types.is_floating(column.type) and _whole(column):
            column = column.cast(pa.int64())
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def csv_lines(rows: Iterable[Iterable[str | float | None]]) -> str:
    """Returns rows as lines of a CSV file, cells as `write_table` writes them. It is for a few rows at a time."""
    return "".join(f"{','.join(map(_csv_cell, row))}\n" for row in rows)


def _csv_cell(cell: str | float | None) -> str:
    if isinstance(cell, str):
        quoted = _escaped(cell).replace('"', '""')
        return f'"{quoted}"'
    if cell is None:
        return ""
    number = float(cell)
    return str(int(number)) if number.is_integer() and abs(number) < 2.0**53 else repr(number)


def _whole(column: Any) -> bool:
    exact = pc.and_(pc.equal(column, pc.round(column)), pc.less(pc.abs(column), 2.0**53))
    return pc.all(exact).as_py() is not False


def escaped_cells(column: Any) -> Any:
    """A text column with an apostrophe before each cell that a spreadsheet would run."""
    return _changed(column, _FORMULA, _escaped)


def _escaped(cell: str) -> str:
    return f"'{cell}" if _is_formula(cell) else cell


def unescaped_cells(column: Any) -> Any:
    """The column as it was before `escaped_cells`."""
    return _changed(column, _ESCAPED, lambda cell: cell[1:] if _is_formula(cell) else cell)


def _is_formula(cell: str) -> bool:
    """Whether a cell is one, apostrophes before it aside."""
    text = cell.lstrip("'")
    return text[:1] in ("=", "@", "\t", "\r") or (text[:1] in ("+", "-") and not _NUMBER.fullmatch(text))


def _changed(column: Any, pattern: str, change: Callable[[str], str]) -> Any:
    """Cells that match the pattern, changed; nearly always there are none."""
    if not pc.any(pc.match_substring_regex(column, pattern)).as_py():
        return column
    cells = [None if cell is None else change(cell) for cell in column.to_pylist()]
    return pa.array(cells, pa.string())
