"""`gfs simulate`: one trace under one scheduler."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gfs.cli import options
from gfs.cli.console import note, show
from gfs.cli.groups import show_groups
from gfs.cli.options import examples, file_option, option
from gfs.cli.outputs import JSON, LINES, STDOUT, TABLES, Outputs

if TYPE_CHECKING:
    from gfs.assembly.result import ForecastFigures, ReservationFigures
    from gfs.core.ports import SolverFigures

EPILOG = examples(
    "gfs simulate --jobs jobs.csv --nodes nodes.csv --events events.csv",
    "gfs simulate --jobs jobs.csv --nodes nodes.csv --set quota=fixed --json -",
    "gfs simulate --jobs jobs.csv --nodes nodes.csv --by organization,size",
)


def simulate(
    jobs: options.Jobs,
    nodes: options.Nodes,
    scheduler: Annotated[
        str | None,
        option(
            "--scheduler",
            "The scheduler; gfs schedulers lists them. By default that of --config, or else gfs.",
            options.RUN,
            metavar="NAME",
        ),
    ] = None,
    settings: options.Settings = None,
    config: options.Config = None,
    window: options.Window = None,
    seed: options.RunSeed = 0,
    check: options.Check = False,
    node_events: options.NodeEvents = None,
    skip_bad_rows: options.SkipBadRows = False,
    events: Annotated[
        Path | None, file_option("--events", "Write the event log: .csv, .csv.gz or .parquet.", options.RESULTS)
    ] = None,
    quota: Annotated[
        Path | None,
        file_option("--quota-log", "Write the spot quota at every tick: .csv, .csv.gz or .parquet.", options.RESULTS),
    ] = None,
    decisions: Annotated[
        Path | None,
        file_option(
            "--decisions",
            "Write what was forecast, kept from spot tasks and weighed before evictions: .jsonl or .jsonl.gz.",
            options.RESULTS,
        ),
    ] = None,
    by: options.By = None,
    json: options.Json = None,
) -> None:
    """Simulate a trace under one scheduler and print how long tasks waited and what evictions cost.

    Every task runs until it is done or cancelled. The event log (--events) holds every submission, start, finish,
    eviction, loss and cancellation with its reason; gfs explain reads it. gfs parameters lists what --set takes.
    """
    from gfs.api import config_scheduler
    from gfs.assembly.run import run_simulation
    from gfs.assembly.schedulers import find_scheduler, warn_of_idle_settings
    from gfs.cli.progress import bars
    from gfs.cli.trace_input import read_run_input
    from gfs.report.columns import pools_table, result_table
    from gfs.telemetry.decisions import write_decisions
    from gfs.telemetry.tables import with_timestamps, write_table

    scheduler = scheduler or config_scheduler(config)
    kinds = options.parse_by(by)
    find_scheduler(scheduler)
    with Outputs(jobs, nodes, node_events, config) as outputs:
        outputs.plan(events, TABLES)
        outputs.plan(quota, TABLES)
        outputs.plan(decisions, LINES)
        outputs.plan(json, JSON)
        given = read_run_input(jobs, nodes, node_events, skip_bad_rows, config, settings, window)
        warn_of_idle_settings([scheduler], given.workload.nodes, given.parameters, given.named)
        with bars([scheduler], len(given.workload.tasks)) as running:
            result = run_simulation(
                given.workload,
                scheduler,
                given.parameters,
                window=given.window,
                seed=seed,
                check=check,
                record_quota=quota is not None,
                record_decisions=decisions is not None,
                progress=partial(running, scheduler),
            )
        outputs.save(events, lambda path: write_table(with_timestamps(result.events, given.parameters.first_day), path))
        if result.quota is not None:
            table = result.quota
            outputs.save(quota, lambda path: write_table(table, path))
            if not table.num_rows:
                note(f"{scheduler} ran without a quota, so {quota} is empty; try --set quota=fixed")
        outputs.save(decisions, lambda path: write_decisions(result.decisions or (), path))
        outputs.save_json(json, {"runs": [result.summary()]})
    if json != STDOUT:
        show(pools_table(result.metrics, result.workload.capacity()), result_table(result))
        show_groups([result], kinds)
    note(f"simulated in {result.seconds:.2f} CPU seconds")
    if result.solver is not None:
        note(_solver_text(result.solver))
    if result.forecasting is not None:
        note(_forecasting_text(result.forecasting))
    if result.reservations is not None:
        note(_reservation_text(result.reservations))


def _forecasting_text(figures: ForecastFigures) -> str:
    """What the forecasts of a run took, in a line."""
    training = f"trained {figures.fits:,} times in {figures.training_seconds:.2f} s"
    failed = f", failed {figures.failures:,} times" if figures.failures else ""
    asked = f"asked {figures.forecasts:,} times in {figures.forecast_seconds:.2f} s"
    return f"of these, forecasts: {training}, {asked}{failed}"


def _reservation_text(figures: ReservationFigures) -> str:
    """What it took that no spot task starves, in a line."""
    from gfs.report.columns import amount

    tasks = f"{figures.tasks:,} spot task{'s' * (figures.tasks > 1)} that had waited too long"
    return f"nodes were reserved for {tasks}: {amount(figures.gpu_hours)} GPU-hours idle"


def _solver_text(figures: SolverFigures) -> str:
    """How the programs of a run went, in a line."""
    if not figures.solves:
        return "leases: no program had to be solved"
    text = f"leases: {figures.solves:,} programs solved"
    if not figures.out_of_time:
        return f"{text}, all to the optimum"
    late = f"{figures.out_of_time:,} of them ran out of time"
    return f"{text}, {late}; the worst answer may be {figures.worst_gap:.2%} below the best"
