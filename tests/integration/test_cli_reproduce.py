"""`gfs reproduce` from the command line: parts, a trace of one's own, going on, and errors in plain words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from builders import Draft, hp, nodes, spot, workload
from gfs.batch.job import JobResults
from gfs.cli.main import app
from gfs.experiments.experiment import Experiment, Finding, Section, Setup
from gfs.experiments.report import EXPERIMENTS
from gfs.workloads import write_trace


def gfs(*words: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", *words])


def trace(folder: Path, *drafts: Draft) -> tuple[str, ...]:
    jobs, machines = write_trace(workload(nodes(8, 8), drafts), folder)
    return ("--jobs", str(jobs), "--nodes", str(machines), "--workers", "1", "--out", str(folder / "out"))


BOTH = (
    spot("s1", gpus=8, lasting=7200),
    spot("s2", gpus=8, lasting=7200),
    hp("h1", gpus=8, at=1800, lasting=3600, org="a"),
    hp("h2", gpus=4, at=9000, lasting=3600, org="b"),
)


def test_one_part_of_a_trace_of_ones_own(tmp_path: Path) -> None:
    words = trace(tmp_path, *BOTH)
    result = gfs("--only", "comparison,guarantees", *words)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "With gfs in place of yarn-cs: goodput is " in page
    assert "<h2>Scheduling comparison</h2>" in page
    assert "<th>paper</th>" not in page
    text = (tmp_path / "out/results.md").read_text(encoding="utf-8")
    assert "| 1 h |" in text
    assert str(tmp_path) not in text, "no path of this machine in what people publish"


def test_the_same_again_computes_nothing(tmp_path: Path) -> None:
    words = ("--only", "guarantees", *trace(tmp_path, *BOTH))
    assert "3 of 3: gfs on jobs.csv" in gfs(*words).output
    kept = sorted((tmp_path / "out/cache").glob("*.json"))
    assert len(kept) == 3
    assert json.loads(kept[0].read_text(encoding="utf-8"))["label"].startswith("gfs on jobs.csv")
    again = gfs(*words)
    assert again.exit_code == 0
    assert " of 3" not in again.output
    kept[1].unlink()
    assert "1 of 1: gfs on jobs.csv" in gfs(*words).output


def test_a_trace_without_spot_tasks_says_what_cannot_be_shown(tmp_path: Path) -> None:
    words = trace(tmp_path, hp("h1", gpus=8, lasting=3600), hp("h2", gpus=8, at=4000, lasting=100))
    assert gfs("--only", "guarantees,ablations,beyond", *words).exit_code == 0
    text = (tmp_path / "out/results.md").read_text(encoding="utf-8")
    assert text.count("Not shown: There are no spot tasks in this trace") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "comparisons", "--out", "out"), "unknown part 'comparisons'; choose from statistics"),
        (("--jobs", "jobs.csv", "--out", "out"), "takes both --jobs and --nodes"),
        (("--jobs", "no.csv", "--nodes", "no.csv", "--out", "out"), "no.csv"),
        (("--only", "forecasters", "--series", "no.csv", "--out", "out"), "no.csv: cannot be read"),
        (("--quick",), "--out"),
    ],
)
def test_errors_name_what_is_wrong(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text("", encoding="utf-8")
    result = gfs(*words)
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists(), "a bad option leaves no empty folder"


def test_the_terminal_counts_as_the_page_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def section(setup: Setup, results: JobResults) -> Section:
        return Section("Shows.", [], [Finding("a", True, "x"), Finding("b", None, "no data"), Finding("c", False, "y")])

    monkeypatch.setitem(EXPERIMENTS, "comparison", Experiment("comparison", "Test", lambda setup: [], section))
    result = gfs("--only", "comparison", "--out", str(tmp_path / "out"))
    counted = "3 findings: 1 agrees, 1 disagrees, 1 cannot be told"
    assert f"Test: {counted}\n  cannot be told: b: no data\n  disagrees: c: y\n" in result.output
    assert counted in (tmp_path / "out/report.html").read_text(encoding="utf-8")
