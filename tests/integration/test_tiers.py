"""The tiers of tests: every folder belongs to a target, and `.ci/run` reports each of its parts."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import needs

ROOT = Path(__file__).resolve().parents[2]
MAKE = """#!/bin/sh
case "$2" in
  good) echo "120 passed, 2 skipped in 3.21s"; echo "not tested: 2 tests (no moon: wait for the night)"
    echo "known to fail: 1 test (a defect)" ;;
  bad) echo "FAILED tests/unit/test_it.py::test_it"; echo "1 failed, 7 passed in 61.00s (0:01:01)"; exit 2 ;;
  quiet) echo "the site was built" ;;
esac
"""


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


def ci(folder: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    """`.ci/run` with a `make` that only talks."""
    make = folder / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    words = ["bash", str(ROOT / ".ci" / "run"), *parts]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def rows(printed: str) -> dict[str, list[str]]:
    """The table: part -> passed, failed, skipped and result; the seconds are left out."""
    lines = [line.split() for line in printed.splitlines()]
    return {line[0]: line[2:] for line in lines if line[-1:] in (["ok"], ["FAILED"])}


def test_the_table_of_ci_has_every_part_with_its_counts(tmp_path: Path) -> None:
    done = ci(tmp_path, "good", "quiet")
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout) == {"good": ["120", "0", "2", "ok"], "quiet": ["0", "0", "0", "ok"]}
    last = ["not tested: 2 tests (no moon: wait for the night)", "known to fail: 1 test (a defect)"]
    assert done.stdout.splitlines()[-2:] == last


def test_ci_runs_every_part_and_fails_if_one_does(tmp_path: Path) -> None:
    done = ci(tmp_path, "bad", "good")
    assert done.returncode == 1
    assert rows(done.stdout) == {"bad": ["7", "1", "0", "FAILED"], "good": ["120", "0", "2", "ok"]}


def test_every_part_of_ci_is_a_target() -> None:
    (parts,) = re.findall(r"^parts=\(\$\{\*:-(.*)\}\)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert set(parts.split()) <= targets()


def test_every_folder_of_tests_is_in_the_table_of_contributing() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text()
    found = {path.parent.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    assert {f"`tests/{folder}`" for folder in found} <= set(re.findall(r"`tests/\w+`", table))
    assert set(re.findall(r"make (test[a-z-]*)", table)) <= targets()


@pytest.mark.parametrize(
    ("in_ci", "possible_here", "outcome"),
    [
        (True, True, pytest.fail.Exception),
        (True, False, pytest.skip.Exception),
        (False, True, pytest.skip.Exception),
    ],
)
def test_only_ci_fails_where_a_test_could_run(
    in_ci: bool, possible_here: bool, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true" if in_ci else "")
    with pytest.raises(outcome, match="no chromium: apt-get install chromium"):
        needs.lack("no chromium: apt-get install chromium", possible_here=possible_here)
