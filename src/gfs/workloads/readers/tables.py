"""Read a table: text, number and time columns, the line of every record.

It is a file (CSV, gzipped CSV or Parquet), an Arrow table, or a frame of pandas, Polars or any other library that hands
its columns over as Arrow does (`__arrow_c_stream__`). None of these libraries is imported here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gfs.domain.errors import BadRow, InputError
from gfs.telemetry.tables import unescaped_cells
from gfs.workloads.readers.file_bytes import PARQUET, read_bytes, unpacked

_BLANK = ("", "nan", "NaN")


@runtime_checkable
class ArrowFrame(Protocol):
    """A table of any library, in memory: the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Its columns."""


TableSource = Path | str | ArrowFrame
"""The path of a table file, or the table itself."""


@dataclass(frozen=True, slots=True)
class Table:
    """The wanted columns of a file that the file has."""

    file: str
    columns: dict[str, Any]
    """Arrow arrays: text (never null, blank for missing) or numbers as stored."""
    lines: NDArray[np.int64]
    """Line of each record as an editor counts it; in a Parquet file the first record is 2 as well."""
    bad: tuple[BadRow, ...]
    """Lines that are not records: too many or too few values."""
    escaped: bool = False
    """Text may have an apostrophe before what a spreadsheet would run (`gfs.telemetry.tables`): a CSV file."""

    def __len__(self) -> int:
        return len(self.lines)

    def text(self, name: str) -> list[str]:
        """A column as text without surrounding blanks; missing values are ''."""
        trimmed = pc.utf8_trim_whitespace(_as_text(self.columns[name]))
        coded = pc.dictionary_encode(trimmed)  # so that equal texts are one object
        different = unescaped_cells(coded.dictionary) if self.escaped else coded.dictionary
        words = ["" if word in _BLANK else word for word in different.to_pylist()]
        return [words[code] for code in coded.indices.to_pylist()]

    def numbers(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """A column as numbers, and which of its values are numbers at all. Missing ones are not.

        Lengths of time are seconds, whatever their unit; points in time are seconds since 1970, in UTC if the
        column has a time zone and else as the clock shows them.
        """
        column = self.columns[name]
        if self.kind(name):
            return _seconds(column)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            try:
                cast = pc.cast(column, pa.float64(), safe=False)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                cast = None
            if cast is not None:
                present = np.asarray(pc.is_valid(cast).to_numpy(zero_copy_only=False), dtype=bool)
                return np.asarray(pc.fill_null(cast, 0.0).to_numpy(), dtype=np.float64), present
        trimmed = pc.utf8_trim_whitespace(_as_text(column))
        try:
            values = pc.cast(trimmed, pa.float64()).to_numpy()
            return np.asarray(values, dtype=np.float64), np.ones(len(self), dtype=bool)
        except pa.ArrowInvalid:
            return _parse_each(trimmed.to_pylist())

    def kind(self, name: str) -> Literal["", "duration", "timestamp"]:
        """Whether Arrow stores a column as lengths of time or as points in time; '' for anything else."""
        stored = self.columns[name].type
        if pa.types.is_duration(stored):
            return "duration"
        return "timestamp" if pa.types.is_timestamp(stored) or pa.types.is_date(stored) else ""

    def shown(self, name: str, row: int) -> str:
        """A value as a person would recognise it in the file."""
        cell = self.columns[name][row]
        try:
            value = cell.as_py()
        except (ValueError, OverflowError):  # nanoseconds, or a year that Python's calendar does not have
            value = cell.value
        return "" if value is None else str(value)


def read_table(source: TableSource, needed: Sequence[str], optional: Sequence[str] = (), name: str = "") -> Table:
    """The `needed` and, where present, the `optional` columns. Others are ignored.

    `name` is what a table without a file is called in errors; its rows count from 0, as frames do.
    """
    if isinstance(source, Path | str):
        return _table(str(source), read_bytes(Path(source)), needed, optional)
    return _from_frame(name, source, needed, optional)


def source_name(source: TableSource, name: str) -> str:
    """The path of a file; of a frame what it is, with `name`: 'jobs (DataFrame)'."""
    return str(source) if isinstance(source, Path | str) else f"{name} ({type(source).__name__})"


def arrow_table(source: ArrowFrame, name: str) -> pa.Table:
    """The columns of a frame as Arrow has them, without an index; raises InputError where that cannot be done."""
    if isinstance(source, pa.Table):
        return source
    file = source_name(source, name)
    if not isinstance(source, ArrowFrame):
        raise InputError(
            f"{file}: give the path of a file, an Arrow table, or a frame of pandas (2.2 or newer) or Polars"
        )
    try:
        table = pa.RecordBatchReader.from_stream(source).read_all()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as a table ({_first_line(error)}).") from error
    names = [column for column in table.column_names if not column.startswith("__index_level_")]
    return table.select(names)


def _from_frame(name: str, source: ArrowFrame, needed: Sequence[str], optional: Sequence[str]) -> Table:
    file, table = source_name(source, name), arrow_table(source, name)
    require_columns(file, table.column_names, needed, in_file=False)
    try:
        columns = _columns(table, [column for column in (*needed, *optional) if column in table.column_names])
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InputError(f"{file}: cannot be read as a table ({_first_line(error)}).") from error
    return Table(file, columns, np.arange(table.num_rows, dtype=np.int64), ())


def table_of_bytes(file: str, data: bytes, needed: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """As `read_table`, of bytes that are there already; `file` is their name in errors."""
    return _table(file, unpacked(file, data), needed, optional)


def _table(file: str, data: bytes, needed: Sequence[str], optional: Sequence[str]) -> Table:
    read = _from_parquet if data[:4] == PARQUET else _from_csv
    return read(file, data, needed, optional)


def column_names(file: str, data: bytes) -> list[str]:
    """The names of the columns, of bytes as `read_bytes` gives them; none of a Parquet file that cannot be read."""
    if data[:4] != PARQUET:
        return _csv_parts(file, data)[0]
    try:
        return [str(name) for name in pq.read_schema(pa.BufferReader(data)).names]
    except (pa.ArrowException, OSError, ValueError):
        return []


def require_columns(file: str, have: Sequence[str], needed: Sequence[str], *, in_file: bool = True) -> None:
    """Raise unless every needed column is there, once."""
    missing = [name for name in needed if name not in have]
    if missing:
        found = ", ".join(have[:20]) or "none"
        hint = " Values must be separated by commas." if len(have) == 1 and any(c in have[0] for c in ";\t|") else ""
        must = f" The first line must name the columns {', '.join(needed)}.{hint}" if in_file else ""
        raise InputError(f"{file}: column {', '.join(missing)} missing (found: {found}).{must}")
    twice = sorted({name for name in needed if list(have).count(name) > 1})
    if twice:
        raise InputError(f"{file}: column {', '.join(twice)} appears twice. Keep one of them.")


def _from_parquet(file: str, data: bytes, needed: Sequence[str], optional: Sequence[str]) -> Table:
    """Read a Parquet file."""
    try:
        source = pq.ParquetFile(pa.BufferReader(data))
        have = source.schema_arrow.names
        require_columns(file, have, needed)
        wanted = [name for name in (*needed, *optional) if name in have]
        table = source.read(columns=wanted)
        columns = _columns(table, wanted)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise InputError(f"{file}: cannot be read as Parquet ({_first_line(error)}). Export it again.") from error
    return Table(file, columns, np.arange(table.num_rows, dtype=np.int64) + 2, ())


def _columns(table: pa.Table, wanted: Sequence[str]) -> dict[str, Any]:
    """Columns as whole arrays of plain types, each of them readable."""
    columns = {name: _plain(table[name].combine_chunks()) for name in wanted}
    for column in columns.values():
        column.validate(full=True)  # text that is not UTF-8, counts that do not agree
        _as_text(column)
    return columns


def _plain(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):  # as `combine_chunks` gives it for a type that it cannot join
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if str(column.type) == "string_view":  # as Polars has text
        try:
            column = column.cast(pa.string())
        except pa.ArrowNotImplementedError:  # in older versions of Arrow
            column = pa.array(column.to_pylist(), pa.string())
    return column.cast(pa.float64()) if pa.types.is_float16(column.type) else column


def _from_csv(file: str, data: bytes, needed: Sequence[str], optional: Sequence[str]) -> Table:
    """Read a CSV file: every wanted column as text, so that '007' stays '007'."""
    have, before, body = _csv_parts(file, data)
    require_columns(file, have, needed)
    wanted = [name for name in (*needed, *optional) if name in have]
    strange: list[tuple[int, str, str]] = []

    def on_strange(row: pacsv.InvalidRow) -> str:
        if row.text.strip():
            reason = f"{row.actual_columns} values where the header names {row.expected_columns} columns"
        else:
            reason = ""
        strange.append((row.number, row.text, reason))
        return "skip"

    quoted = b'"' in body
    unique = [name if have.index(name) == i else f"{name}\0{i}" for i, name in enumerate(have)]
    if not body.strip():
        return Table(file, {n: pa.array([], pa.string()) for n in wanted}, np.empty(0, np.int64), ())
    try:
        table = pacsv.read_csv(
            pa.BufferReader(body),
            read_options=pacsv.ReadOptions(column_names=unique, use_threads=False, block_size=1 << 24),
            parse_options=pacsv.ParseOptions(
                ignore_empty_lines=False, invalid_row_handler=on_strange, newlines_in_values=quoted
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=unique if quoted else wanted,
                column_types=dict.fromkeys(unique, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException as error:
        raise InputError(f"{file}: cannot be read as CSV ({_first_line(error)}). Correct the file.") from error
    lines, strange_lines = _lines(table, [(rank, text.count("\n")) for rank, text, _ in strange], quoted)
    offset = before + 1
    lines += offset
    bad = tuple(
        BadRow(file, int(line) + offset, "(row)", text.strip()[:60], why)
        for line, (_, text, why) in zip(strange_lines, strange, strict=True)
        if why
    )
    columns = {name: table[name].combine_chunks() for name in wanted}
    keep = _not_blank_lines(columns, lines - before - 1, body)
    if not keep.all():
        columns, lines = {name: column.filter(pa.array(keep)) for name, column in columns.items()}, lines[keep]
    return Table(file, columns, lines, bad, escaped=True)


def _csv_parts(file: str, data: bytes) -> tuple[list[str], int, bytes]:
    """The names of the columns, blank lines before them, and what follows them, lines ending in \\n."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    _require_utf8(file, data)
    if b"\r" in data:
        parts = data.split(b'"')
        parts[::2] = [part.replace(b"\r\n", b"\n").replace(b"\r", b"\n") for part in parts[::2]]  # outside of quotes
        data = b'"'.join(parts)
    rest = data.lstrip(b"\n")
    header, _, body = rest.partition(b"\n")
    try:
        names = [name.strip() for name in next(csv.reader(io.StringIO(header.decode())), [])]
    except csv.Error as error:
        raise InputError(f"{file}: the first line cannot be read as CSV ({error}). Correct it.") from error
    return names, len(data) - len(rest), body


def _not_blank_lines(columns: dict[str, Any], lines: NDArray[np.int64], body: bytes) -> NDArray[np.bool_]:
    """Records that are more than a blank line. (Nothing but commas is a record, of missing values.)"""
    keep = np.ones(len(lines), dtype=bool)
    hollow = np.ones(len(lines), dtype=bool)
    for column in columns.values():
        hollow &= np.asarray(pc.equal(column, "").to_numpy(zero_copy_only=False), dtype=bool)
    if hollow.any():
        texts = body.split(b"\n")
        for row in np.flatnonzero(hollow):
            keep[row] = bool(texts[lines[row] - 1].strip())
    return keep


def _lines(table: Any, strange: list[tuple[int, int]], quoted: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lines after the header, from 1, on which records and `strange` lines (rank, line breaks) begin."""
    ranks = np.asarray([rank for rank, _ in strange], dtype=np.int64) - 1
    is_record = np.ones(table.num_rows + len(strange), dtype=bool)
    is_record[ranks] = False
    breaks = np.ones(len(is_record), dtype=np.int64)
    breaks[ranks] += np.asarray([inside for _, inside in strange], dtype=np.int64)
    if quoted:
        for name in table.column_names:
            breaks[is_record] += np.asarray(pc.count_substring(table[name], "\n").to_numpy(), dtype=np.int64)
    begins = np.cumsum(breaks) - breaks + 1
    return begins[is_record], begins[ranks]


def _require_utf8(file: str, data: bytes) -> None:
    """Raise where the bytes are not UTF-8, with the line."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{file}: line {line} is not UTF-8 text (byte 0x{data[error.start]:02x}). "
            f"If it is Latin-1, convert it: iconv -f LATIN1 -t UTF-8 {Path(file).name} > utf8.csv"
        ) from None


def _as_text(column: Any) -> Any:
    """A column as text: whole numbers without '.0', missing values ''."""
    if pa.types.is_duration(column.type):
        column = pa.array(_seconds(column)[0], mask=~_seconds(column)[1])
    if pa.types.is_floating(column.type):
        texts = [None if v is None else (str(int(v)) if v.is_integer() else repr(v)) for v in column.to_pylist()]
        column = pa.array(texts, pa.string())
    return pc.fill_null(pc.cast(column, pa.string()), "")


def _seconds(column: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Lengths or points of time as seconds, and which of them are there."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    counts = np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), dtype=np.int64)
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    whole, rest = np.divmod(counts, per_second)  # apart, so that no digit of nanoseconds since 1970 is lost
    return whole + rest / per_second, present


def _parse_each(texts: list[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers one by one, for columns where some are not."""
    values, good = np.zeros(len(texts)), np.ones(len(texts), dtype=bool)
    for i, text in enumerate(texts):
        try:
            values[i] = float(text if "_" not in text else "")
        except ValueError:
            good[i] = False
    return values, good


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
