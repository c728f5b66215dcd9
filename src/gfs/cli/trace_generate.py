"""`gfs trace generate`: make up a trace after published figures."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from gfs.cli.console import say
from gfs.cli.options import Seed
from gfs.cli.outputs import make_folder
from gfs.domain.errors import InputError

EPILOG = """Examples:

gfs trace generate --preset demo --out my-trace

gfs trace generate --preset paper --nodes 50 --days 14 --out small-paper"""


def generate(
    preset: Annotated[str, typer.Option("--preset", metavar="NAME", help="demo, paper, production or fleet.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", readable=False, help="Folder for jobs.csv and nodes.csv; made if need be."
        ),
    ],
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", help="Nodes; the load per card stays the same.")
    ] = None,
    days: Annotated[
        float | None, typer.Option("--days", metavar="D", help="Days; the load stays the same.")
    ] = None,
    spot_scale: Annotated[
        float, typer.Option("--spot-scale", metavar="X", help="Spot work, as a multiple of the preset's own.")
    ] = 1.0,
    seed: Seed = 0,
) -> None:
    """Make up a trace with the statistics of published ones.

    demo: a small, busy cluster for a week.
    paper: the cluster the paper simulates, 287 nodes, 91 days.
    production: six pools of GPUs, more than 10,000 cards, 28 days.
    """
    from gfs.cli.trace_input import workload_text
    from gfs.workloads import PRESETS, write_trace
    from gfs.workloads import generate as generate_workload

    if preset not in PRESETS:
        close = get_close_matches(preset, PRESETS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(f"unknown preset {preset!r}: {hint}there are {', '.join(PRESETS)}")
    workload = generate_workload(preset, nodes=nodes, days=days, spot_scale=spot_scale, seed=seed)
    make_folder(out)
    jobs_file, nodes_file = write_trace(workload, out)
    say(f"{preset}: {workload_text(workload)}")
    say(f"wrote {jobs_file} and {nodes_file}")
    files = f"--jobs {shlex.quote(str(jobs_file))} --nodes {shlex.quote(str(nodes_file))}"
    say(f"next: gfs compare {files}")
