"""Tables in a browser: at 1280 pixels all columns are seen; on a narrow screen the table scrolls, not the page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from gfs.report.columns import COMPARED, NODES, PLAN_OTHERS
from gfs.report.page import PageSection, build_page
from gfs.report.table import DataTable

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MEASURE = """<script>
const tables = [...document.querySelectorAll(".table")].map((t) => [t.scrollWidth, t.clientWidth]);
document.body.dataset.seen = JSON.stringify({tables, page: document.documentElement.scrollWidth, window: innerWidth});
</script></body>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")


def seen(page: Path, width: int, profile: Path) -> dict[str, object]:
    """The widths that a browser finds."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
    quiet = ("--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}")
    words = (str(BROWSER), *options, *quiet, f"--window-size={width},1200", "--dump-dom", page.as_uri())
    done = subprocess.run(words, capture_output=True, timeout=300, check=True)
    found = re.search(r'data-seen="([^"]*)"', done.stdout.decode())
    assert found
    widths: dict[str, object] = json.loads(unescape(found[1]))
    return widths


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The widest tables there are, with large figures."""
    figures = (NODES, *PLAN_OTHERS)
    plan = DataTable(["cluster", *figures], [["110% of nodes", *[123_456.0] * len(figures)]] * 3)
    comparison = DataTable(["scheduler", *COMPARED], [["gfs-plus", *[123_456.0] * len(COMPARED)]] * 3)
    text = build_page("t", "s", [PageSection("Tables", [plan, comparison])])
    out = tmp_path / "page.html"
    out.write_text(text.replace("</body>", MEASURE), encoding="utf-8")
    return out


def test_all_columns_are_seen_at_1280_pixels(page: Path, tmp_path: Path) -> None:
    widths = seen(page, 1280, tmp_path / "profile")
    assert all(inner <= outer for inner, outer in widths["tables"]), widths  # type: ignore[attr-defined]


def test_a_table_scrolls_on_a_narrow_screen_and_the_page_does_not(page: Path, tmp_path: Path) -> None:
    widths = seen(page, 500, tmp_path / "profile")
    assert all(inner > outer for inner, outer in widths["tables"]), widths  # type: ignore[attr-defined]
    assert widths["page"] == widths["window"]
