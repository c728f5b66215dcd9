"""The coming hours of demand in the terminal: a table of what is expected and its bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from gfs.report.columns import NOTHING
from gfs.report.prediction import Prediction
from gfs.report.tables import narrow_table

MOST_COLUMNS = 6
"""Hours that fit a terminal of 80 columns."""
LONGEST_NAME = 24


def prediction_table(said: Prediction, top: int) -> Table:
    """A row for what is expected and one for every bound: of the largest series, then of the pools."""
    shown = shown_hours(said.hours)
    table = narrow_table(f"GPUs wanted: the next {said.hours} h" if said.hours > 1 else "GPUs wanted: the next hour")
    table.add_column("", style="bold", max_width=LONGEST_NAME, overflow="fold")
    table.add_column("", no_wrap=True)
    clock, end = said.clock, said.history.end
    for title in ("last", *(f"+{h} h\n{clock.short(end + h - 1)}" for h in shown), "peak"):
        header = "\n".join(f"  {line}" for line in title.split("\n"))
        table.add_column(header, justify="right", no_wrap=True, vertical="top")
    order = said.largest_first()
    for row in order[:top]:
        table.add_section()
        last = _gpus(said.history.gpus[row, -1])
        table.add_row(Text(str(said.history.keys[row])), " expected", last, *_cells(said.expected[row], shown), "")
        for p, values in said.bounds.items():
            peak = _gpus(said.peaks[p][row])
            table.add_row("", f" {p:g} bound", "", *_cells(values[row], shown), peak)
    for total in said.totals:
        table.add_section()
        rows = list(total.rows)
        name = f"all {len(rows)} on {total.gpu_model}"
        last = _gpus(said.history.gpus[rows, -1].sum())
        table.add_row(Text(name), " expected", last, *_cells(total.expected, shown), "")
        for p, value in total.peaks.items():
            table.add_row("", f" {p:g} bound", "", *[NOTHING] * len(shown), _gpus(value))
    table.caption = "\n".join(_remarks(said, len(shown), len(order) - top))
    return table


def shown_hours(hours: int) -> list[int]:
    """The hours ahead that have a column: all, or some from the first to the last."""
    count = min(hours, MOST_COLUMNS)
    return [int(h) for h in np.rint(np.linspace(1, hours, count))]


def _remarks(said: Prediction, columns: int, more: int) -> list[str]:
    remarks = ["peak: bound of the highest demand of all these hours at once"]
    if columns < said.hours:
        remarks.append(f"{columns} of {said.hours} hours are shown; --out FILE.csv has all")
    if more > 0:
        remarks.append(f"... and {more:,} smaller series; --top N shows more, --json FILE has all")
    if said.totals:
        known = any(total.peaks for total in said.totals)
        remarks.append("bounds of several series do not add up to the bound of their sum")
        if not known:
            remarks.append(f"{said.model} knows no bound of a sum")
    return remarks


def _cells(values: Sequence[float] | np.ndarray, shown: Sequence[int]) -> list[str]:
    return [_gpus(values[h - 1]) for h in shown]


def _gpus(value: float) -> str:
    """Whole GPUs, of few also the tenths."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}"
