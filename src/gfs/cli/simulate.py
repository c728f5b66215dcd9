"""`gfs simulate`: one trace under one scheduler."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gfs.cli.console import note, show
from gfs.cli.options import (
    RESULTS,
    RUN,
    Check,
    Config,
    Jobs,
    Json,
    NodeEvents,
    Nodes,
    RunSeed,
    Settings,
    SkipBadRows,
    Window,
)
from gfs.cli.outputs import STDOUT, TABLES, Outputs

EPILOG = """Examples:

gfs simulate --jobs jobs.csv --nodes nodes.csv --events events.csv

gfs simulate --jobs jobs.csv --nodes nodes.csv --set quota=fixed --json -"""


def simulate(
    jobs: Jobs,
    nodes: Nodes,
    scheduler: Annotated[
        str,
        typer.Option(
            "--scheduler", metavar="NAME", help="One of those that gfs schedulers lists.", rich_help_panel=RUN
        ),
    ] = "gfs",
    settings: Settings = None,
    config: Config = None,
    window: Window = None,
    seed: RunSeed = 0,
    check: Check = False,
    node_events: NodeEvents = None,
    skip_bad_rows: SkipBadRows = False,
    events: Annotated[
        Path | None,
        typer.Option(
            "--events",
            metavar="FILE",
            readable=False,
            help="Write the event log: .csv, .csv.gz or .parquet.",
            rich_help_panel=RESULTS,
        ),
    ] = None,
    quota: Annotated[
        Path | None,
        typer.Option(
            "--quota",
            metavar="FILE",
            readable=False,
            help="Write the spot quota at every tick: .csv, .csv.gz or .parquet.",
            rich_help_panel=RESULTS,
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Simulate a trace under one scheduler and print how long tasks waited and what evictions cost.

    Every task runs until it is done or cancelled. The event log (--events) holds every
    submission, start, finish, eviction, loss and cancellation with its reason; gfs explain reads it.
    """
    from gfs.assembly.run import run_simulation
    from gfs.assembly.schedulers import find_scheduler
    from gfs.cli.bars import bars
    from gfs.cli.tables import forecasting_text, kept_text, pools_table, result_table, solver_text
    from gfs.cli.trace_input import read_run_input
    from gfs.telemetry.tables import write_table

    find_scheduler(scheduler)
    with Outputs(*(path for path in (jobs, nodes, node_events, config) if path)) as outputs:
        outputs.plan(events, TABLES)
        outputs.plan(quota, TABLES)
        outputs.plan(json)
        given = read_run_input(
            jobs,
            nodes,
            node_events=node_events,
            config=config,
            settings=settings,
            window=window,
            skip_bad_rows=skip_bad_rows,
        )
        with bars([scheduler], len(given.workload.tasks)) as running:
            result = run_simulation(
                given.workload,
                scheduler,
                given.parameters,
                window=given.window,
                seed=seed,
                check=check,
                record_quota=quota is not None,
                progress=partial(running.update, scheduler),
            )
        if json != STDOUT:
            show(result_table(result), pools_table(result))
        note(f"simulated in {result.seconds:.2f} CPU seconds")
        if result.solver is not None:
            note(solver_text(result.solver))
        if result.forecasting is not None:
            note(forecasting_text(result.forecasting))
        if result.kept is not None:
            note(kept_text(result.kept))
        outputs.save(events, lambda path: write_table(result.events, path))
        if result.quota is not None:
            table = result.quota
            outputs.save(quota, lambda path: write_table(table, path))
            if not table.num_rows:
                note(f"{scheduler} ran without a quota, so {quota} is empty; try --set quota=fixed")
        outputs.save_json(json, {"runs": [result.summary()]})
