"""`gfs sweep`: many runs over a grid or a sample of parameters, and the best settings of each scenario."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from gfs.cli.command import CommandGroup
from gfs.cli.console import note, say, show
from gfs.cli.options import RUN, Force, Json, ResultFolder, RunsAtOnce, examples, file_option, option
from gfs.cli.outputs import JSON, PAGES, STDOUT, Outputs
from gfs.cli.progress import job_progress, result_folder
from gfs.domain.text import one_line

EPILOG = examples(
    "gfs sweep sweep.toml --out results",
    "gfs sweep sweep.toml --out results --ray",
    "gfs sweep show results --html front.html",
)

SHOWN = 40
"""Rows of the table, unless all are asked for."""


class SweepGroup(CommandGroup):
    """`gfs sweep FILE` is `gfs sweep run FILE`; `--ray` without an address means this machine."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in what was left out."""
        words = list(args)
        if words and words[0] not in self.commands and words[0] not in {"--help", "-h"}:
            words.insert(0, "run")
        if "--ray" in words:
            place = words.index("--ray") + 1
            if place == len(words) or words[place].startswith("-"):
                words.insert(place, "local")
        return super().parse_args(ctx, words)


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", readable=False, help="What to vary.")],
    out: ResultFolder,
    workers: RunsAtOnce = None,
    ray: Annotated[
        str | None,
        option(
            "--ray", "Run on a Ray cluster: the one at this address, else one started here.", RUN, metavar="[ADDRESS]"
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Simulate every combination of what a TOML file varies, or a random sample of them.

    The file names a trace (a preset, or jobs and nodes), what varies (schedulers, seeds, spot_scale, any parameter) and
    what is set for all. A run that fails is reported and the rest goes on; a sweep that was stopped goes on where it
    was.
    """
    from gfs.batch.cache import ResultCache, run_jobs
    from gfs.sweeps.spec import read_sweep
    from gfs.sweeps.table import TableRow, results_table, write_results

    runs = read_sweep(file).runs()
    count = workers or os.cpu_count() or 1
    executor = _executor(ray, count)
    results = out / "results.parquet"
    errors: dict[Any, str] = {}
    with result_folder(out, [results.name], force), Outputs(file) as outputs:
        outputs.plan(results)
        say(f"{len(runs):,} runs")
        with job_progress() as started:
            cache = ResultCache(out / "cache")
            found = run_jobs(runs, cache, executor, started, lambda job, error: errors.update({job: one_line(error)}))
        rows = [TableRow(run, run.varied, found.get(run, {}), errors.get(run)) for run in runs]
        outputs.save(results, partial(write_results, results_table(rows)))
    for job, words in errors.items():
        note(f"failed: {job.label}: {words}")
    say(f"{len(runs) - len(errors):,} runs done, {len(errors):,} failed. Next: gfs sweep show {out}")
    if errors:
        raise typer.Exit(1)


def _executor(address: str | None, count: int) -> Any:
    """Who runs the jobs."""
    from gfs.batch.executors import on_this_machine
    from gfs.batch.ray_cluster import on_ray

    return partial(on_this_machine, count) if address is None else on_ray(address, count)


def show_results(
    folder: Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="Folder or file of a sweep.")],
    every: Annotated[bool, option("--all", "Every group of runs, not the best ones alone.")] = False,
    plot: Annotated[Path | None, file_option("--html", "Draw all groups as an HTML page.")] = None,
    json: Json = None,
) -> None:
    """Show the settings of a sweep that no other setting is better than.

    Weighed against each other (the Pareto front) are spot evictions, spot wait and goodput (useful GPU-hours as a
    share of the pool). Each scenario (spot_scale) has a front of its own; seeds are averaged.
    """
    from gfs.sweeps.table import read_results, sweep_table

    results = read_results(folder)
    with Outputs(folder) as outputs:
        outputs.plan(plot, PAGES)
        outputs.plan(json, JSON)
        if json != STDOUT:
            groups = [group for group in results.groups if group.front or every]
            show(sweep_table(results.varied, groups[: None if every else SHOWN]))
            count = len(results.scenarios)
            say(
                f"{sum(g.front for g in results.groups)} of {len(results.groups)} settings are on the front"
                + (f" of their scenario ({count} scenarios)" if count > 1 else "")
            )
            for what, why in results.failed:
                note(f"failed: {what}: {why}")
        if plot is not None:
            from gfs.sweeps.page import sweep_page

            outputs.save(plot, lambda path: sweep_page(results.varied, results.groups, path))
        failed = [{"run": what, "error": why} for what, why in results.failed]
        outputs.save_json(json, {"varied": results.varied, "groups": results.groups, "failed": failed})
