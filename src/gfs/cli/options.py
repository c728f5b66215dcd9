"""Options that several commands share: written once, so that they mean and say the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TRACE = "Trace"
RUN = "What is simulated"
RESULTS = "Results"

# Typer checks nothing about paths (readable=False): the readers say more, and in one voice.
Jobs = Annotated[
    Path,
    typer.Option(
        "--jobs",
        metavar="FILE",
        readable=False,
        help="Jobs of the trace: .csv, .csv.gz or .parquet.",
        rich_help_panel=TRACE,
    ),
]
Nodes = Annotated[
    Path,
    typer.Option("--nodes", metavar="FILE", readable=False, help="Nodes of the trace.", rich_help_panel=TRACE),
]
NodeEvents = Annotated[
    Path | None,
    typer.Option(
        "--node-events",
        metavar="FILE",
        readable=False,
        help="What happens to nodes (time, node, event): failures, repairs, cordons.",
        rich_help_panel=TRACE,
    ),
]
SkipBadRows = Annotated[
    bool,
    typer.Option("--skip-bad-rows", help="Leave out rows that cannot be used and say how many.", rich_help_panel=TRACE),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a parameter; may be repeated. gfs parameters lists them.",
        rich_help_panel=RUN,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        readable=False,
        help="Parameters from a TOML file; --set wins.",
        rich_help_panel=RUN,
    ),
]
Window = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="START:END",
        help="Count only tasks submitted in these seconds; the rest is simulated but not counted.",
        rich_help_panel=RUN,
    ),
]
Seed = Annotated[
    int,
    typer.Option("--seed", metavar="N", min=0, help="Seed of everything random; the same seed gives the same bytes."),
]
RunSeed = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", min=0, help="Seed of whatever a scheduler draws at random.", rich_help_panel=RUN
    ),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Verify every promise at every decision (slow).", rich_help_panel=RUN),
]
Json = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        readable=False,
        help="Write the numbers as JSON; - prints them instead.",
        rich_help_panel=RESULTS,
    ),
]
ResultFolder = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="DIR",
        readable=False,
        help="Folder for the results and all that was computed; made if need be.",
        rich_help_panel=RESULTS,
    ),
]
RunsAtOnce = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, metavar="N", help="Runs at the same time; by default one per core.", rich_help_panel=RUN
    ),
]
