"""The page of `gfs plan`, made by the command and opened in a browser: every chart is drawn, at any width."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_report_in_a_browser import opened, read

from gfs import generate
from gfs.workloads import write_trace
from waiting import LONGEST


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    jobs, nodes = write_trace(generate("demo", nodes=6, days=4.1, seed=1), folder)
    command = [sys.executable, "-m", "gfs.cli.main", "plan", "--jobs", str(jobs), "--nodes", str(nodes)]
    subprocess.run([*command, "--quick", "--workers", "1", "--out", str(folder / "out")], check=True, timeout=LONGEST)
    return folder / "out" / "plan.html"


@pytest.mark.parametrize("width", [1280, 420])
def test_a_browser_draws_every_chart(page: Path, width: int, tmp_path: Path) -> None:
    sections = read(opened(page, width, tmp_path))
    drawn = {title: section.drawn for title, section in sections.items() if section.charts}
    assert drawn == {"How sure": 2, "Settings": 1, "Other nodes": 2, "What could be sold": 1}
    assert all(section.drawn == section.charts for section in sections.values())
