"""The whole state of a scheduler as one file: to stop, start again and go on as if nothing had happened.

A file begins with a line of JSON: what it is, the format's version, who wrote it, the length and the checksum of what
follows. A file of another version, a damaged one or one of another scheduler is refused with a clear error and stays
where it is; when it would be overwritten it is put aside first. What follows are facts (`PoolState.facts`) and what the
driver adds, as named fields in compressed MessagePack (`gfs.assembly.codec`): data that any program can read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gfs.assembly.codec import pack, packages_of, unpack
from gfs.core.scheduler import Scheduler
from gfs.core.state import FACTS
from gfs.domain.errors import InputError
from gfs.files import always, write_bytes
from gfs.version import __version__

FORMAT = "gfs-state"
VERSION = 11
"""Raised whenever a fact is added, dropped or changes its meaning."""
log = logging.getLogger("gfs.state")


class Saved(NamedTuple):
    """What a file says besides the state of the scheduler."""

    time: float
    """When it was saved."""
    beside: Any
    """What its driver saved with it."""


def save_state(
    scheduler: Scheduler,
    path: Path | str,
    *,
    now: float,
    name: str = "",
    beside: Any = None,
    still: Callable[[], bool] = always,
    trusted: Iterable[str] = (),
) -> int:
    """Write the state of a scheduler; the bytes written. The file is complete or as it was before.

    `name`: of the scheduler, so that nobody else's state is taken for its own. `beside`: what the driver saves with it,
    in plain values. `still`: asked last of all, whether the file is still ours to write. `trusted`: as for loading;
    what parts remember that is neither data of ours nor of such packages, such as a network of theirs, is left out.
    """
    path = Path(path)
    facts = scheduler.facts()
    packages = packages_of(scheduler.remembered(facts)) | set(trusted)
    try:
        content, left_out = pack({"pools": facts, "beside": beside}, packages)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: the state cannot be saved: it holds {error}.") from error
    for what in left_out:
        _warn(f"{path}: left out, and learnt again after a restart: {what}")
    payload = zlib.compress(content, level=1)
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": __version__,
        "scheduler": name,
        "time": now,
        "pools": list(facts),
        "bytes": len(payload),
    }
    header["sha256"] = _digest(header, payload)
    _put_aside_if_foreign(path, name)
    data = json.dumps(header).encode() + b"\n" + payload
    write_bytes(path, data, still=still)
    return len(data)


def load_state(scheduler: Scheduler, path: Path | str, *, name: str = "", trusted: Iterable[str] = ()) -> Saved:
    """Take over a saved state. `InputError`, and nothing changed, if that cannot be.

    Its nodes are those of the saved state, whatever the scheduler was built with: tell what has changed since.
    Parameters may be others than before; parts that remember nothing under the new ones begin to learn.
    `trusted`: packages whose objects may be in it, besides our own and those of the scheduler's parts.
    """
    path = Path(path)
    header, payload = _read(path)
    if name and header.get("scheduler") not in ("", name):
        raise InputError(f"{path}: is the state of scheduler {header['scheduler']!r}, not of {name!r}. {_KEPT}")
    try:
        packages = packages_of(scheduler.remembered(header["pools"])) | set(trusted)
        content = unpack(zlib.decompress(payload), packages)
    except Exception as error:  # what is in a file can be wrong in many ways
        raise InputError(f"{path}: the saved state cannot be read ({error}). {_KEPT}") from error
    facts = content.get("pools") if isinstance(content, dict) else None
    if not isinstance(facts, dict) or not all(isinstance(f, dict) and f.keys() == set(FACTS) for f in facts.values()):
        raise InputError(f"{path}: the saved state does not hold what it should. {_KEPT}")
    try:
        scheduler.restore(facts)
    except Exception as error:  # facts that passed the checksum and make no sense: of a scheduler that is not named
        raise InputError(f"{path}: the saved state does not fit this scheduler ({error!r}). {_KEPT}") from error
    return Saved(float(header["time"]), content.get("beside"))


_KEPT = "It was left as it is; name another file, or move it away to begin without a history."


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """The header and what follows, checked."""
    try:
        with path.open("rb") as file:
            line, payload = file.readline(1 << 16), file.read()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: there is no saved state.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from error
    header = _header(line)
    if header is None:
        raise InputError(f"{path}: this is no saved state of GFS. {_KEPT}")
    if header["version"] != VERSION:
        raise InputError(
            f"{path}: saved in format {header['version']} by GFS {header['written_by']}; this GFS reads format"
            f" {VERSION}. {_KEPT}"
        )
    if len(payload) != header["bytes"] or _digest(header, payload) != header["sha256"]:
        raise InputError(
            f"{path}: the saved state is damaged: {len(payload):,} of {header['bytes']:,} bytes, or"
            f" others than were written. {_KEPT}"
        )
    return header, payload


_HEADER = {
    "version": int, "written_by": str, "scheduler": str, "time": int | float, "pools": list, "bytes": int, "sha256": str
}  # fmt: skip
"""What the first line says."""


@cache
def _warn(words: str) -> None:
    """Once, not at every saving."""
    log.warning(words)


def _digest(header: dict[str, Any], payload: bytes) -> str:
    """Of the payload and of all that the header says besides."""
    said = json.dumps({name: value for name, value in header.items() if name != "sha256"}, sort_keys=True)
    return hashlib.sha256(said.encode() + payload).hexdigest()


def _header(line: bytes) -> dict[str, Any] | None:
    try:
        header = json.loads(line)
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        return None
    return header if all(isinstance(header.get(name), kind) for name, kind in _HEADER.items()) else None


def _put_aside_if_foreign(path: Path, name: str) -> None:
    """What this scheduler cannot take for its own is kept under another name, not overwritten."""
    if not path.exists():
        return
    try:
        if _read(path)[0]["scheduler"] in ("", name):
            return
    except InputError:
        pass
    number = 1
    while (aside := path.with_name(f"{path.name}.kept-{number}")).exists():
        number += 1
    path.rename(aside)
