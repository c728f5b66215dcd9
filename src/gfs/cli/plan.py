"""`gfs plan`: which quota settings to use on a cluster, what other nodes would do, what could be sold."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gfs.cli import options
from gfs.cli.console import note, say, show
from gfs.cli.options import examples, option
from gfs.cli.outputs import JSON, STDOUT, Outputs
from gfs.cli.progress import end_with_workers, job_progress, result_folder
from gfs.domain.errors import GfsError, InputError

if TYPE_CHECKING:
    from gfs.batch.job import Job, JobResult
    from gfs.batch.simulation import Trace
    from gfs.plans.plan import CapacityPlan
    from gfs.plans.runs import PlanRun

EPILOG = examples(
    "gfs plan --out my-plan",
    "gfs plan --jobs jobs.csv --nodes nodes.csv --target-evictions 0.02 --out my-plan",
    "gfs simulate --jobs jobs.csv --nodes nodes.csv --config my-plan/gfs.toml",
)

TARGETS = "Targets"


def plan(
    out: options.ResultFolder,
    preset: Annotated[
        str | None,
        option(
            "--preset",
            "A synthetic trace: demo, paper, production or fleet. Without any trace it is demo.",
            options.TRACE,
            metavar="NAME",
        ),
    ] = None,
    seed: options.Seed = 0,
    jobs: options.OwnJobs = None,
    nodes: options.OwnNodes = None,
    target: Annotated[
        float,
        option(
            "--target-evictions",
            "The most that may be evicted: evictions / runs of spot tasks, what gfs simulate prints as"
            " 'evicted of runs'.",
            TARGETS,
            metavar="SHARE",
        ),
    ] = 0.05,
    max_wait: Annotated[
        float,
        option(
            "--max-wait", "Spot work counts as sold up to this mean wait of spot tasks.", TARGETS, metavar="SECONDS"
        ),
    ] = 3600.0,
    scheduler: Annotated[
        str, option("--scheduler", "Whose quota settings are searched.", options.RUN, metavar="NAME")
    ] = "gfs",
    settings: options.Settings = None,
    config: options.Config = None,
    quick: Annotated[bool, option("--quick", "Fewer settings: under a minute on demo.", options.RUN)] = False,
    workers: options.RunsAtOnce = None,
    force: options.Force = False,
    prices: options.Prices = None,
    json: options.Json = None,
) -> None:
    """Find quota settings that keep evictions under a target and give the shortest spot waits.

    Tries p (the probability that HP demand stays below its forecast), the guarantee H (the hours a spot task is
    promised to run undisturbed) and the bounds of eta (the factor by which eviction feedback corrects the quota) on
    your trace, compares with a fixed quota and with none, then asks what 10% more or fewer nodes would do and how much
    spot work could be sold. What --set or --config give stays as it is. Writes plan.html, gfs.toml (for --config) and
    settings.parquet into DIR. What is computed is kept there: a plan that was stopped goes on where it was.
    """
    from gfs.assembly.parameters import Parameters, parse_settings
    from gfs.assembly.schedulers import warn_of_idle_settings
    from gfs.batch.simulation import workload_of
    from gfs.cli.progress import busy
    from gfs.plans.plan import capacity_plan, plan_request
    from gfs.telemetry.prices import read_prices

    end_with_workers()
    with busy("Reading the trace ..."):
        trace = _trace(preset, seed, jobs, nodes)
    files = out / "plan.html", out / "gfs.toml", out / "settings.parquet"
    with (
        result_folder(out, [path.name for path in files], force),
        Outputs(jobs, nodes, config, prices) as outputs,
    ):
        for path in files:
            outputs.plan(path)
        outputs.plan(json, JSON)
        with busy("Reading the trace ..."):
            parameters, named = Parameters.given(config, parse_settings(settings or ()))
            request = plan_request(
                trace,
                scheduler,
                seed=seed,
                parameters=parameters,
                given=named,
                target=target,
                max_wait=max_wait,
                quick=quick,
                prices=None if prices is None else read_prices(prices),
            )
            workload = workload_of(trace, parameters.guarantee_hours, parameters.checkpoint_interval)
        warn_of_idle_settings([scheduler, "static"], workload.nodes, parameters, named)  # static stands beside it
        if request.own_guarantees:
            own, spot = f"{request.own_guarantees:,}", f"{request.spot_tasks:,}"
            note(f"{own} of {spot} spot tasks have their own guarantee_hours in the trace: for them no other is tried")
        with job_progress() as started:
            plan = capacity_plan(request, _computing(out, workers or os.cpu_count() or 1, started))
        _report(plan, files, json, outputs)


def _trace(preset: str | None, seed: int, jobs: Path | None, nodes: Path | None) -> Trace:
    from gfs.batch.simulation import GeneratedTrace
    from gfs.cli.trace_input import own_trace
    from gfs.workloads.presets import preset_named

    if jobs is not None and nodes is not None and preset is not None:
        raise InputError("--preset generates a trace and --jobs names one: leave out one of them")
    given = own_trace(jobs, nodes)
    if given is not None:
        return given
    return GeneratedTrace(preset_named(preset or "demo").name, seed=seed)


Computed = tuple[Mapping["PlanRun", "JobResult"], Mapping["PlanRun", str]]


def _computing(
    out: Path, workers: int, started: Callable[[list[Job]], Callable[[Job], None]]
) -> Callable[[Sequence[PlanRun]], Computed]:
    """Computes runs, or finds them in the cache."""
    from gfs.batch.cache import ResultCache, run_jobs
    from gfs.batch.executors import on_this_machine

    cache = ResultCache(out / "cache")

    def compute(runs: Sequence[PlanRun]) -> Computed:
        errors: dict[Any, str] = {}

        def failed(job: Job, error: Exception) -> None:
            if not isinstance(error, GfsError):
                raise error
            errors[job] = str(error)
            note(f"failed: {job.label}: {error}")

        found: Mapping[Any, JobResult] = run_jobs(runs, cache, partial(on_this_machine, workers), started, failed)
        return found, errors

    return compute


def _report(plan: CapacityPlan, files: tuple[Path, Path, Path], json: Path | None, outputs: Outputs) -> None:
    """Print the plan and write its files."""
    from rich.text import Text

    from gfs.files import write_text
    from gfs.plans.page import plan_page
    from gfs.plans.summary_text import config_text, summary, summary_text
    from gfs.plans.view import PlanView, plan_tables
    from gfs.sweeps.table import TableRow, results_table, write_results

    page, config, table = files
    view = PlanView(plan)
    rows = [TableRow(r.run, r.run.varied, r.figures, r.error or None) for r in plan.runs()]
    outputs.save(page, lambda path: plan_page(view, path))
    outputs.save(config, lambda path: write_text(path, config_text(plan)))
    outputs.save(table, lambda path: write_results(results_table(rows), path))
    outputs.save_json(json, summary(plan))
    if json != STDOUT:
        show(Text(summary_text(plan)), *plan_tables(view))
        say()
        say(f"The page: open {page} in a browser. The settings: --config {config}")
