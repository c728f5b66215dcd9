"""What a browser shows of the web page, as values that a test can compare with the event log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from browser import Browser


def at(browser: Browser, page: Path, **state: object) -> None:
    browser.open(f"{page.as_uri()}#" + "&".join(f"{name}={value}" for name, value in state.items()))
    browser.settle()


def tiles(browser: Browser) -> dict[str, str]:
    found: dict[str, str] = browser.run(
        "Object.fromEntries([...document.querySelectorAll('.tile')].map("
        "(t) => [t.dataset.key, t.querySelector('.value').textContent]))"
    )
    return found


def rows(browser: Browser, selector: str) -> list[list[str]]:
    found: list[list[str]] = browser.run(
        f"[...document.querySelectorAll({json.dumps(selector + ' tbody tr')})]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )
    return found


def chart(browser: Browser, name: str) -> dict[str, Any]:
    """Times and lines, as drawn: label -> values."""
    data = browser.run(
        f"(() => {{ const {{ time, lines }} = document.getElementById('{name}').data;"
        " return { time, lines: Object.fromEntries(lines.map((l) => [l.label, l.shown ?? l.values])) }; })()"
    )
    assert isinstance(data, dict)
    return data


def shown(value: float) -> str:
    """As the page writes a number of GPUs."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:,.1f}".removesuffix(".0")


PIXELS = """((places) => {
  const context = document.getElementById("map").getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const names = Object.fromEntries([["HP", "--hp"], ["Spot", "--spot"], ["idle", "--idle"], ["reserved", "--reserved"]]
    .map(([name, variable]) => [style.getPropertyValue(variable).trim(), name]));
  return places.map(([x, y]) => {
    const seen = [...context.getImageData(Math.round(x), Math.round(y), 1, 1).data].slice(0, 3);
    return names["#" + seen.map((value) => value.toString(16).padStart(2, "0")).join("")] ?? "another";
  });
})"""


def colours(browser: Browser, places: list[list[float]]) -> list[str]:
    """What the colours of the map stand for at these places."""
    found: list[str] = browser.run(f"{PIXELS}({json.dumps(places)})")
    return found
