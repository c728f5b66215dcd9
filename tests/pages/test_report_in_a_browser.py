"""The report of `gfs reproduce`, opened in a browser: every section is there and has data in it.

Looks at the report that GFS_REPORT names, as `make test-pages` does, else at one of a small trace made here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

from browser import Browser
from gfs import generate
from gfs.experiments.report import EXPERIMENTS
from gfs.workloads import write_trace
from waiting import LONGEST


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page to look at."""
    if given := os.environ.get("GFS_REPORT"):
        return Path(given).resolve()
    folder = tmp_path_factory.mktemp("reproduce")
    jobs, nodes = write_trace(generate("demo", nodes=6, days=3, seed=1), folder)
    command = [sys.executable, "-m", "gfs.cli.main", "reproduce", "--jobs", str(jobs), "--nodes", str(nodes)]
    subprocess.run([*command, "--workers", "1", "--out", str(folder / "out")], check=True, timeout=LONGEST)
    return folder / "out" / "report.html"


@dataclass
class Seen:
    """What stands in a section."""

    title: str = ""
    charts: int = 0
    drawn: int = 0
    rows: int = 0
    words: list[str] = field(default_factory=list)


class Reader(HTMLParser):
    """Reads the sections of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[Seen] = []
        self._within = ""
        self._in_chart = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        classes = (dict(attributes).get("class") or "").split()
        if tag == "section":
            self.sections.append(Seen())
        if not self.sections:
            return
        here = self.sections[-1]
        self._within = tag
        if tag == "div" and "chart" in classes:
            here.charts += 1
            self._in_chart = True
        elif tag == "svg" and "main-svg" in classes and self._in_chart:
            here.drawn += 1
            self._in_chart = False
        elif tag == "tr":
            here.rows += 1

    def handle_data(self, data: str) -> None:
        if self.sections and self._within == "h2":
            self.sections[-1].title += data.strip()
        elif self.sections and self._within == "p":
            self.sections[-1].words.append(data.strip())


def read(page: str) -> dict[str, Seen]:
    reader = Reader()
    reader.feed(re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL))
    return {section.title: section for section in reader.sections}


def opened(page: Path, width: int, profile: Path) -> str:
    """The page as a browser of this width has it in the end."""
    with Browser(profile) as browser:
        browser.look(width, 2000)
        browser.open(page.as_uri(), until="document.readyState === 'complete'")
        browser.settle()
        assert browser.problems == []
        return str(browser.run("document.documentElement.outerHTML"))


def test_every_section_has_words_and_data(report: Path) -> None:
    sections = read(report.read_text(encoding="utf-8"))
    assert list(sections) == ["In short", *(experiment.title for experiment in EXPERIMENTS.values())]
    for title, section in sections.items():
        assert any(section.words), title
        if title != "In short":
            unavailable = any("cannot be shown" in text for text in section.words)
            assert section.charts or section.rows > 1 or unavailable, f"nothing in {title}"


@pytest.mark.parametrize("width", [1280, 420])
def test_a_browser_draws_every_chart(report: Path, width: int, tmp_path: Path) -> None:
    sections = read(opened(report, width, tmp_path))
    charts = {title: (section.drawn, section.charts) for title, section in sections.items() if section.charts}
    assert charts
    assert all(drawn == asked for drawn, asked in charts.values()), charts
