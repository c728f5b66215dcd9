"""The coming hours of demand as tables: what is expected and its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gfs.report.prediction import Prediction
from gfs.report.table import GPUS, Cell, Column, DataTable

MOST_COLUMNS: Final = 6
"""Hours that fit a terminal of 80 columns."""
NO_SUM: Final = "bounds of several series do not add up to the bound of their sum"
PEAK: Final = Column("peak", unit=GPUS, help="bound of the highest demand of all these hours at once", explain=True)
LAST: Final = Column("last hour", unit=GPUS, help="demand of the last known hour")


def prediction_table(prediction: Prediction, top: int) -> DataTable:
    """A row for what is expected and one for every bound: of the largest series, then of the pools."""
    shown = shown_hours(prediction.hours)
    order = prediction.largest_first()
    rows: list[list[Cell]] = []
    breaks = set()
    for row in order[:top]:
        breaks.add(len(rows))
        last = float(prediction.history.gpus[row, -1])
        name = str(prediction.history.keys[row])
        rows.append([name, "expected", last, *_at(prediction.expected[row], shown), ""])
        for p, values in prediction.bounds.items():
            rows.append(["", f"{p:g} bound", "", *_at(values[row], shown), float(prediction.peaks[p][row])])
    for total in prediction.totals:
        breaks.add(len(rows))
        of = list(total.rows)
        last = float(prediction.history.gpus[of, -1].sum())
        name = f"all {len(of)} on {total.gpu_model}"
        rows.append([name, "expected", last, *_at(total.expected, shown), ""])
        rows += [["", f"{p:g} bound", "", *[None] * len(shown), value] for p, value in total.peaks.items()]
    columns: list[Column | str] = ["series", Column("", left=True), LAST, *_hours(prediction, shown), PEAK]
    return DataTable(
        columns,
        rows,
        title=f"Demand of the next {prediction.hours} h" if prediction.hours > 1 else "Demand of the next hour",
        note="\n".join(_remarks(prediction, len(shown), len(order) - top)),
        names=2,
        breaks=frozenset(breaks),
    )


def whole_table(prediction: Prediction, order: Sequence[int]) -> DataTable:
    """One row per series, with all hours: for a page."""
    hours = range(1, prediction.hours + 1)
    rows: list[list[Cell]] = [
        [
            str(prediction.history.keys[row]),
            float(prediction.history.gpus[row, -1]),
            *(float(values[row]) for values in prediction.peaks.values()),
            *_at(prediction.expected[row], hours),
        ]
        for row in order
    ]
    rows += [
        [
            f"all {len(total.rows)} on {total.gpu_model}",
            float(prediction.history.gpus[list(total.rows), -1].sum()),
            *(total.peaks.get(p) for p in prediction.bounds),
            *_at(total.expected, hours),
        ]
        for total in prediction.totals
    ]
    peaks = [Column(f"peak, {p:g} bound", unit=GPUS, help=PEAK.help) for p in prediction.bounds]
    note = f"Expected GPUs of every hour; peak: {PEAK.help}."
    note += f" {NO_SUM.capitalize()}." if prediction.totals else ""
    return DataTable(["series", LAST, *peaks, *_hours(prediction, hours)], rows, note=note)


def shown_hours(hours: int) -> list[int]:
    """The hours ahead that have a column: all, or some from the first to the last."""
    count = min(hours, MOST_COLUMNS)
    return [int(h) for h in np.rint(np.linspace(1, hours, count))]


def _hours(prediction: Prediction, shown: Sequence[int]) -> list[Column]:
    """A column for each hour ahead, with its date where it is known."""
    clock, end = prediction.clock, prediction.history.end
    return [Column(f"+{h} h\n{clock.short(end + h - 1)}", unit=GPUS) for h in shown]


def _remarks(prediction: Prediction, columns: int, more: int) -> list[str]:
    remarks = []
    if columns < prediction.hours:
        remarks.append(f"{columns} of {prediction.hours} hours are shown; --out FILE.csv has all")
    if more > 0:
        remarks.append(f"... and {more:,} smaller series; --top N shows more, --json FILE has all")
    if prediction.totals:
        remarks.append(NO_SUM)
        if not any(total.peaks for total in prediction.totals):
            remarks.append(f"{prediction.model} knows no bound of a sum")
    return remarks


def _at(values: Sequence[float] | np.ndarray, shown: Sequence[int]) -> list[float]:
    return [float(values[h - 1]) for h in shown]
