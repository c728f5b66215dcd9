"""Files, all or nothing: written beside the target under another name, then renamed.

A process that is killed may leave such a file behind. Whoever writes one holds a lock on it, so a leftover is known by
its lock being free, and the next writer of the same target removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gfs.domain.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: leftovers stay, and two processes that list files in one folder may forget some
    fcntl = None  # type: ignore[assignment]

OURS = ".gfs-files.json"
"""In a folder of results: the names and digests of the files that GFS wrote there."""
PART = ".part"
"""How the name of a file ends that is being written."""


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
    """Raise if a file that is to be written into `folder` is there and is not as GFS wrote it (`list_ours`)."""
    ours = _ours(folder)
    for name in names:
        path = folder / name
        if path.is_file() and _digest(path) not in ours.get(name, ()):
            raise InputError(
                f"{path}: is there already and was not written by gfs, or was changed since. Name another folder,"
                " or overwrite it with --force."
            )


def list_ours(folder: Path) -> None:
    """From now on it is noted which files of a folder GFS writes: these it may overwrite while nobody changes them."""
    if not (folder / OURS).exists():
        write_text(folder / OURS, "{}\n")


def unlist_ours(folder: Path) -> None:
    """Take the list away again if nothing was written."""
    with suppress(OSError):
        if not _ours(folder):
            (folder / OURS).unlink()


def record_ours(folder: Path, names: Sequence[str]) -> None:
    """Note files of a folder that grew line by line."""
    written = {name: [_digest(folder / name)] for name in names if (folder / name).is_file()}
    with _locked(folder):
        _write_ours(folder, _ours(folder) | written)


def _ours(folder: Path) -> dict[str, list[str]]:
    """The digests that the file of a name may have."""
    try:
        told = json.loads((folder / OURS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(told, dict):
        return {}
    return {name: [some] if isinstance(some, str) else list(some) for name, some in told.items()}


def _write_ours(folder: Path, ours: dict[str, list[str]]) -> None:
    write_text(folder / OURS, json.dumps(ours, indent=1) + "\n")


def _rename_listed(temporary: Path, path: Path) -> None:
    """Note the file before it gets its name: if killed in between, the old one and the new one are both known."""
    folder, name = path.parent, path.name
    with _locked(folder):
        ours = _ours(folder)
        there = [digest for digest in ours.get(name, ()) if path.is_file() and digest == _digest(path)]
        _write_ours(folder, ours | {name: [*there, _digest(temporary)]})
        temporary.replace(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time changes the list of a folder."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems of networks cannot
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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


def always() -> bool:
    """The file is ours, whatever happens."""
    return True


def write_atomically(
    path: Path, write: Callable[[Path], None], *, tidy: bool = True, still: Callable[[], bool] = always
) -> None:
    """Let `write` fill a temporary file in the same folder, see that it is on the disk, then rename it to `path`.

    `tidy`: remove what killed writers left of the same file, or of any file in a folder that is ours. `still`: asked
    last of all, whether the file is still ours to write; if not, it stays as it was.
    """
    temporary, handle = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}"), None
    try:  # the name is known before there is such a file: whatever comes from here on, it is removed
        try:
            if tidy:
                remove_leftovers(path.parent, "" if (path.parent / OURS).exists() else path.name)
            handle = _create_locked(temporary)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {_why(error)}") from error
        try:
            write(temporary)
            os.fsync(handle)
            temporary.chmod(0o644)
            if not still():
                return
            if path.name != OURS and (path.parent / OURS).exists():
                _rename_listed(temporary, path)
            else:
                temporary.replace(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {_why(error)}; nothing was left behind") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
        if handle is not None:
            os.close(handle)


def _why(error: OSError) -> str:
    """In a few words; Arrow has the number of the error in its text alone."""
    told = re.search(r"\[errno (\d+)\]", str(error))
    return os.strerror(int(told[1])) if told else error.strerror or str(error)


def _create_locked(path: Path) -> int:
    """Create a file that only we can read, locked by the handle that comes back."""
    while True:
        handle = os.open(os.fspath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if _lock(handle) and not os.fstat(handle).st_nlink:  # taken for a leftover before it was locked
            os.close(handle)
            continue
        return handle


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Remove what killed processes left of a file, or of any, and nobody writes any more."""
    if fcntl is None:
        return
    with os.scandir(folder) as entries:
        left = [Path(each) for each in entries if each.name.startswith(f".{name}") and each.name.endswith(PART)]
    for path in left:
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR)
            try:
                if _lock(handle, wait=False):
                    path.unlink(missing_ok=True)
            finally:
                os.close(handle)


def _lock(handle: int, *, wait: bool = True) -> bool:
    """Whether the file is ours alone; not if somebody has it, or if this file system knows no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_text(path: Path, text: str, *, tidy: bool = True, still: Callable[[], bool] = always) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: _write_text(temporary, text), tidy=tidy, still=still)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes, *, still: Callable[[], bool] = always) -> None:
    """Write a file atomically."""
    write_atomically(path, lambda temporary: _write_bytes(temporary, data), still=still)


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)
