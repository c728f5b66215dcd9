"""Commands of the bench: what is wrong is said in a line, before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import needs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "--nodes", "0"], "--nodes: 0 is not a number from 1 to 1000"),
        (["bench", "--gpus", "many"], "--gpus: many is not a number from 1 to 64"),
        (["bench.demo", "--hours", "0.5"], "--hours: 0.5 is not a number from 1 to 72"),
        (["bench.demo", "--set", "quota=much"], "quota"),
        (["bench.demo", "--out", "."], "events.csv"),
        (["bench.binaries", "excel"], "unknown program excel"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("of somebody else\n")
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=needs.bench_environment(),
    )
    assert done.returncode != 0
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["events.csv"]
