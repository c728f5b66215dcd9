"""The example of docs/guides/add-a-scheduler.md, installed as a user would and run by every command."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gfs
from gfs.workloads import write_trace
from waiting import LONGEST

ROOT = Path(__file__).resolve().parents[2]
TRACE = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")
NOTEBOOK = """
import gfs
import gfs_apart


def placer(context):
    return gfs_apart.ApartPlacer(context.pool)


MINE = gfs.Composition("mine", "", gfs_apart.SizedQueue, placer, gfs_apart._preemptor)

if __name__ == "__main__":
    schedulers = ["apart", MINE, gfs.schedulers()["gfs"]]
    results = gfs.compare("jobs.csv", "nodes.csv", schedulers=schedulers, workers=2)
    assert [result.scheduler for result in results] == ["apart", "mine", "gfs"]
    assert results["mine"].events.equals(results["apart"].events)
    assert not results["mine"].events.equals(results["gfs"].events)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example in it, as pip leaves it; nothing is fetched from anywhere."""
    target = tmp_path_factory.mktemp("installed")
    source = tmp_path_factory.mktemp("source") / "gfs-apart"  # building leaves files beside the source
    shutil.copytree(ROOT / "examples/gfs-apart", source)
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    words = [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", str(target), str(source)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.setenv("COLUMNS", "120")
    write_trace(gfs.generate("demo", nodes=8, days=2), ".")
    return tmp_path


def run(*words: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, encoding="utf-8", timeout=LONGEST, check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cli(*words: str) -> str:
    return run("-m", "gfs.cli.main", *words)


def test_is_listed_with_where_it_comes_from() -> None:
    rows = [re.split(r"\s{2,}", line.strip()) for line in cli("schedulers").splitlines()]
    (row,) = [row for row in rows if row[0] == "apart"]
    assert row[:3] == ["apart", "none", "gfs-apart 0.1.0"]
    assert row[3].startswith("like gfs, but keeps the classes")
    assert {"gfs", "yarn-cs", "static"} <= {row[0] for row in rows}


def test_simulates_and_keeps_every_invariant() -> None:
    printed = cli("simulate", *TRACE, "--scheduler", "apart", "--check", "--events", "e.csv", "--json", "s.json")
    assert "apart on jobs.csv" in printed
    (summary,) = json.loads(Path("s.json").read_text())["runs"]
    assert summary["scheduler"] == "apart"
    with Path("e.csv").open(newline="") as file:
        assert sum(row["event"] == "submit" for row in csv.DictReader(file)) == len(
            gfs.read_trace("jobs.csv", "nodes.csv").tasks
        )


def test_compares_alike_here_and_in_processes_of_their_own() -> None:
    metrics = []
    for workers in ("1", "2"):
        words = ("--schedulers", "gfs,apart", "--workers", workers, "--json", f"{workers}.json")
        printed = cli("compare", *TRACE, *words, "--html", "report.html")
        assert [line.split()[0] for line in printed.splitlines() if line.startswith(("gfs ", "apart "))] == [
            "gfs",
            "apart",
        ]
        runs = json.loads(Path(f"{workers}.json").read_text())["runs"]
        metrics.append({entry["scheduler"]: entry["metrics"] for entry in runs})
    assert metrics[0] == metrics[1]
    assert metrics[0]["gfs"] != metrics[0]["apart"]
    assert "apart" in Path("report.html").read_text(encoding="utf-8")


def test_compares_as_the_guide_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    cli("trace", "generate", "--preset", "demo", "--out", "my-trace")
    words = ("--jobs", "my-trace/jobs.csv", "--nodes", "my-trace/nodes.csv", "--schedulers", "gfs,apart")
    guide = (ROOT / "docs/guides/add-a-scheduler.md").read_text(encoding="utf-8")
    shown, printed = (
        [line for line in text.splitlines() if re.match(r"(gfs|apart) +\d", line)]
        for text in (guide, cli("compare", *words))
    )
    assert len(shown) == len(printed) == 4  # two schedulers, the table in two parts
    for one, other in zip(shown, printed, strict=True):
        assert numbers(other) == pytest.approx(numbers(one), rel=0.1)  # another NumPy may round otherwise


def numbers(line: str) -> list[float]:
    return [float(word.strip("*").replace(",", "")) for word in line.split()[1:]]


def test_a_definition_of_a_script_goes_to_processes_of_their_own() -> None:
    Path("script.py").write_text(NOTEBOOK)
    run("script.py")


def test_the_conformance_suite_can_be_pointed_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFS_CONFORMANCE", "apart")
    monkeypatch.chdir(ROOT)
    suite = "tests/property/test_conformance.py"
    printed = run("-m", "pytest", "-p", "no:cacheprovider", "-vv", suite, "-k", "empty or same_input")
    assert re.search(r"\b2 passed", printed), printed
    assert "[apart]" in printed
