"""Files, all or nothing: written beside the target under another name, then renamed."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gfs.domain.errors import InputError

OURS = ".gfs-files.json"
"""In a folder of results: the names and digests of the files that GFS wrote there."""


def check_writable(path: Path, formats: tuple[str, ...] = ()) -> None:
    """Say early, before minutes of work, that a result could not be written to `path`."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file in it")
    if formats and not path.name.endswith(formats):
        raise InputError(f"{path}: unknown kind of file; use a name that ends in {', '.join(formats)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: no permission to write into {path.parent}")


def check_ours(folder: Path, names: Sequence[str]) -> None:
    """Raise if a file that is to be written into `folder` is there and is not as GFS wrote it (`record_ours`)."""
    ours = _ours(folder)
    for name in names:
        path = folder / name
        if path.is_file() and ours.get(name) != _digest(path):
            raise InputError(
                f"{path}: is there already and was not written by gfs, or was changed since. Name another folder,"
                " or overwrite it with --force."
            )


def record_ours(folder: Path, names: Sequence[str]) -> None:
    """Note which files of a folder GFS wrote, so that it may overwrite them as long as nobody changes them."""
    written = {name: _digest(folder / name) for name in names if (folder / name).is_file()}
    write_text(folder / OURS, json.dumps(_ours(folder) | written, indent=1) + "\n")


def _ours(folder: Path) -> dict[str, str]:
    try:
        told = json.loads((folder / OURS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_toml(path: Path) -> dict[str, Any]:
    """The tables and values of a TOML file; raises InputError if it cannot be read or is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # also bytes that are no text, numbers of thousands of digits
        raise InputError(f"{path}: not a TOML file: {error}") from error


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
        raise InputError(f"{path}: cannot be written: {error.strerror or error}; nothing was left behind") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: _write_text(temporary, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically, and see that it is on the disk before it takes the place of the old one."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    write_atomically(path, write)
