"""A trace with mixed gangs on the command line: the worked example of docs/reference/files.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.csv
import pytest
from typer.testing import CliRunner, Result

from gfs.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "files.md"
TRACE = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the page."""
    monkeypatch.chdir(tmp_path)
    section = PAGE.read_text(encoding="utf-8").partition("### JSON columns")[2].partition("\n## ")[0]
    jobs, nodes = re.findall(r"```csv\n(.*?)```", section, re.DOTALL)
    Path("jobs.csv").write_text(jobs)
    Path("nodes.csv").write_text(nodes)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_the_example_passes_the_check() -> None:
    result = run("trace", "check", *TRACE)
    assert result.exit_code == 0, result.output
    assert "OK: 1 HP and 1 spot tasks on 4 nodes (32 A100 GPUs)" in result.output


@pytest.mark.parametrize(("resources", "head"), [("on", "n2"), ("off", "n0")])
def test_it_runs_as_the_page_says(resources: str, head: str) -> None:
    settings = ("--set", f"resources={resources}", "--set", "quota=none")
    result = run("simulate", *TRACE, "--scheduler", "gfs", *settings, "--events", "events.csv", "--json", "sum.json")
    assert result.exit_code == 0, result.output
    rows = pyarrow.csv.read_csv("events.csv").to_pylist()
    starts = [(row["task"], row["time"], row["node"], row["gpus"]) for row in rows if row["event"] == "start"]
    assert starts == [
        *[("ray", 0, "n0", 8), ("ray", 0, "n1", 8), ("ray", 0, head, 0)],
        *[("serve", 60, "n2", 4), ("serve", 60, "n2", 1), ("serve", 60, "n2", 1)],
    ]
    metrics = json.loads(Path("sum.json").read_text())["runs"][0]["metrics"]
    assert metrics["useful_gpu_hours"] == pytest.approx((16 * 3600 + 6 * 1800) / 3600)


def test_a_bad_role_is_said_with_its_row_and_left_out_on_request() -> None:
    text = Path("jobs.csv").read_text()
    Path("jobs.csv").write_text(text + 'bad,lab,A100,,,,0,60,HP,"[{""pods"": 2, ""gpu"": 8}]",\n')
    refused = run("trace", "check", *TRACE, "--json", "-")
    assert refused.exit_code == 2
    (row,) = json.loads(refused.stdout)["bad_rows"]
    assert (row["row"], row["column"]) == (4, "roles")
    assert row["reason"] == 'role 1: unknown key "gpu": did you mean gpus?'
    assert "OK without 1 row: 1 HP and 1 spot tasks" in run("trace", "check", *TRACE, "--skip-bad-rows").output
