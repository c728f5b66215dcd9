"""Golden runs: the event log of every scheduler on a small fixed trace, line by line (see README.md)."""

from __future__ import annotations

import csv
import io
import random
from functools import cache
from pathlib import Path

import pytest

from builders import csv_text
from gfs import SCHEDULERS, simulate
from gfs.assembly.result import RunResult

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
PARAMETERS = {"quota_share": 0.5, "m": 30.0}
"""Half of each pool for spot where a scheduler has a quota; a breaker that closes after two fresh evictions."""


CASES = {
    **{name: (name, {}) for name in SCHEDULERS},
    "gfs-unlimited": ("gfs", {"quota": "none"}),
    "lyra-forecast": ("lyra", {"quota": "forecast"}),
}
"""Name of the log -> scheduler and what else is set."""


def run(case: str, jobs: Path = HERE / "jobs.csv", check: bool = False) -> RunResult:
    scheduler, settings = CASES[case]
    return simulate(jobs, HERE / "nodes.csv", scheduler=scheduler, check=check, **{**PARAMETERS, **settings})


@cache
def log_in_order(scheduler: str) -> str:
    return csv_text(run(scheduler))


def without_reasons(result: RunResult) -> str:
    rows = list(csv.reader(io.StringIO(csv_text(result))))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(row[: rows[0].index("reason")] for row in rows)
    return out.getvalue()


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_log_is_the_one_on_file(case: str, request: pytest.FixtureRequest) -> None:
    file = EXPECTED / f"{case}.csv"
    text = without_reasons(run(case, check=True))
    if request.config.getoption("--regenerate-golden"):
        EXPECTED.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    assert file.exists(), f"no golden run of {case} yet: pytest tests/golden --regenerate-golden"
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_rows_in_the_jobs_file_does_not_matter(scheduler: str, seed: int, tmp_path: Path) -> None:
    header, *rows = (HERE / "jobs.csv").read_text(encoding="utf-8").splitlines()
    random.Random(seed).shuffle(rows)
    shuffled = tmp_path / "jobs.csv"
    shuffled.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    assert csv_text(run(scheduler, shuffled)) == log_in_order(scheduler)


def test_the_golden_trace_is_eventful_enough() -> None:
    # A log without evictions, gangs on several nodes and fractions would guard little.
    events = run("gfs-unlimited").events.to_pylist()
    evictions = {(row["task"], row["run"]) for row in events if row["event"] == "evict"}
    assert len(evictions) >= 15
    assert any(row["run"] >= 3 for row in events)
    assert sum(":" in row["cards"] for row in events) >= 20
