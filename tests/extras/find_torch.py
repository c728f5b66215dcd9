"""Give this environment what the neural baselines need, if a CPU build of torch can be had.

`make test-extras` runs this with the Python of its environment. If torch is there, it is used as it is. Otherwise
pip says what an installation of it would bring, and nothing is installed if that is a build for GPUs: several GB,
of no use to the tests. Then one line says that the neural baselines are skipped; their tests skip themselves.

pip is asked with a dry run whose lines are read while it works, and which is stopped before a large download: its
report would come too late, since many versions of pip fetch every file before they write it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
INSTALL = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
LARGEST = 250.0
"""MB of a file that may be fetched: builds of torch for the CPU are smaller, those for GPUs twice as large."""
FEW_BYTES = "--use-feature=fast-deps"
"""Lets pip read only that part of a file which says what it needs, if the index does not tell it."""

COLLECTED = re.compile(r"\s*Collecting (nvidia-[\w.-]+)")
FETCHED = re.compile(r"\s*Downloading \S+ \(([\d.]+) MB\)")
FAILED = re.compile(r"ERROR: (.+)")


class PipError(Exception):
    """pip cannot install what was asked for; the reason in its own words."""


def objection(lines: Iterable[str]) -> str:
    """What speaks against an installation of which pip says this, or nothing; no more is read than necessary."""
    nvidia: set[str] = set()
    error = ""
    for line in lines:
        if collected := COLLECTED.match(line):
            nvidia.add(collected[1])
        elif fetched := FETCHED.match(line):
            if nvidia:
                break
            if float(fetched[1]) > LARGEST:
                return f"the one offered is a file of {fetched[1]} MB"
        elif failed := FAILED.match(line):
            error = failed[1]
    if nvidia:
        return f"the one offered needs {len(nvidia)} nvidia packages"
    if error:
        raise PipError(error)
    return ""


def dry_run(requirement: str, *options: str) -> str:
    """What speaks against installing this here, judged by what pip says while it does as if."""
    command = [*INSTALL, "--dry-run", "--ignore-installed", "--progress-bar=off", *options, requirement]
    with TemporaryDirectory() as scratch:  # pip does not tidy up when it is stopped
        with subprocess.Popen(
            command,
            env={**os.environ, "TMPDIR": scratch, "PIP_QUIET": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as pip:
            assert pip.stdout is not None
            found = objection(pip.stdout)
            if found:
                pip.kill()
        if not found and pip.returncode:
            raise PipError(f"exit code {pip.returncode}")
        return found


def why_not(requirement: str) -> str:
    """Why this is not installed here, or nothing."""
    try:
        return dry_run(requirement, FEW_BYTES)
    except PipError:
        pass  # an index need not serve parts of files
    try:
        return dry_run(requirement)
    except PipError as error:
        return f"pip says: {error}"


def torch_here() -> str:
    """The version of the torch that can be imported, if any."""
    try:
        import torch
    except (ImportError, OSError):  # the latter if a library that it needs is missing
        return ""
    return str(torch.__version__)


def main() -> None:
    """Install the extra `baselines`, or say in one line why not."""
    extra = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]["baselines"]
    others = [requirement for requirement in extra if not requirement.startswith("torch")]
    (torch,) = set(extra) - set(others)
    if there := torch_here():
        torch = f"torch=={there}"
    elif reason := why_not(torch):
        print(
            f"skipping the neural baselines: no CPU build of torch to be had ({reason}); "
            f"install one into {os.path.relpath(sys.prefix)} and run again"
        )
        return
    subprocess.run([*INSTALL, "--quiet", torch, *others], check=True)


if __name__ == "__main__":
    main()
