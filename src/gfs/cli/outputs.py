"""The files a command writes: checked before the work starts, written whole or not at all after it."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gfs.cli.console import note, say
from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.domain.workload import Workload

STDOUT = Path("-")
TABLES = (".csv", ".csv.gz", ".parquet")
PAGES = (".html", ".htm")
JSON = (".json",)
LINES = (".jsonl", ".jsonl.gz")


WRITTEN: dict[Path, None] = {}
"""The files that this command has completed, in order: Ctrl-C names them, also while results are printed."""


class Outputs:
    """The results that a command writes into files."""

    def __init__(self, *inputs: Path | None) -> None:
        """`inputs` are not to be overwritten."""
        self._taken = {path.resolve(): "is one of the inputs" for path in inputs if path is not None}

    def __enter__(self) -> Self:
        WRITTEN.clear()
        return self

    def __exit__(self, *_: object) -> None:
        """What is complete stays so, whatever comes next."""

    def plan(self, path: Path | None, formats: tuple[str, ...] = ()) -> None:
        """Say at once if a result could not be written there. `formats`: the endings its name may have."""
        from gfs.files import check_writable

        if path is None or (path == STDOUT and formats in ((), JSON)):
            return
        if path.exists() and not path.is_dir() and not path.is_file():
            raise InputError(f"{path}: is not an ordinary file; name another one (- prints JSON to the screen)")
        place = path.resolve()
        if place in self._taken:
            raise InputError(f"{path}: {self._taken[place]}; results need a file of their own")
        self._taken[place] = "is named twice"
        check_writable(path, formats)

    def save(self, path: Path | None, write: Callable[[Path], object]) -> None:
        """Let `write` make the file, if it was asked for."""
        if path is None:
            return
        with noting(path):
            write(path)
        note(f"wrote {path}")

    def save_json(self, path: Path | None, value: Any) -> None:
        """Write a value as JSON; the path - prints it."""
        from gfs.files import write_text

        if path == STDOUT:
            say(json_text(value))
        else:
            self.save(path, lambda file: write_text(file, json_text(value) + "\n"))


@contextmanager
def noting(*paths: Path) -> Iterator[None]:
    """Note which of these files are completed inside; Ctrl-C may come between two of them."""
    before = {path: _inode(path) for path in paths}
    try:
        yield
    finally:
        WRITTEN.update({path: None for path, inode in before.items() if _inode(path) != inode})


def _inode(path: Path) -> int | None:
    """Tells a file from the one that takes its place."""
    return path.stat().st_ino if path.exists() else None


def check_folder(folder: Path, files: Sequence[str] = (), force: bool = False) -> None:
    """Say before the work if results could not be written into this folder; it need not exist yet.

    Unless `force`, it must not hold other people's `files`.
    """
    from gfs.files import check_ours

    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise InputError(f"{nearest}: is a file; name a folder")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"{nearest}: no permission to write into it")
    if nearest == folder and not force:
        check_ours(folder, files)


def make_folder(folder: Path, files: Sequence[str] = (), force: bool = False) -> None:
    """Create a folder for results, if it does not exist, in which GFS notes what it writes."""
    from gfs.files import list_ours

    check_folder(folder, files, force)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be created: {getattr(error, 'strerror', None) or error}") from error
    list_ours(folder)


def save_trace(workload: Workload, folder: Path, files: Sequence[str], force: bool) -> None:
    """Write a trace into a folder, made if need be; `files` are those that it consists of."""
    from gfs.files import unlist_ours
    from gfs.workloads import write_node_events, write_trace

    make_folder(folder, files, force)
    try:
        with noting(*(folder / name for name in files)):
            write_trace(workload, folder)
            if "node_events.csv" in files and not workload.node_events:  # chance spared all nodes: a file that says so
                write_node_events((), folder / "node_events.csv")
    except BaseException:
        unlist_ours(folder)
        raise


def json_text(value: Any) -> str:
    """JSON that every reader takes: no NaN or Infinity, arrays as lists."""
    text = json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def plain(value: Any) -> Any:
    """Records, arrays and enumerations as the dictionaries, lists and words of JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return getattr(value, "label", value.name)
    if value is None or isinstance(value, str | int):
        return value
    if is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"cannot be written as JSON: {type(value).__name__}")
