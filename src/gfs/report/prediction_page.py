"""The page of `gfs forecast predict`: recent demand and the band of the coming hours, one series at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS
from gfs.report.columns import NOTHING, amount
from gfs.report.forecast_bands import band_lines, line
from gfs.report.page import Block, Chart, Choice, Chooser, DataTable, Pick, Section, Words, build_page, write_page
from gfs.report.palette import CAPACITY, HP, forecaster_colours
from gfs.report.prediction import Prediction

PAST_HOURS: Final = 2 * WEEK_HOURS
MOST_SERIES: Final = 200
"""More would make the page slow and its list of series useless."""


def prediction_page(said: Prediction, source: str, out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    order = said.largest_first()[:MOST_SERIES]
    left_out = len(said.history.keys) - len(order)
    surest = max(said.bounds)
    words = Words(
        f"{said.model} was fitted on {said.history.hours:,} hours of {source}. For every hour it says what is"
        f" expected, and bounds: demand should stay at or below the {surest:g} bound in {100 * surest:g} of 100"
        " hours. The peak bound is for the highest demand of all these hours at once; cards above it can be"
        " promised for that long."
    )
    blocks: list[Block] = [words, _chooser(said, order), _chart(said, order)]
    sections = [Section("What is expected", blocks), Section("In numbers", [_table(said, order)])]
    if left_out:
        remark = f"The {len(order)} largest series are shown; {left_out:,} smaller ones are left out."
        sections[0] = Section("What is expected", [*blocks, Words(remark)])
    first, last = (said.clock.words(h) for h in (said.history.end, said.history.end + said.hours - 1))
    subtitle = f"{len(said.history.keys):,} series of {source}, by {said.model}: {first} to {last}."
    write_page(build_page(f"GPU demand of the next {said.hours} h", subtitle, sections), out)


def _chooser(said: Prediction, order: list[int]) -> Chooser:
    names = [str(said.history.keys[row]) for row in order]
    return Chooser(
        [
            Choice("series", "series, largest first", names),
            Choice("past", "shown of the past", ["two days", "two weeks"]),
        ]
    )


def _chart(said: Prediction, order: list[int]) -> Chart:
    clock, end = said.clock, said.history.end
    past = said.history.since(end - PAST_HOURS)
    now = clock.at(end)
    colour = forecaster_colours([said.model])[said.model]
    recent = line(
        "came",
        Pick(("series",), [past.gpus[row] for row in order]),
        clock.at(past.start),
        clock.step,
        {"color": HP, "width": 1.8},
    )
    bands = band_lines(
        Pick(("series",), [said.expected[row] for row in order]),
        {p: Pick(("series",), [values[row] for row in order]) for p, values in said.bounds.items()},
        now,
        clock.step,
        colour,
    )
    for trace in bands:
        trace["mode"] = "lines+markers"
        trace["marker"] = {"size": 5}
    last = clock.at(end + said.hours)
    ranges = [[clock.at(max(end - hours, past.start)), last] for hours in (2 * DAY_HOURS, PAST_HOURS)]
    return Chart(
        "Recent demand and the coming hours",
        "GPUs running or queued, the highest number of each hour. Right of the dashed line: what is expected, and"
        " bands up to the bounds. Drag to zoom, double-click to go back.",
        [recent, *bands],
        {
            "hovermode": "x unified",
            "legend": {"traceorder": "normal"},
            "xaxis": {**clock.axis, "range": Pick(("past",), ranges), "uirevision": Pick(("past",), [0, 1])},
            "yaxis": {"title": {"text": "GPUs"}, "rangemode": "tozero"},
            "shapes": [
                {
                    "type": "line",
                    "x0": now,
                    "x1": now,
                    "yref": "paper",
                    "y0": 0,
                    "y1": 1,
                    "line": {"color": CAPACITY, "dash": "dash", "width": 1},
                }
            ],
        },
        height=400,
    )


def _table(said: Prediction, order: list[int]) -> DataTable:
    clock, end = said.clock, said.history.end
    hours = range(said.hours)
    rows = [
        [
            str(said.history.keys[row]),
            amount(float(said.history.gpus[row, -1])),
            *(amount(float(values[row])) for values in said.peaks.values()),
            *(amount(float(said.expected[row, h])) for h in hours),
        ]
        for row in order
    ]
    rows += [
        [
            f"all {len(total.rows)} on {total.gpu_model}",
            amount(float(said.history.gpus[list(total.rows), -1].sum())),
            *(amount(total.peaks[p]) if p in total.peaks else NOTHING for p in said.bounds),
            *(amount(float(total.expected[h])) for h in hours),
        ]
        for total in said.totals
    ]
    return DataTable(
        header=[
            "series",
            "last hour",
            *(f"peak, {p:g} bound" for p in said.bounds),
            *(f"expected, {clock.short(end + h)}" for h in hours),
        ],
        rows=rows,
        note="GPUs. Bounds of several series do not add up to the bound of their sum." if said.totals else "GPUs.",
    )
