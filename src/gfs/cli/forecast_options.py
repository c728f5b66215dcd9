"""Options that the forecast commands share: where demand comes from, and how it is forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gfs.cli.options import TRACE

DEMAND = "Demand"
FORECAST = "Forecast"
WINDOW = 672
"""Four weeks: L of the paper."""
HORIZON = 4
LONGEST_HORIZON = 8784
"""A year: what is asked for by mistake should not fill the memory."""
SPLIT = "0.7,0.1,0.2"

# Typer checks nothing about paths (readable=False): the readers say more, and in one voice.
Series = Annotated[
    Path | None,
    typer.Option(
        "--series",
        metavar="FILE",
        readable=False,
        help="Hourly demand: time,organization,gpu_model,gpus, or one column a series.",
        rich_help_panel=DEMAND,
    ),
]
TraceJobs = Annotated[
    Path | None,
    typer.Option(
        "--jobs",
        metavar="FILE",
        readable=False,
        help="Or: jobs of a trace, whose HP demand is taken.",
        rich_help_panel=TRACE,
    ),
]
TraceNodes = Annotated[
    Path | None,
    typer.Option("--nodes", metavar="FILE", readable=False, help="Nodes of the trace.", rich_help_panel=TRACE),
]
Events = Annotated[
    Path | None,
    typer.Option(
        "--events",
        metavar="FILE",
        readable=False,
        help="Or: event log of a run, as gfs simulate --events writes it.",
        rich_help_panel=DEMAND,
    ),
]
Hours = Annotated[
    str | None,
    typer.Option("--hours", metavar="START:END", help="Use only these hours of the demand.", rich_help_panel=DEMAND),
]
FirstDay = Annotated[
    str | None,
    typer.Option(
        "--first-day",
        metavar="YYYY-MM-DD",
        help="The date of hour 0, for demand without dates.",
        rich_help_panel=DEMAND,
    ),
]
Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="A,B,C",
        help="Forecasters to set side by side; by default all that need no extra.",
        rich_help_panel=FORECAST,
    ),
]
LookBack = Annotated[
    int,
    typer.Option(
        "--look-back",
        metavar="N",
        min=1,
        help="Hours that forecasters with a window of fixed length look back.",
        rich_help_panel=FORECAST,
    ),
]
Horizon = Annotated[
    int,
    typer.Option(
        "--horizon",
        metavar="N",
        min=1,
        max=LONGEST_HORIZON,
        help="Hours that are forecast.",
        rich_help_panel=FORECAST,
    ),
]
Country = Annotated[
    str,
    typer.Option(
        "--country",
        metavar="CC",
        help="Whose public holidays count, such as CN, for forecasters that know them.",
        rich_help_panel=FORECAST,
    ),
]
Split = Annotated[
    str,
    typer.Option(
        "--split",
        metavar="A,B,C",
        help="Shares of the hours for training, validation and test, in this order.",
        rich_help_panel=FORECAST,
    ),
]
