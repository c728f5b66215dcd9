"""Tables to files, all or nothing: written beside the target under another name, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from gfs.domain.errors import InputError

FORMATS = (".csv", ".csv.gz", ".parquet")


def check_writable(path: Path, formats: tuple[str, ...] = FORMATS) -> None:
    """Say early, before minutes of work, that a result could not be written to `path`."""
    if formats and not path.name.endswith(formats):
        raise InputError(f"{path}: unknown kind of file; use a name that ends in {', '.join(formats)}")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: no permission to write into {path.parent}")


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file in the same folder, then rename it to `path`."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror or error}; nothing was left behind"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: _write_text(temporary, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as .csv, .csv.gz or .parquet, atomically."""
    if path.name.endswith(".parquet"):
        write_atomically(path, lambda temporary: pyarrow.parquet.write_table(table, temporary))
    elif path.name.endswith((".csv", ".csv.gz")):
        compression = "gzip" if path.name.endswith(".gz") else None

        def write(temporary: Path) -> None:
            with pa.output_stream(str(temporary), compression=compression) as out:
                pyarrow.csv.write_csv(_plain(table), out, _csv_options())

        write_atomically(path, write)
    else:
        raise InputError(f"{path}: unknown kind of file; use a name that ends in {', '.join(FORMATS)}")


def _csv_options() -> pyarrow.csv.WriteOptions:
    return pyarrow.csv.WriteOptions(quoting_style="needed")


def _plain(table: pa.Table) -> pa.Table:
    """Dictionary columns as plain strings, whole numbers without '.0': what people expect in a CSV."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        elif pa.types.is_floating(column.type) and pc.all(pc.equal(column, pc.round(column))).as_py():
            column = column.cast(pa.int64())
        columns.append(column)
    return pa.table(columns, names=table.column_names)
