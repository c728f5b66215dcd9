"""Unit tests and golden runs with the oldest and with the newest packages that pyproject.toml allows.

`make test-versions` runs this; it takes minutes and the network, so continuous integration does not. The tools that
test are those of constraints.txt in both cases; only what GFS itself imports is old or new.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "versions"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOWER_BOUND = re.compile(r"([\w.-]+)\s*>=\s*([\w.]+)")


def oldest() -> list[str]:
    """The lower bounds of the requirements, those of `live` too, as exact versions."""
    required = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["live"]]
    found = (LOWER_BOUND.match(requirement) for requirement in required)
    return [f"{bound[1]}=={bound[2]}" for bound in found if bound]


def tools() -> list[str]:
    """The exact versions of the tools that test, and of nothing that GFS imports."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(("pytest==", "pytest-xdist==", "hypothesis=="))]


def tried(name: str, versions: list[str]) -> bool:
    """Whether the tests pass in a new environment with these versions."""
    folder = BUILD / name
    venv.create(folder, clear=True, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    exact = folder / "constraints.txt"
    exact.write_text("\n".join(versions) + "\n", encoding="utf-8")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", exact]
    subprocess.run([*install, "-e", f"{ROOT}[live]", "pytest", "pytest-xdist", "hypothesis"], check=True)
    # An old package may use what a newer one below it calls deprecated: that is not ours to mend.
    lenient = ("-W", "ignore::DeprecationWarning", "-p", "no:cacheprovider")
    tests = [python, "-m", "pytest", "-n", "auto", *lenient, "tests/unit", "tests/golden"]
    print(f"The {name} versions:", flush=True)
    return subprocess.run(tests, cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    passed = [tried("oldest", oldest() + tools()), tried("newest", tools())]
    sys.exit(not all(passed))
