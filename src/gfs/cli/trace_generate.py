"""`gfs trace generate`: a synthetic trace after published figures."""

from __future__ import annotations

import shlex
from typing import Annotated

from gfs.cli.console import say
from gfs.cli.options import Force, Seed, TraceFolder, examples, option
from gfs.cli.outputs import save_trace
from gfs.domain.errors import InputError

EPILOG = examples(
    "gfs trace generate --preset demo --out my-trace",
    "gfs trace generate --preset paper --nodes 50 --days 14 --out small-paper",
)


def generate(
    preset: Annotated[str, option("--preset", "demo, paper, production or fleet.", metavar="NAME")],
    out: TraceFolder,
    nodes: Annotated[int | None, option("--nodes", "Nodes; the load per GPU stays the same.", metavar="N")] = None,
    days: Annotated[float | None, option("--days", "Days; the load stays the same.", metavar="D")] = None,
    spot_scale: Annotated[
        float, option("--spot-scale", "Spot work, as a multiple of the preset's own.", metavar="X")
    ] = 1.0,
    hp_scale: Annotated[float, option("--hp-scale", "HP work, as a multiple of the preset's own.", metavar="X")] = 1.0,
    largest_gang: Annotated[
        float | None,
        option("--largest-gang", "Largest gang, as a share of its pool; tasks stay as large on average.", metavar="S"),
    ] = None,
    seed: Seed = 0,
    mtbf_days: Annotated[
        float | None,
        option(
            "--mtbf-days",
            "Let nodes fail: mean days between two failures of a node. Writes node_events.csv, too.",
            metavar="D",
        ),
    ] = None,
    mttr_hours: Annotated[
        float | None, option("--mttr-hours", "Mean hours until a failed node is repaired; by default 4.", metavar="H")
    ] = None,
    force: Force = False,
) -> None:
    """Generate a synthetic trace with the statistics of published ones.

    demo: a small, busy cluster, 64 nodes, 14 days.
    paper: the cluster the paper simulates, 287 nodes, 91 days.
    production: six pools, more than 10,000 GPUs, 28 days.
    fleet: four pools, 100,000 GPUs, 28 days, two million tasks.
    """
    from gfs.cli.trace_input import workload_text
    from gfs.workloads import generate as generate_workload

    if mttr_hours is not None and mtbf_days is None:
        raise InputError("--mttr-hours is about nodes that fail: say how often with --mtbf-days, too")
    files = ["jobs.csv", "nodes.csv"] if mtbf_days is None else ["jobs.csv", "nodes.csv", "node_events.csv"]
    workload = generate_workload(
        preset,
        nodes=nodes,
        days=days,
        spot_scale=spot_scale,
        hp_scale=hp_scale,
        largest_gang=largest_gang,
        seed=seed,
        mtbf_days=mtbf_days,
        mttr_hours=4.0 if mttr_hours is None else mttr_hours,
    )
    save_trace(workload, out, files, force)
    say(f"{preset}: {workload_text(workload)}")
    *most, last = (str(out / name) for name in files)
    say(f"wrote {', '.join(most)} and {last}")
    options = zip(("--jobs", "--nodes", "--node-events"), files, strict=False)
    say(f"next: gfs compare {' '.join(f'{option} {shlex.quote(str(out / name))}' for option, name in options)}")
