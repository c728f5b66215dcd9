"""Everybody can use the page: axe-core finds nothing in any view, and the keyboard alone leads everywhere.

axe-core is one of the packages of web/, which `make test-pages` installs where npm is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import Browser
from gfs import compare
from gfs.dashboard.site import schema_page
from gfs.report.comparison import comparison_page
from page_reading import at
from recorded_day import Day, recorded_day

VIEWS = ("now", "nodes", "queue", "organizations", "whatif")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    return recorded_day(tmp_path_factory.mktemp("page"), "gfs-plus")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started
        assert started.problems == []


def evicted_task(day: Day) -> str:
    return day.workload.tasks[int(day.runs.task[np.flatnonzero(day.runs.evicted)[0]])].name


@pytest.fixture(scope="module")
def axe(node_modules: Path) -> str:
    return (node_modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def violations(browser: Browser, axe: str) -> list[Any]:
    """What axe-core calls broken, by all of its rules."""
    browser.run(axe + "; 0")
    found: list[Any] = browser.run(
        "axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) =>"
        " [v.id, v.nodes.map((n) => [n.target.join(' '), n.failureSummary])]))"
    )
    return found


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
def test_axe_finds_nothing_in_any_view(browser: Browser, day: Day, axe: str, width: int, dark: bool) -> None:
    browser.look(width, 900, dark=dark)
    for view in VIEWS:
        at(browser, day.page, view=view, t=day.busy_moment, task=evicted_task(day), node="n1")
        browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert violations(browser, axe) == [], view


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_in_a_report_or_on_the_page_of_the_api(
    browser: Browser, day: Day, axe: str, tmp_path: Path, dark: bool
) -> None:
    browser.look(dark=dark)
    page = tmp_path / "compare.html"
    results = compare(day.workload, schedulers="gfs-plus,static", record_quota=True)
    comparison_page(list(results), day.workload, page)
    browser.open(page.as_uri(), until="document.querySelectorAll('.chart .main-svg').length > 2")
    assert violations(browser, axe) == []
    api = tmp_path / "api.html"
    api.write_text(schema_page(), encoding="utf-8")
    browser.open(api.as_uri(), until="document.querySelector('main') !== null")
    found = violations(browser, axe)
    browser.problems.clear()  # its style sheet is another file, which is not there
    assert found == []


REACHABLE = """[...document.querySelectorAll('a[href],button,select,input,summary,[tabindex="0"]')]
  .filter((e) => e.checkVisibility() && !e.disabled)"""
HERE = """(() => {
  const e = document.activeElement, style = getComputedStyle(e);
  if (e === document.body) return null;
  const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  return { at: reachable.indexOf(e), ring, scrolls: e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight };
})()"""


def test_the_tab_key_reaches_everything_in_order_and_shows_where_it_is(browser: Browser, day: Day) -> None:
    browser.look()
    for view in VIEWS:
        at(browser, day.page, view=view, t=day.busy_moment, task=evicted_task(day))
        count = browser.run(f"(window.reachable = {REACHABLE}).length")
        assert count > 8, view
        seen = []
        while len(seen) < count:
            browser.press("Tab")
            here = browser.run(HERE)
            assert here is not None, (view, seen)
            if here["at"] < 0:  # a browser also stops at what can be scrolled
                assert here["scrolls"], view
                continue
            assert here["ring"], (view, here)
            seen.append(here["at"])
        assert seen == list(range(count)), view


def focus(browser: Browser, selector: str) -> None:
    """Tab until this has the focus."""
    for _ in range(400):
        browser.press("Tab")
        if browser.run(f"document.activeElement.matches({selector!r})"):
            return
    raise AssertionError(f"the tab key does not reach {selector}")


VALUES = "[...document.querySelectorAll('.tile .value')].map((value) => value.textContent).join()"


def test_everything_can_be_done_by_keyboard(browser: Browser, day: Day) -> None:
    browser.look()
    at(browser, day.page, t=day.busy_moment)
    focus(browser, "a[data-view=queue]")
    browser.press("Enter")
    assert browser.run("document.querySelector('a[data-view=queue]').ariaCurrent") == "page"
    focus(browser, "#time")
    before = float(browser.run("document.documentElement.dataset.ready"))
    browser.press("ArrowLeft")
    assert float(browser.run("document.documentElement.dataset.ready")) < before
    focus(browser, "#pool")
    browser.press("ArrowDown")
    browser.wait("location.hash.includes('pool=A100')")
    focus(browser, "#queue-class")
    browser.press("ArrowDown")
    browser.press("ArrowDown")
    browser.wait("location.hash.includes('class=Spot')")

    focus(browser, ".view tbody a[href^='#task']")
    name = browser.run("document.activeElement.textContent")
    browser.press("Enter")
    browser.wait("document.activeElement.id === 'life'")  # on in the panel that it opened
    assert browser.run("document.querySelector('#life h2').textContent") == name
    browser.press("Escape")
    browser.wait(f"document.activeElement.textContent === {name!r}")  # and back to where one was
    assert browser.run("document.getElementById('life').hidden") is True

    at(browser, day.page, view="nodes", t=day.busy_moment)
    focus(browser, "#map")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert browser.run("document.querySelector('#node h2').textContent") == day.workload.nodes[1].name
    assert browser.run("document.activeElement.id") == "map"
    focus(browser, "#node .close")
    browser.press("Enter")
    browser.wait("document.getElementById('node').hidden")

    at(browser, day.page, task=evicted_task(day), t=day.busy_moment)
    focus(browser, "#life summary")
    browser.press("Enter")
    assert browser.run("document.activeElement.parentElement.open") is True
    browser.run("document.getElementById('speed').value = '600'")  # else a slow machine plays to the end meanwhile
    focus(browser, "#play")
    before_play = browser.run(VALUES)
    browser.press(" ")
    browser.wait(f"{VALUES} !== {before_play!r}")
    assert browser.run("document.getElementById('play').ariaPressed") == "true"
    browser.press(" ")
    assert browser.run("document.getElementById('play').ariaPressed") == "false"


@pytest.mark.parametrize("view", VIEWS)
def test_what_a_screen_reader_is_told(browser: Browser, day: Day, view: str) -> None:
    """Names by the browser's own accessibility tree: headings, tables with captions, charts with their values."""
    browser.look()
    at(browser, day.page, view=view, t=day.busy_moment, node="n1")
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    told: dict[str, list[str]] = {}
    for node in tree:
        if not node["ignored"]:
            told.setdefault(node["role"]["value"], []).append(str(node.get("name", {}).get("value", "")))
    for role in ("button", "link", "combobox", "slider", "image", "table", "heading", "searchbox", "Canvas"):
        assert all(name.strip() for name in told.get(role, [])), (role, told[role])
    assert told["heading"][0] == "two days"
    assert told["navigation"] == ["Views"]
    if view == "now":
        charts = [name for name in told["image"] if name.startswith("GPUs in use, ")]
        assert len(charts) == 1
        assert "HP " in charts[0]
        assert "Pools" in told["table"]
