"""`gfs compare`: one trace under several schedulers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gfs.cli import options
from gfs.cli.console import note, show
from gfs.cli.options import examples, file_option, option, parse_names
from gfs.cli.outputs import JSON, PAGES, STDOUT, Outputs

if TYPE_CHECKING:
    from gfs.domain.workload import Workload

EPILOG = examples(
    "gfs compare --jobs jobs.csv --nodes nodes.csv --html report.html",
    "gfs compare --jobs jobs.csv --nodes nodes.csv --schedulers gfs,static",
)

SMALL = 100_000
"""Tasks below which starting processes and handing them the trace takes longer than the runs themselves."""


def compare(
    jobs: options.Jobs,
    nodes: options.Nodes,
    schedulers: Annotated[
        str,
        option("--schedulers", "The schedulers to compare; gfs schedulers lists them.", options.RUN, metavar="A,B,C"),
    ] = "gfs,yarn-cs,static",
    settings: options.Settings = None,
    config: options.Config = None,
    window: options.Window = None,
    seed: options.RunSeed = 0,
    check: options.Check = False,
    workers: Annotated[
        int | None,
        option(
            "--workers",
            "Runs at the same time; by default one per core for large traces.",
            options.RUN,
            metavar="N",
            min=1,
        ),
    ] = None,
    node_events: options.NodeEvents = None,
    skip_bad_rows: options.SkipBadRows = False,
    html: Annotated[
        Path | None, file_option("--html", "Write a report with plots: one page that works offline.", options.RESULTS)
    ] = None,
    prices: options.Prices = None,
    json: options.Json = None,
) -> None:
    """Simulate a trace under several schedulers and compare them in one table.

    The best value of every column is marked. All schedulers get the same tasks, nodes and parameters.
    """
    from gfs.api import Comparison
    from gfs.assembly.schedulers import warn_of_idle_settings
    from gfs.batch.comparison import run_all
    from gfs.cli.progress import bars
    from gfs.cli.trace_input import read_run_input, workload_text
    from gfs.report.columns import comparison_table
    from gfs.telemetry.prices import read_prices

    names = _names(schedulers)
    with Outputs(jobs, nodes, node_events, config, prices) as outputs:
        outputs.plan(html, PAGES)
        outputs.plan(json, JSON)
        table = None if prices is None else read_prices(prices)
        given = read_run_input(jobs, nodes, node_events, skip_bad_rows, config, settings, window)
        warn_of_idle_settings(names, given.workload.nodes, given.parameters, given.named)
        at_once = _workers(workers, given.workload, names)
        with bars(names, len(given.workload.tasks), in_turn=at_once == 1) as running:
            results = run_all(
                given.workload,
                names,
                given.parameters,
                workers=at_once,
                progress=running.update,
                window=given.window,
                seed=seed,
                check=check,
                record_quota=html is not None,
            )
        if html is not None:
            from gfs.report.comparison import comparison_page

            outputs.save(html, lambda path: comparison_page(results, given.workload, path, table))
        outputs.save_json(json, Comparison(tuple(results), given.workload).summary())
    if json != STDOUT:
        title = f"{given.workload.name}: {workload_text(given.workload)}"
        rows = [(result.scheduler, result.metrics) for result in results]
        show(comparison_table(rows, title, [result.quota_in_force for result in results]))
    note(f"simulated in {sum(result.seconds for result in results):.2f} CPU seconds")


def _names(text: str) -> list[str]:
    """The schedulers in a list like 'gfs,static', each known and named once."""
    from gfs.assembly.schedulers import find_scheduler

    none = "no scheduler to compare: name at least one, for example --schedulers gfs,yarn-cs"
    return parse_names(text, "scheduler", find_scheduler, none)


def _workers(asked: int | None, workload: Workload, names: list[str]) -> int:
    """How many runs at a time."""
    if asked is None:
        asked = 1 if len(workload.tasks) < SMALL else os.cpu_count() or 1
    return min(asked, len(names))
