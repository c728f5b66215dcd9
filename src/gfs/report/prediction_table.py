"""The coming hours of demand as tables: what is expected and its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from rich.text import Text

from gfs.forecasting.history import Floats
from gfs.report.columns import amount
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
        remarks.append(f"{columns} of {prediction.hours} hours are shown; --table FILE.csv has all")
    if more > 0:
        remarks.append(f"... and {more:,} smaller series; --top N shows more, --json FILE has all")
    if prediction.totals:
        remarks.append(NO_SUM)
        if not any(total.peaks for total in prediction.totals):
            remarks.append(f"{prediction.model} knows no bound of a sum")
    return remarks


def _at(values: Sequence[float] | np.ndarray, shown: Sequence[int]) -> list[float]:
    return [float(values[h - 1]) for h in shown]


ROWS: Final = 4
PAST: Final = 24
"""Hours of the past: a day."""
MOST_PLOT_COLUMNS: Final = 24
"""A longer horizon has several hours in a column, and the past as well."""
EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
NEAR, FAR = "▒", "░"
"""Up to the lower and up to the upper bound."""


def plot_key(prediction: Prediction) -> str:
    """What the signs mean."""
    width = _width(prediction)
    column = "an hour" if width == 1 else f"the highest of {width} h"
    low, high = (f"{p:g}" for p in (min(prediction.bounds), max(prediction.bounds)))
    shades = f"{NEAR} to the {low} bound" + (f"  {FAR} to the {high} bound" if high != low else "")
    return f"a column: {column}  █ actual │ expected  {shades}"


def text_plot(prediction: Prediction, row: int) -> Text:
    """The last day and the coming hours of a series, each hour a column; the highest and the lowest line named."""
    width = _width(prediction)
    past = _columns(prediction.history.gpus[row, -PAST * width :], width, from_end=True)
    bounds = list(prediction.bounds.values())
    expected, near, far = (_columns(v[row], width) for v in (prediction.expected, bounds[0], bounds[-1]))
    low, high = _range(np.concatenate([past, expected, far]))
    labels = [amount(high), amount(low)]
    margin = max(map(len, labels))

    def level(values: Floats) -> Floats:
        """In lines above the lowest."""
        return np.clip((values - low) / (high - low), 0.0, 1.0) * ROWS

    text = Text(f"{prediction.history.keys[row]}\n", style="bold", no_wrap=True)
    text.truncate(margin + 2 + PAST + len(expected) + 8, overflow="ellipsis")
    levels = level(past), level(expected), level(near), level(far)
    for line in reversed(range(ROWS)):
        label = labels[0] if line == ROWS - 1 else labels[1] if line == 0 else ""
        text.append(f"{label:>{margin}} ", style="not bold")
        text.append(" " * (PAST - len(past)) + "".join(_bar(v, line) for v in levels[0]), style="not bold blue")
        text.append("│", style="not bold dim")
        for middle, lower, upper in zip(*levels[1:], strict=True):
            text.append(_band(middle, lower, upper, line), style="not bold green")
        text.append("\n" if line else "")
    return text


def _width(prediction: Prediction) -> int:
    """Hours in a column."""
    return -(-prediction.hours // MOST_PLOT_COLUMNS)


def _columns(values: Floats, width: int, *, from_end: bool = False) -> Floats:
    """The highest of every `width` hours."""
    if width == 1:
        return values
    odd = len(values) % width
    if odd:
        padding = (width - odd, 0) if from_end else (0, width - odd)
        values = np.pad(values, padding, mode="edge")
    highest: Floats = values.reshape(-1, width).max(axis=1)
    return highest


def _range(values: Floats) -> tuple[float, float]:
    """From 0, unless all is far above it: then from below the lowest, so that changes can be seen."""
    lowest, highest = float(values.min()), float(values.max())
    if lowest < 0.5 * highest or lowest == highest:
        return 0.0, highest or 1.0
    return lowest - (highest - lowest) / 3, highest


def _bar(level: float, line: int) -> str:
    """The part of a bar that a line of text shows; any demand at all can be seen."""
    eighths = round(8 * float(np.clip(level - line, 0.0, 1.0)))
    return EIGHTHS[max(eighths, 1 if level > 0 and line == 0 else 0)]


def _band(middle: float, lower: float, upper: float, line: int) -> str:
    """The same of a band: the bar of what is expected, above it a shade if it fills half of the line or more."""
    bar = _bar(middle, line)
    if bar != " " and middle - line >= 0.25:
        return bar
    for shade, top in ((NEAR, lower), (FAR, upper)):
        if top - line >= 0.5:
            return shade
    return bar
