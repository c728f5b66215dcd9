"""`gfs reproduce`: every table and figure of the paper reproduced, or the same for a trace of one's own."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gfs.cli import options
from gfs.cli.console import say
from gfs.cli.options import RUN, examples, option, parse_names
from gfs.cli.outputs import Outputs
from gfs.cli.progress import job_progress, result_folder
from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.batch.job import Job

EPILOG = examples(
    "gfs reproduce --quick --out results",
    "gfs reproduce --out results",
    "gfs reproduce --jobs jobs.csv --nodes nodes.csv --out results",
)


def reproduce(
    out: options.ResultFolder,
    only: Annotated[
        str | None,
        option(
            "--only",
            "These parts alone: statistics, heat-map, comparison, same-quota, sensitivity, guarantees, forecasters,"
            " forecast-limit, ablations, deployment, beyond.",
            RUN,
            metavar="A,B,C",
        ),
    ] = None,
    jobs: options.OwnJobs = None,
    nodes: options.OwnNodes = None,
    series: Annotated[
        Path | None,
        option("--series", "Hourly demand for the forecasters, in place of that of the trace.", RUN, metavar="FILE"),
    ] = None,
    seeds: Annotated[int, option("--seeds", "Synthetic traces per load.", RUN, metavar="N", min=1, max=100)] = 3,
    quick: Annotated[bool, option("--quick", "Small clusters and one seed: minutes, no conclusions.", RUN)] = False,
    workers: options.RunsAtOnce = None,
    force: options.Force = False,
    prices: options.Prices = None,
) -> None:
    """Reproduce every table and figure of the paper, beside the paper's numbers, in one page.

    With --jobs and --nodes the same on your own trace, starting with what GFS would have changed there. What is
    computed is kept in DIR: a run that was stopped goes on where it was, and the same again takes seconds.
    """
    from gfs.batch.cache import ResultCache
    from gfs.cli.progress import busy
    from gfs.cli.trace_input import own_trace
    from gfs.experiments.experiment import FindingCounts, Setup
    from gfs.experiments.jobs import run_simulations
    from gfs.experiments.report import EXPERIMENTS, Provenance, markdown, page, sections
    from gfs.files import write_text
    from gfs.telemetry.prices import read_prices

    names = list(EXPERIMENTS) if only is None else parse_names(only, "part", _check_part, "no part is named")
    chosen = [EXPERIMENTS[name] for name in EXPERIMENTS if name in names]
    with busy("Reading the trace ..."):
        given = own_trace(jobs, nodes)
    money = () if prices is None else tuple(read_prices(prices).items())
    setup = Setup(tuple(range(1 if quick else seeds)), quick, given, str(series) if series else "", money)
    report, tables = out / "report.html", out / "results.md"
    with (
        result_folder(out, [report.name, tables.name], force),
        Outputs(jobs, nodes, series, prices) as outputs,
    ):
        outputs.plan(report)
        outputs.plan(tables)
        with busy("Reading the traces ..."):
            wanted: list[Job] = [job for experiment in chosen for job in experiment.jobs(setup)]
        with job_progress() as started:
            results = run_simulations(wanted, ResultCache(out / "cache"), workers or os.cpu_count() or 1, started)
        command = " ".join(shlex.quote(Path(word).name if "/" in word else word) for word in sys.argv)
        spent = sum(float(result.get("seconds") or 0.0) for result in results.values())
        provenance = Provenance(command, setup, spent)
        shown = sections(chosen, setup, results)
        outputs.save(report, lambda path: write_text(path, page(shown, provenance, results)))
        outputs.save(tables, lambda path: write_text(path, markdown(shown, provenance)))
    for title, section in shown.items():
        say(f"{title}: {FindingCounts.of(section.findings).text() if section.findings else 'done'}")
        for finding in section.findings:
            if finding.agrees is not True:
                say(f"  {finding.word}: {finding.claim}: {finding.found}")
    say(f"The report: open {report} in a browser.")


def _check_part(name: str) -> str:
    from gfs.experiments.report import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise InputError(f"unknown part {name!r}; choose from {', '.join(EXPERIMENTS)}")
    return name
