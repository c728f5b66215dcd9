"""The page of `gfs forecast predict`: recent demand and the band of the coming hours, one series at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import plotly.graph_objects as go

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS
from gfs.report.figures import HP, band_lines, colours_of, dashed, line, selectable, zero_based
from gfs.report.page import Block, Chart, PageSection, Paragraph, Selected, Selector, SelectorBar, write_page
from gfs.report.prediction import Prediction
from gfs.report.prediction_table import whole_table

PAST_HOURS: Final = 2 * WEEK_HOURS
MOST_SERIES: Final = 200
"""More would make the page slow and its list of series useless."""


def prediction_page(prediction: Prediction, source: str, out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    order = prediction.largest_first()[:MOST_SERIES]
    left_out = len(prediction.history.keys) - len(order)
    surest = max(prediction.bounds)
    words = Paragraph(
        f"{prediction.model} was fitted on {prediction.history.hours:,} hours of {source}. For every hour it says"
        f" what is expected, and bounds: demand should stay at or below the {surest:g} bound in {100 * surest:g} of 100"
        " hours. The peak bound is for the highest demand of all these hours at once; GPUs above it can be"
        " promised for that long."
    )
    blocks: list[Block] = [words, _chooser(prediction, order), prediction_chart(prediction, order)]
    sections = [PageSection("What is expected", blocks), PageSection("In numbers", [whole_table(prediction, order)])]
    if left_out:
        remark = f"The {len(order)} largest series are shown; {left_out:,} smaller ones are left out."
        sections[0] = PageSection("What is expected", [*blocks, Paragraph(remark)])
    first, last = (
        prediction.clock.words(h) for h in (prediction.history.end, prediction.history.end + prediction.hours - 1)
    )
    subtitle = f"{len(prediction.history.keys):,} series of {source}, by {prediction.model}: {first} to {last}."
    write_page(out, f"GPU demand of the next {prediction.hours} h", subtitle, sections)


def _chooser(prediction: Prediction, order: list[int]) -> SelectorBar:
    names = [str(prediction.history.keys[row]) for row in order]
    return SelectorBar(
        [
            Selector("series", "series, largest first", names),
            Selector("past", "shown of the past", ["two days", "two weeks"]),
        ]
    )


def prediction_chart(prediction: Prediction, order: list[int]) -> Chart:
    """Recent demand and the band of these series, of which the reader chooses one."""
    clock, end = prediction.clock, prediction.history.end
    past = prediction.history.since(end - PAST_HOURS)
    now = clock.at(end)
    colour = colours_of([prediction.model])[prediction.model]
    recent = line(
        "actual", Selected(("series",), [past.gpus[row] for row in order]), clock.at(past.start), clock.step, HP
    )
    bands = band_lines(
        Selected(("series",), [prediction.expected[row] for row in order]),
        {p: Selected(("series",), [values[row] for row in order]) for p, values in prediction.bounds.items()},
        now,
        clock.step,
        colour,
        mode="lines+markers",
        marker_size=5,
    )
    last = clock.at(end + prediction.hours)
    ranges = [[clock.at(max(end - hours, past.start)), last] for hours in (2 * DAY_HOURS, PAST_HOURS)]
    return Chart(
        "Recent demand and the coming hours",
        "GPUs running or queued, the highest number of each hour. Right of the dashed line: what is expected, and"
        " bands up to the bounds. Drag to zoom, double-click to go back.",
        [recent, *bands],
        selectable(
            go.Layout,
            hovermode="x unified",
            legend_traceorder="normal",
            xaxis=clock.axis,
            xaxis_range=Selected(("past",), ranges),
            xaxis_uirevision=Selected(("past",), [0, 1]),
            yaxis=zero_based("GPUs"),
            shapes=[dashed(x=now)],
        ),
        height=400,
    )
