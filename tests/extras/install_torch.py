"""Install the extra `baselines`, which the networks need, into the environment of `make test-extras`.

An installed torch of the right version stays. Otherwise pip installs a CPU build if an index has one, else the
ordinary build, whose libraries for GPUs take several GB, if the disk has room. With room on the disk, a failure of
pip is an error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
CPU = "+cpu" if sys.platform == "linux" else ""
"""Marks a CPU build on Linux; elsewhere the ordinary build is one."""
ROOM_GB = 10
"""What the ordinary build takes: 6 GB, and its downloads while pip unpacks them."""


def install(*requirements: str, quiet: bool = False) -> bool:
    """Runs `pip install`; returns whether it succeeded."""
    return subprocess.run([*PIP, *requirements], capture_output=quiet).returncode == 0


def version_of(package: str) -> str:
    """Returns the installed version without the mark of a build; empty: not installed."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return ""


def main() -> None:
    """Installs the extra, or prints in one line what is not tested and what to do."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["baselines"]
    (torch,) = (requirement for requirement in extra if requirement.startswith("torch"))
    is_there = torch.endswith(f"=={version_of('torch')}")
    if is_there and version_of("neuralforecast"):
        return
    if is_there or install(torch + CPU, quiet=True):
        extra.remove(torch)
    elif (free := shutil.disk_usage(sys.prefix).free / 1e9) < ROOM_GB:
        print(
            f"not tested: the six networks. No index offers {torch}{CPU}, and the ordinary build needs {ROOM_GB} GB of"
            f" disk ({free:.1f} are free): free some, or install a CPU build of torch into {sys.prefix}"
        )
        return
    if not install(*extra):
        sys.exit(f"pip cannot install {' '.join(extra)}")


if __name__ == "__main__":
    main()
