"""Demand as a picture of a few lines of text: bars for actual demand, shades for the bounds of what is forecast."""

from __future__ import annotations

from typing import Final

import numpy as np
from rich.text import Text

from gfs.forecasting.history import Floats
from gfs.report.columns import amount
from gfs.report.prediction import Prediction

ROWS: Final = 4
PAST: Final = 24
"""Hours of the past: a day."""
MOST_COLUMNS: Final = 24
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
    return -(-prediction.hours // MOST_COLUMNS)


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
