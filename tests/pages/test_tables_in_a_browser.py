"""Tables in a browser: at 1280 pixels all columns are seen; on a narrow screen the table scrolls, not the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from gfs.report.columns import COMPARED, NODES, PLAN_OTHERS
from gfs.report.page import PageSection, build_page
from gfs.report.table import DataTable

MEASURE = """({
  tables: [...document.querySelectorAll(".table")].map((t) => [t.scrollWidth, t.clientWidth]),
  page: document.documentElement.scrollWidth, window: innerWidth,
})"""


def seen(page: Path, width: int, profile: Path) -> dict[str, Any]:
    """The widths that a browser finds."""
    with Browser(profile) as browser:
        browser.look(width, 1200)
        browser.open(page.as_uri(), until="document.readyState === 'complete'")
        widths: dict[str, Any] = browser.run(MEASURE)
    return widths


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The widest tables there are, with large figures."""
    figures = (NODES, *PLAN_OTHERS)
    plan = DataTable(["cluster", *figures], [["110% of nodes", *[123_456.0] * len(figures)]] * 3)
    comparison = DataTable(["scheduler", *COMPARED], [["gfs-plus", *[123_456.0] * len(COMPARED)]] * 3)
    text = build_page("t", "s", [PageSection("Tables", [plan, comparison])])
    out = tmp_path / "page.html"
    out.write_text(text, encoding="utf-8")
    return out


def test_all_columns_are_seen_at_1280_pixels(page: Path, tmp_path: Path) -> None:
    widths = seen(page, 1280, tmp_path / "profile")
    assert all(inner <= outer for inner, outer in widths["tables"]), widths


def test_a_table_scrolls_on_a_narrow_screen_and_the_page_does_not(page: Path, tmp_path: Path) -> None:
    widths = seen(page, 500, tmp_path / "profile")
    assert all(inner > outer for inner, outer in widths["tables"]), widths
    assert widths["page"] == widths["window"]
