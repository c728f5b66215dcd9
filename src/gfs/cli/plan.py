"""`gfs plan`: which scheduler and quota each pool should have, how sure that is, what could be sold."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gfs.cli import options
from gfs.cli.console import note, say, show
from gfs.cli.options import examples, option
from gfs.cli.outputs import JSON, STDOUT, Outputs
from gfs.cli.progress import job_progress, result_folder
from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.assembly.parameters import Parameters
    from gfs.batch.simulation import Trace
    from gfs.plans.plan import CapacityPlan
    from gfs.plans.request import PlanRequest
    from gfs.plans.targets import Target

EPILOG = examples(
    "gfs plan --out my-plan",
    "gfs plan --jobs jobs.csv --nodes nodes.csv --target evictions=0.02 --target spot-wait-p95=2h --out my-plan",
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
        list[str] | None,
        option(
            "--target",
            "A figure and the most it may be; may be repeated: evictions (of spot runs), broken (guarantee periods),"
            " hp-wait-p99, spot-wait-mean, spot-wait-p95 and other percentiles. Without any: evictions=0.05.",
            TARGETS,
            metavar="FIGURE=BOUND",
        ),
    ] = None,
    target_evictions: Annotated[
        str | None, option("--target-evictions", "The old name of --target evictions=SHARE.", TARGETS, hidden=True)
    ] = None,
    guarantee: Annotated[
        float | None,
        option(
            "--guarantee",
            "Hours promised to spot tasks that do not say their own. Without it: the trace's, and a price list.",
            TARGETS,
            metavar="HOURS",
        ),
    ] = None,
    max_wait: Annotated[
        float,
        option(
            "--max-wait", "Spot work counts as sold up to this mean wait of spot tasks.", TARGETS, metavar="SECONDS"
        ),
    ] = 3600.0,
    schedulers: Annotated[
        str, option("--schedulers", "Those to choose from, with commas between.", options.RUN, metavar="NAMES")
    ] = "gfs-plus,gfs,static",
    settings: options.Settings = None,
    config: options.Config = None,
    quick: Annotated[bool, option("--quick", "Fewer settings: about half the runs.", options.RUN)] = False,
    workers: options.RunsAtOnce = None,
    force: options.Force = False,
    prices: options.Prices = None,
    json: options.Json = None,
) -> None:
    """Find the scheduler and the quota of each pool that meet your targets and give the shortest spot waits.

    Tries schedulers with fixed shares, forecasts with and without feedback and adaptive quotas on your trace, every
    pool on its own, and says how sure the answer is: intervals from weeks of the trace or from other seeds, and
    figures of a part that the choice did not see. Then asks what 10% more or fewer nodes would do and how much spot
    work could be sold, with which guarantee. What --set or --config give stays as it is. Writes plan.html, gfs.toml
    (for --config of gfs simulate and gfs live run) and settings.parquet into DIR. What is computed is kept there: a
    plan that was stopped goes on where it was.
    """
    from gfs.assembly.parameters import Parameters, parse_settings
    from gfs.assembly.schedulers import find_scheduler
    from gfs.batch.cache import ResultCache
    from gfs.cli.options import parse_names
    from gfs.cli.progress import busy
    from gfs.plans.computing import computing
    from gfs.plans.plan import capacity_plan
    from gfs.plans.request import plan_request
    from gfs.telemetry.prices import read_prices

    targets = parse_target_options(target, target_evictions)
    names = parse_names(schedulers, "scheduler", find_scheduler, "--schedulers is empty: name at least one")
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
            given = parse_settings(settings or ())
            if guarantee is not None:
                given["guarantee_hours"] = f"{guarantee:g}"
            parameters, named = Parameters.given(config, given)
            request = plan_request(
                trace,
                names,
                seed=seed,
                parameters=parameters,
                given=named,
                targets=targets,
                max_wait=max_wait,
                quick=quick,
                prices=None if prices is None else read_prices(prices),
            )
        _warn(request, parameters, named)
        note(f"{trace.label}: {request.budget()}")
        with job_progress() as started:
            cache, at_once = ResultCache(out / "cache"), workers or os.cpu_count() or 1
            plan = capacity_plan(request, computing(cache, at_once, started, note))
        _report(plan, files, json, outputs)


def parse_target_options(target: Sequence[str] | None, target_evictions: str | None) -> tuple[Target, ...]:
    """The targets; the option of earlier versions for one of them still works, with a line of warning."""
    from gfs.assembly.aliases import warn_once
    from gfs.plans.targets import parse_targets

    texts = list(target or ())
    if target_evictions is not None:
        old = f"--target-evictions {target_evictions}"
        warn_once(f"option {old} is now written --target evictions={target_evictions}; the old one works once more")
        texts.append(f"evictions={target_evictions}")
    return parse_targets(texts)


def _warn(request: PlanRequest, parameters: Parameters, named: Collection[str]) -> None:
    """Of what was set and moves nothing that is tried, and of guarantees that stay as they are."""
    from gfs.assembly.schedulers import warn_of_idle_settings
    from gfs.batch.simulation import workload_of

    workload = workload_of(request.trace, parameters.guarantee_hours, parameters.checkpoint_interval)
    searched = {name for name in ("p", "quota_share", "eta_min", "eta_max") if name in named}
    warn_of_idle_settings(request.space.schedulers, workload.nodes, parameters, set(named) - searched)
    if request.own_guarantees:
        own, spot = f"{request.own_guarantees:,}", f"{request.spot_tasks:,}"
        note(f"{own} of {spot} spot tasks have their own guarantee_hours in the trace, which stay as they are")


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


def _report(plan: CapacityPlan, files: tuple[Path, Path, Path], json: Path | None, outputs: Outputs) -> None:
    """Print the plan and write its files."""
    from rich.text import Text

    from gfs.files import write_text
    from gfs.plans.config_file import config_text
    from gfs.plans.page import plan_page
    from gfs.plans.summary_text import answer_text, details_text, summary
    from gfs.plans.view import PlanView, plan_tables
    from gfs.report.breakdown import worst_treated_text
    from gfs.sweeps.table import TableRow, results_table, write_results

    page, config, table = files
    view = PlanView(plan)
    rows = [TableRow(r.run, r.run.varied, r.figures, r.error or None) for r in plan.runs()]
    outputs.save(page, lambda path: plan_page(view, path))
    outputs.save(config, lambda path: write_text(path, config_text(plan)))
    outputs.save(table, lambda path: write_results(results_table(rows), path))
    outputs.save_json(json, summary(plan))
    if json != STDOUT:
        groups = plan.chosen.groups
        worst = "" if groups is None else worst_treated_text("the recommendation", groups)
        show(Text(answer_text(plan)), Text(details_text(plan)), *plan_tables(view), *([worst] if worst else []))
        say()
        say(f"The page: open {page} in a browser. The settings, for gfs simulate and gfs live run: --config {config}")
