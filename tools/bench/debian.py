"""Programs from packages of Debian, unpacked without being installed: no service starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from gfs.domain.errors import InputError

PACKAGES = {"prometheus": "prometheus", "promtool": "prometheus"}
"""Program -> its package."""


def fetch(names: Sequence[str], folder: Path, say: Callable[[str], None]) -> None:
    """Put those of the programs that Debian has into `folder`; raises InputError if they cannot be had."""
    wanted = [name for name in names if name in PACKAGES]
    if not wanted:
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise InputError("there is no apt-get to fetch them with")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".debian.") as temporary:
        for package in dict.fromkeys(PACKAGES[name] for name in wanted):
            say(f"fetching the Debian package {package}")
            try:
                _run("apt-get", "download", "-qq", package, folder=temporary)
            except InputError:
                if os.geteuid() != 0:
                    raise
                _run("apt-get", "update", "-qq", folder=temporary)  # a new machine has no list of packages
                _run("apt-get", "download", "-qq", package, folder=temporary)
            (file,) = Path(temporary).glob(f"{package}_*.deb")
            _run("dpkg-deb", "-x", file.name, ".", folder=temporary)
        for name in wanted:
            (Path(temporary) / "usr" / "bin" / name).replace(folder / name)


def _run(*words: str, folder: str) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        raise InputError(f"{' '.join(words)}: {last}")
