"""Options that the forecast commands share: where demand comes from, and how it is forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gfs.cli.options import TRACE, file_option, option

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
    file_option("--series", "Hourly demand: time,organization,gpu_model,gpus, or one column a series.", DEMAND),
]
TraceJobs = Annotated[Path | None, file_option("--jobs", "Or: jobs of a trace, whose HP demand is taken.", TRACE)]
TraceNodes = Annotated[Path | None, file_option("--nodes", "Nodes of the trace.", TRACE)]
Events = Annotated[
    Path | None, file_option("--events", "Or: event log of a run, as gfs simulate --events writes it.", DEMAND)
]
Hours = Annotated[str | None, option("--hours", "Use only these hours of the demand.", DEMAND, metavar="START:END")]
FirstDay = Annotated[
    str | None, option("--first-day", "The date of hour 0, for demand without dates.", DEMAND, metavar="YYYY-MM-DD")
]
Models = Annotated[
    str | None,
    option(
        "--models", "Forecasters to set side by side; by default all that need no extra.", FORECAST, metavar="A,B,C"
    ),
]
LookBack = Annotated[
    int,
    option(
        "--look-back", "Hours that forecasters with a window of fixed length look back.", FORECAST, metavar="N", min=1
    ),
]
Horizon = Annotated[
    int, option("--horizon", "Hours that are forecast.", FORECAST, metavar="N", min=1, max=LONGEST_HORIZON)
]
Country = Annotated[
    str,
    option(
        "--country", "Whose public holidays count, such as CN, for forecasters that know them.", FORECAST, metavar="CC"
    ),
]
Split = Annotated[
    str,
    option(
        "--split", "Shares of the hours for training, validation and test, in this order.", FORECAST, metavar="A,B,C"
    ),
]
