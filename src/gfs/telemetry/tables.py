"""Tables to files: CSV, gzipped CSV or Parquet by the name of the file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from gfs.domain.errors import InputError
from gfs.files import write_atomically

FORMATS = (".csv", ".csv.gz", ".parquet")


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
