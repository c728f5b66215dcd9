"""A plan as tables for the terminal, 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from gfs.report.columns import one_unit, percent, short_seconds
from gfs.report.plan_view import (
    NODES,
    OTHER_COLUMNS,
    SETTING_COLUMNS,
    SOLD_COLUMNS,
    PlanColumn,
    PlanRow,
    PlanView,
)
from gfs.report.tables import STAR, narrow_table

SHOWN = 12
"""Settings on the terminal; the page and the table of all runs have every one."""
SETTING = ("p", "H", "eta")


def plan_tables(view: PlanView) -> list[Table]:
    """All tables of a plan, in the order of the questions."""
    more = len(view.settings) - SHOWN
    rest = f"; {more} more on the page" if more > 0 else ""
    settings = _table("Settings", SETTING, view.settings[:SHOWN], SETTING_COLUMNS)
    _note(settings, f"{STAR} recommended, ! over {percent(view.target)} evicted{rest}")
    today = _table("Against today", ("quota",), view.today, OTHER_COLUMNS)
    nodes = _table("Other nodes, recommended setting", ("cluster",), view.nodes, (NODES, *OTHER_COLUMNS))
    demand = _table("Other spot work, recommended setting", ("offered",), view.demand, SOLD_COLUMNS)
    guarantees = _table("Each guarantee with its best setting", SETTING, view.guarantees, SOLD_COLUMNS)
    _note(
        guarantees,
        f"! not sold: over {percent(view.target)} evicted, or a mean wait over {short_seconds(view.max_wait)}\n"
        "worth: at assumed on-demand prices; spot work sells for less",
    )
    return [settings, today, nodes, demand, guarantees]


def _note(table: Table, words: str) -> None:
    """Below a table, before what is remarked of its rows."""
    table.caption = Text(words) if table.caption is None else Text(f"{words}\n{table.caption}")


def _table(title: str, names: Sequence[str], rows: Sequence[PlanRow], columns: Sequence[PlanColumn]) -> Table:
    table = narrow_table(title)
    for name in names:
        table.add_column(Text(name), style="bold", no_wrap=True, vertical="bottom")
    cells: list[list[str]] = []
    for column in columns:
        header, texts = _column(column, rows)
        table.add_column(Text(header), justify="right", no_wrap=True, vertical="bottom")
        cells.append(texts)
    for i, row in enumerate(rows):
        mark = (STAR if row.recommended else "") + ("" if row.keeps else "!")
        style = "bold green" if row.recommended else "" if row.keeps else "dim"
        parts = row.cells if len(names) > 1 else (row.name,)
        first = [Text(part, style=style) for part in (*parts[:-1], f"{parts[-1]}{mark}")]
        table.add_row(*first, *(Text(texts[i], style=style) for texts in cells))
    remarks = [f"{row.name}: {row.remark}" for row in rows if row.remark]
    table.caption = Text("\n".join(remarks)) if remarks else None
    return table


def _column(column: PlanColumn, rows: Sequence[PlanRow]) -> tuple[str, list[str]]:
    """Title with unit, and the figures; times and shares in one unit, so that the column is narrow."""
    words = column.title.split()
    if column.text not in (percent, short_seconds):
        return "\n".join(words), [column.cell(row) for row in rows]
    unit, texts = one_unit([row.figures.get(column.key) for row in rows], column.text)
    return "\n".join([*words, f"[{unit}]"]), texts
