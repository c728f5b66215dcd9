"""Options that several commands share: written once, so that they mean and say the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.telemetry.breakdown import Kind

TRACE = "Trace"
RUN = "What is simulated"
RESULTS = "Results"


def examples(*commands: str) -> str:
    """What stands below the help of a command."""
    return "\n\n".join(["Examples:" if len(commands) > 1 else "Example:", *commands])


def option(name: str, help: str, panel: str | None = None, metavar: str | None = None, **limits: Any) -> Any:
    """An option of a command. Brackets in its help are brackets, not styles of Rich."""
    return typer.Option(name, help=help.replace("[", r"\["), metavar=metavar, rich_help_panel=panel, **limits)


def file_option(name: str, help: str, panel: str | None = None, metavar: str = "FILE") -> Any:
    """An option that names a file or folder. Typer checks nothing about it: our readers say more."""
    return option(name, help, panel, metavar, readable=False)


Jobs = Annotated[Path, file_option("--jobs", "Jobs of the trace: .csv, .csv.gz or .parquet.", TRACE)]
Nodes = Annotated[Path, file_option("--nodes", "Nodes of the trace.", TRACE)]
OwnJobs = Annotated[Path | None, file_option("--jobs", "Tasks of your own trace.", TRACE)]
OwnNodes = Annotated[Path | None, file_option("--nodes", "Nodes of your own trace.", TRACE)]
NodeEvents = Annotated[
    Path | None, file_option("--node-events", "Events of nodes (time, node, event): failures, repairs, cordons.", TRACE)
]
SkipBadRows = Annotated[bool, option("--skip-bad-rows", "Leave out rows that cannot be used and say how many.", TRACE)]
Settings = Annotated[
    list[str] | None,
    option(
        "--set",
        "Change a parameter, such as quota=fixed or p=0.95; may be repeated. gfs parameters lists them.",
        RUN,
        metavar="KEY=VALUE",
    ),
]
Config = Annotated[
    Path | None, file_option("--config", "Parameters from a TOML file of name = value lines; --set wins.", RUN)
]
Window = Annotated[
    str | None,
    option(
        "--window",
        "Count only tasks submitted in these seconds; the rest is simulated but not counted.",
        RUN,
        metavar="START:END",
    ),
]
Seed = Annotated[
    int, option("--seed", "Seed of everything random; the same seed gives the same bytes.", metavar="N", min=0)
]
RunSeed = Annotated[int, option("--seed", "Seed of schedulers with random choices.", RUN, metavar="N", min=0)]
Check = Annotated[bool, option("--check", "Verify all invariants after every decision (slow).", RUN)]
Prices = Annotated[
    Path | None,
    file_option(
        "--prices", "Dollars per GPU-hour by GPU model (.toml or .json), in place of the assumed ones.", RESULTS
    ),
]
Json = Annotated[Path | None, file_option("--json", "Write the numbers as JSON; - prints them instead.", RESULTS)]
By = Annotated[
    str | None,
    option(
        "--by",
        "Show figures by organization, model or size too, and who evicts whom; several with commas between.",
        RESULTS,
        metavar="A,B",
    ),
]
ResultFolder = Annotated[
    Path,
    file_option(
        "--out",
        "Folder for the results and the cache of computed runs; created if it does not exist.",
        RESULTS,
        metavar="DIR",
    ),
]
TraceFolder = Annotated[
    Path, file_option("--out", "Folder for jobs.csv and nodes.csv; made if need be.", metavar="DIR")
]
Force = Annotated[bool, option("--force", "Overwrite files in DIR even if gfs did not write them.", RESULTS)]
RunsAtOnce = Annotated[
    int | None,
    option("--workers", "Runs at the same time; by default one per core where it pays.", RUN, metavar="N", min=1),
]


def parse_by(by: str | None) -> tuple[Kind, ...]:
    """What `--by` asks for."""
    from gfs.telemetry.breakdown import KINDS

    def find(name: str) -> None:
        if name not in KINDS:
            raise InputError(
                f"--by {name}: give {', '.join(KINDS[:-1])} or {KINDS[-1]}, or several with commas between"
            )

    if by is None:
        return ()
    return cast("tuple[Kind, ...]", tuple(parse_names(by, "--by", find, "--by: give organization, model or size")))


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
