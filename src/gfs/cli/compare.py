"""`gfs compare`: one trace under several schedulers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from gfs.cli import options
from gfs.cli.console import note, show
from gfs.cli.groups import show_groups
from gfs.cli.options import examples, file_option, option
from gfs.cli.outputs import JSON, PAGES, STDOUT, Outputs, check_folder
from gfs.domain.errors import InputError

FRONT = "Fronts"
EPILOG = examples(
    "gfs compare --jobs jobs.csv --nodes nodes.csv --html report.html",
    "gfs compare --jobs jobs.csv --nodes nodes.csv --schedulers gfs,static",
    "gfs compare --jobs jobs.csv --nodes nodes.csv --by organization",
    "gfs compare --jobs jobs.csv --nodes nodes.csv --front --html front.html",
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
    workers: options.RunsAtOnce = None,
    node_events: options.NodeEvents = None,
    skip_bad_rows: options.SkipBadRows = False,
    html: Annotated[
        Path | None, file_option("--html", "Write a report with plots: one page that works offline.", options.RESULTS)
    ] = None,
    prices: options.Prices = None,
    by: options.By = None,
    json: options.Json = None,
    front: Annotated[
        bool,
        option(
            "--front",
            "Run each scheduler with many quotas, and show the points that no other beats.",
            FRONT,
        ),
    ] = False,
    noise: Annotated[
        float | None,
        option(
            "--noise",
            "Share by which a point must be better on both figures to count; 0.05 by default.",
            FRONT,
            metavar="SHARE",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        file_option("--cache", "Keep computed runs in this folder, and go on from there.", FRONT, metavar="DIR"),
    ] = None,
) -> None:
    """Simulate a trace under several schedulers and compare them in one table.

    The best value of every column is marked. All schedulers get the same tasks, nodes and parameters. With --front each
    runs with its own quota, none, fixed ones of 5 to 35% and forecasts at p 0.8 to 0.99; shown is who is on the common
    front of spot wait and evictions, and of spot completion time and wasted GPU-hours.
    """
    if front:
        if prices is not None:
            raise InputError("--prices: with --front no money is counted; leave it out")
        if by is not None:
            raise InputError("--by: with --front there are no figures by group; leave it out")
        trace = (jobs, nodes, node_events, skip_bad_rows, config, settings, window)
        _compare_fronts(schedulers, trace, noise, cache, workers, html, json, {"seed": seed, "check": check})
        return
    for name, value in (("--noise", noise), ("--cache", cache)):
        if value is not None:
            raise InputError(f"{name} is for --front: add it, or leave {name} out")
    from gfs.api import Comparison, find_schedulers
    from gfs.assembly.schedulers import warn_of_idle_settings
    from gfs.batch.comparison import run_all
    from gfs.cli.progress import bars
    from gfs.cli.trace_input import read_run_input, workload_text
    from gfs.report.columns import comparison_table
    from gfs.telemetry.prices import read_prices

    kinds = options.parse_by(by)
    definitions = find_schedulers(schedulers)
    names = [definition.name for definition in definitions]
    with Outputs(jobs, nodes, node_events, config, prices) as outputs:
        outputs.plan(html, PAGES)
        outputs.plan(json, JSON)
        table = None if prices is None else read_prices(prices)
        given = read_run_input(jobs, nodes, node_events, skip_bad_rows, config, settings, window)
        warn_of_idle_settings(definitions, given.workload.nodes, given.parameters, given.named)
        at_once = min(workers or _at_once(len(given.workload.tasks)), len(names))
        with bars(names, len(given.workload.tasks), in_turn=at_once == 1) as running:
            results = run_all(
                given.workload,
                definitions,
                given.parameters,
                workers=at_once,
                progress=running,
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
        show_groups(results, kinds)
    note(f"simulated in {sum(result.seconds for result in results):.2f} CPU seconds")


def _compare_fronts(
    schedulers: str,
    trace: tuple[Any, ...],
    noise: float | None,
    cache: Path | None,
    workers: int | None,
    html: Path | None,
    json: Path | None,
    run_options: dict[str, Any],
) -> None:
    """Each scheduler over its quotas; `trace` is what `read_run_input` takes, `run_options` are those of the runs."""
    from gfs.api import find_schedulers
    from gfs.assembly.parameters import Parameters, parse_settings
    from gfs.batch.cache import ResultCache
    from gfs.batch.front import FRONTS, NOISE, check_front_options, run_fronts
    from gfs.cli.progress import job_progress
    from gfs.cli.trace_input import read_run_input, workload_text
    from gfs.report.front import front_table, front_words, left_out_words

    definitions = find_schedulers(schedulers)
    jobs, nodes, node_events, _, config, settings, _ = trace
    share = NOISE if noise is None else noise
    check_front_options(share, Parameters.given(config, parse_settings(settings or ()))[1])
    with Outputs(jobs, nodes, node_events, config) as outputs:
        outputs.plan(html, PAGES)
        outputs.plan(json, JSON)
        if cache is not None:
            check_folder(cache)
        given = read_run_input(*trace)
        with job_progress() as started:
            compared = run_fronts(
                given.workload,
                definitions,
                given.parameters,
                given.named,
                noise=share,
                workers=lambda runs: workers or _at_once(runs * len(given.workload.tasks)),
                cache=None if cache is None else ResultCache(cache),
                started=started,
                window=given.window,
                **run_options,
            )
        if html is not None:
            from gfs.report.front_page import front_page

            outputs.save(html, lambda path: front_page(compared, path))
        outputs.save_json(json, compared.summary())
    if json == STDOUT:
        return
    parts: list[Any] = [[f"{given.workload.name}: {workload_text(given.workload)}", *left_out_words(compared)]]
    for axes in FRONTS:
        parts += [[axes.name.capitalize(), *front_words(compared, axes)], front_table(compared, axes)]
    show(*("\n".join(part) if isinstance(part, list) else part for part in parts))


def _at_once(tasks: int) -> int:
    """How many runs at a time where nobody says it, for so many tasks in all."""
    return 1 if tasks < SMALL else os.cpu_count() or 1
