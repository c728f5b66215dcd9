"""`gfs demo`: everything once, in under a minute."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gfs.cli.console import say, show
from gfs.cli.options import Force, Seed, examples, file_option
from gfs.cli.outputs import check_folder, json_text, make_folder

if TYPE_CHECKING:
    from gfs.assembly.result import RunResult

EPILOG = examples("gfs demo --out demo-output")

SCHEDULERS = ("gfs-plus", "gfs", "yarn-cs", "static")


def demo(
    out: Annotated[
        Path, file_option("--out", "Folder for the report and the data; created if need be.", metavar="DIR")
    ] = Path("demo-output"),
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Generate a small busy cluster, run four schedulers on it and write a report. Start here.

    Prints the comparison and writes report.html (works offline), the trace, the numbers and the event log.
    """
    from gfs.api import Comparison
    from gfs.assembly.parameters import Parameters
    from gfs.batch.comparison import run_all
    from gfs.cli.outputs import Outputs, noting
    from gfs.cli.progress import bars
    from gfs.cli.trace_input import workload_text
    from gfs.files import write_text
    from gfs.report.columns import comparison_table
    from gfs.report.comparison import comparison_page
    from gfs.telemetry.tables import write_table
    from gfs.workloads import generate, write_trace

    files = ("report.html", "summary.json", "events.csv", "jobs.csv", "nodes.csv")
    check_folder(out, files, force)
    report, summary, events = out / "report.html", out / "summary.json", out / "events.csv"
    with Outputs() as outputs:
        for name in files if out.is_dir() else ():
            outputs.plan(out / name)
        workload = generate("demo", seed=seed)
        say("Two synthetic weeks of a small, busy cluster:")
        say(f"{workload_text(workload)}.")
        say("High-priority (HP) tasks are never evicted; spot tasks use what they leave.")
        say()
        with bars(SCHEDULERS, len(workload.tasks)) as running:
            results = run_all(
                workload, SCHEDULERS, Parameters(), workers=1, progress=running, record_quota=True, seed=seed
            )
        make_folder(out)
        with noting(*(out / name for name in files)):
            jobs_file, nodes_file = write_trace(workload, out)
            write_table(results[0].events, events)
            write_text(summary, json_text(Comparison(tuple(results), workload).summary()) + "\n")
            comparison_page(results, workload, report)
    rows = [(result.scheduler, result.metrics) for result in results]
    show(comparison_table(rows, quotas=[result.quota_in_force for result in results]))
    _print_next_steps(results[0], report, events, jobs_file, nodes_file)


def _print_next_steps(result: RunResult, report: Path, events: Path, jobs_file: Path, nodes_file: Path) -> None:
    """Where everything is and what to try next, in commands that can be copied as they are."""
    gfs = _gfs_command()
    trace = f"--jobs {shlex.quote(str(jobs_file))} --nodes {shlex.quote(str(nodes_file))}"
    log = shlex.quote(str(events))
    say()
    say(f"The report: open {report} in a browser.")
    say("Beside it:  jobs.csv, nodes.csv, summary.json and events.csv (what gfs-plus did).")
    say()
    say("Try next")
    say("  why a task waited and was evicted:")
    say(f"    {gfs} explain --events {log} {shlex.quote(_evicted_task(result.events))}")
    if (worst := result.breakdown().worst_treated) is not None:
        say("  what happened to the organization that is treated worst:")
        jobs = shlex.quote(str(jobs_file))
        say(f"    {gfs} explain --events {log} --jobs {jobs} --organization {shlex.quote(worst)}")
    say("  what the trace asks for, with plots:")
    say(f"    {gfs} trace inspect {trace}")
    say("  what a quota for spot tasks changes:")
    say(f"    {gfs} compare {trace} --set quota=fixed --set quota_share=0.3")
    say("  your own trace: give your files, in the same columns, to")
    say(f"    {gfs} trace check --jobs JOBS.csv --nodes NODES.csv")


def _gfs_command() -> str:
    """How this program is called: `gfs`, or with its path where the shell would not find it."""
    script = Path(sys.argv[0])
    found = shutil.which("gfs")
    if found or script.name != "gfs" or not script.is_file():
        return "gfs" if found else f"{shlex.quote(sys.executable)} -m gfs.cli.main"
    near = os.path.relpath(script)
    return shlex.quote(near if len(near) < len(str(script.absolute())) else str(script.absolute()))


def _evicted_task(events: Any) -> str:
    """A task with about two evictions: a life that tells something and fits a screen."""
    rows = events.select(["task", "event", "run"]).to_pylist()
    evictions: dict[str, int] = {row["task"]: row["run"] for row in rows if row["event"] == "evict"}
    if not evictions:
        return str(rows[0]["task"])
    return min(evictions, key=lambda name: (abs(evictions[name] - 2), name))
