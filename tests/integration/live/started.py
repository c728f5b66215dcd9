"""Commands of the bench as processes of their own, and whether anything of them is left."""

from __future__ import annotations

import os
from pathlib import Path

import needs


def started_by(folder: Path) -> dict[int, str]:
    """Processes (number -> command line) that speak of this folder: the bench makes its own inside TMPDIR."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                found[int(entry.name)] = line
    return found


def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a command of the bench whose temporary files are in TMP_PATH/tmp."""
    (tmp_path / "tmp").mkdir()
    return needs.bench_environment() | {"TMPDIR": str(tmp_path / "tmp")}
