"""The bytes of a table file, unpacked; and what a file is that is no table we read."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from pathlib import Path

from gfs.domain.errors import InputError
from gfs.domain.limits import MOST_UNPACKED

GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
_SAVE = "save it as CSV or Parquet"
_KINDS = (
    (b"ARROW1", "a Feather (Arrow IPC) file", _SAVE),
    (b"FEA1", "a Feather file", _SAVE),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook of the old kind (.xls)", "save it as CSV"),
    (b"\xfd7zXZ\0", "compressed with xz", "unpack it with unxz, or compress it with gzip"),
    (b"BZh", "compressed with bzip2", "unpack it with bunzip2, or compress it with gzip"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it with unzstd, or compress it with gzip"),
    (b"\x89HDF", "an HDF5 file", _SAVE),
    (b"SQLite format 3\0", "an SQLite database", "export the table as CSV"),
    (b"ORC", "an ORC file", _SAVE),
    (b"Obj\x01", "an Avro file", _SAVE),
    (b"%PDF", "a PDF document", "give the table as CSV"),
    (b"\x80\x04", "a Python pickle", _SAVE),
    (b"\x80\x05", "a Python pickle", _SAVE),
    (b"\xff\xfe", "UTF-16 text", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "save it as UTF-8"),
    (b"<", "a page of HTML or XML", "was it downloaded whole? Give the table as CSV"),
    (b"{", "JSON", _SAVE),
    (b"[", "JSON", _SAVE),
)
"""How files of other kinds begin, what they are, and what to do with them."""


def read_bytes(path: Path) -> bytes:
    """The whole file, unpacked if it is gzipped; raises InputError where it holds no CSV or Parquet table."""
    return _table_bytes(str(path), read_any_bytes(path))


def read_any_bytes(path: Path) -> bytes:
    """The whole file, unpacked if it is gzipped, whatever it holds."""
    if path.is_dir():
        raise InputError(f"{path}: this is a directory. Give the file in it.")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file. Check the name.") from None
    except PermissionError:
        raise InputError(f"{path}: no permission to read it. Change its permissions or copy it.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from error
    return _gunzipped(str(path), data)


def unpacked(file: str, data: bytes) -> bytes:
    """What `read_bytes` gives, of bytes that are there already; `file` is their name in errors."""
    return _table_bytes(file, _gunzipped(file, data))


def _gunzipped(file: str, data: bytes) -> bytes:
    if data[:2] == GZIP:
        try:
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MOST_UNPACKED + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{file}: cannot be unpacked with gzip ({error}). Compress it again.") from error
        if len(data) > MOST_UNPACKED:
            most = f"{MOST_UNPACKED / 2**30:,.3g} GiB"
            raise InputError(f"{file}: unpacks to more than {most}. Split it, or give it as Parquet.")
    if not data.strip():
        raise InputError(f"{file}: the file is empty.")
    return data


def _table_bytes(file: str, data: bytes) -> bytes:
    if data[:4] != PARQUET:
        if file.lower().endswith((".parquet", ".pq")):
            other = next((f" but {kind}" for magic, kind, _ in _KINDS if data.startswith(magic)), "")
            raise InputError(f"{file}: this is not a Parquet file{other}. Export it again, or give the CSV file.")
        _refuse_other_kinds(file, data)
    return data


def _refuse_other_kinds(file: str, data: bytes) -> None:
    if data[:4] == b"PK\x03\x04":
        what, advice = _archive(data)
    elif data[257:262] == b"ustar":
        what, advice = "a tar archive", "unpack it with tar -xf and give the table in it"
    else:
        begin = data[:64].lstrip()
        found = next(((what, advice) for magic, what, advice in _KINDS if begin.startswith(magic)), None)
        if found is None:
            return
        what, advice = found
    raise InputError(f"{file}: this is {what}; {advice}.")


def _archive(data: bytes) -> tuple[str, str]:
    """What a zip file is: spreadsheets come as such."""
    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        names = []
    if any(name.startswith("xl/") for name in names) or b"xl/" in data[:4096]:
        return "an Excel workbook", "save it as CSV"
    if "content.xml" in names:
        return "an OpenDocument spreadsheet", "save it as CSV"
    return "a zip archive", "unpack it and give the table in it"
