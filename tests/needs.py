"""Programs that some tests need beside Python.

`python tests/needs.py NAME ...` installs them from Debian's packages where root may. A test that still lacks one is
skipped, and the reason says how to provide it. In CI it fails instead if this machine could have had it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from gfs.domain.errors import GfsError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))  # this file is a program, too
from bench import binaries

TOOLS = Path(__file__).resolve().parents[1] / "tools"

SHARED = Path(__file__).resolve().parents[2] / "shared"
"""Real traces and the independent auditors, which are no part of this repository."""
NO_SHARED = "no traces or auditors in ../shared: put them beside the repository"
SYSTEM_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
"""Where programs are looked for; Debian keeps servers in /usr/sbin."""
IS_DEBIAN_ROOT = os.geteuid() == 0 and shutil.which("apt-get") is not None


@dataclass(frozen=True)
class Need:
    """Programs, and Debian's packages that have them."""

    programs: tuple[str, ...]
    packages: tuple[str, ...]

    def missing(self) -> list[str]:
        """Returns the programs that are not installed."""
        return [name for name in self.programs if shutil.which(name, path=SYSTEM_PATH) is None]


NEEDS = {
    "chromium": Need(("chromium",), ("chromium",)),
    "openssl": Need(("openssl",), ("openssl",)),
    "slurm": Need(
        ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sacct"),
        ("slurm-wlm", "slurmdbd", "slurm-client", "munge", "mariadb-server"),
    ),
}


def require(name: str) -> None:
    """Skip the test, or fail it in CI, unless the programs of a need are installed."""
    need = NEEDS[name]
    if missing := need.missing():
        lack(f"no {', '.join(missing)}: apt-get install {' '.join(need.packages)}", possible_here=IS_DEBIAN_ROOT)


def lack(reason: str, *, possible_here: bool) -> NoReturn:
    """Skip the test; fail it in CI if this machine could provide what it lacks."""
    if possible_here and os.environ.get("CI"):
        pytest.fail(f"skipped, though it can run here: {reason}")
    pytest.skip(reason)


def bench_programs(names: Sequence[str] = binaries.BENCH) -> dict[str, Path]:
    """Returns where programs of the bench are; skips the test, or fails it in CI, where they are missing."""
    found, missing = binaries.find(names)
    if missing:
        lack(binaries.missing_text(missing), possible_here=IS_DEBIAN_ROOT or shutil.which("go") is not None)
    return found


def bench_environment() -> dict[str, str]:
    """Returns the environment in which a Python of its own finds the bench, too."""
    path = [str(TOOLS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


def shared(path: Path) -> pytest.MarkDecorator:
    """Returns a mark that skips a test where this file or folder of SHARED is not there."""
    return pytest.mark.skipif(not path.exists(), reason=NO_SHARED)


def install(name: str) -> None:
    """Install what is missing, where root may; the tests report what is missing still."""
    if name == "prometheus":  # unpacked into the cache, not installed: no service starts
        with suppress(GfsError):
            binaries.bring(binaries.WELCOME)
        return
    need = NEEDS[name]
    if not need.missing() or not IS_DEBIAN_ROOT:
        return
    print(f"Installing {name} from Debian's packages ...", flush=True)
    words = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *need.packages]
    if _apt(*words):
        _apt("apt-get", "update", "-qq")  # a new machine has no list of packages
        _apt(*words)


def _apt(*words: str) -> int:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(words, env=environment, capture_output=True, check=False).returncode


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        install(wanted)
