"""Options that several commands share: written once, so that they mean and say the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gfs.domain.errors import InputError

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
        help="Events of nodes (time, node, event): failures, repairs, cordons.",
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
        help="Change a parameter, such as quota=fixed or p=0.95; may be repeated. gfs parameters lists them.",
        rich_help_panel=RUN,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        readable=False,
        help="Parameters from a TOML file of name = value lines; --set wins.",
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
    typer.Option("--seed", metavar="N", min=0, help="Seed of schedulers with random choices.", rich_help_panel=RUN),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Verify all invariants after every decision (slow).", rich_help_panel=RUN),
]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        readable=False,
        help="Dollars per GPU-hour by GPU model (.toml or .json), in place of the assumed ones.",
        rich_help_panel=RESULTS,
    ),
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
        help="Folder for the results and the cache of computed runs; created if it does not exist.",
        rich_help_panel=RESULTS,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Overwrite files in DIR even if gfs did not write them.", rich_help_panel=RESULTS),
]
RunsAtOnce = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, metavar="N", help="Runs at the same time; by default one per core.", rich_help_panel=RUN
    ),
]


def parse_names(text: str, kind: str, find: Callable[[str], object], none: str) -> list[str]:
    """The names in a list like 'gfs,static', each known to `find` and named once; `none`: the error if it is empty."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(none)
    for name in names:
        find(name)
        if names.count(name) > 1:
            raise InputError(f"{kind} {name} is named twice: name each once")
    return names
