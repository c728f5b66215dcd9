"""The page on the table of the live controller has every pair of the table, with its steps, and no other."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from gfs.live.table import TABLE, Observed, Phase

PAGE = Path(__file__).resolve().parents[2] / "docs/concepts/live-table.md"


def rows_of_the_page() -> list[tuple[str, ...]]:
    """The cells of each row below the heading "The table"."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## The table\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]


def test_the_table_has_every_pair() -> None:
    assert set(TABLE) == set(product(Phase, Observed))


def test_the_page_has_every_pair_once_with_its_steps() -> None:
    """To renew the page, paste what this expects."""
    expected = [
        (phase.value, observed.value, ", ".join(step.value for step in steps) or "nothing")
        for (phase, observed), steps in TABLE.items()
    ]
    assert sorted(rows_of_the_page()) == sorted(expected)
