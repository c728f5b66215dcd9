"""`gfs trace check`: can this trace be used, and if not, why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from gfs.cli.console import FAILED, note, say, show
from gfs.cli.options import Jobs, Json, NodeEvents, Nodes, SkipBadRows, examples
from gfs.cli.outputs import JSON, STDOUT, Outputs
from gfs.domain.errors import BadRows

if TYPE_CHECKING:
    from gfs.domain.workload import Workload

EPILOG = examples("gfs trace check --jobs jobs.csv --nodes nodes.csv")


def check(
    jobs: Jobs, nodes: Nodes, node_events: NodeEvents = None, skip_bad_rows: SkipBadRows = False, json: Json = None
) -> None:
    """Check a trace: OK and what it holds, or every value that cannot be used, with its row and the reason.

    Exit code 2 if there is one, unless --skip-bad-rows says that such rows may be left out. Also prints span and load,
    with a warning where units look wrong.
    """
    from gfs.cli.trace_input import rows_text, workload_text
    from gfs.report.trace_tables import bad_rows_table
    from gfs.workloads import read_trace
    from gfs.workloads.plausibility import plausibility

    with Outputs(jobs, nodes, node_events) as outputs:
        outputs.plan(json, JSON)
        workload: Workload | None = None
        try:
            read = read_trace(jobs, nodes, node_events=node_events, skip_bad_rows=skip_bad_rows)
            workload, bad = read.workload, read.skipped
        except BadRows as error:
            bad = error.rows
        seen = None if workload is None else plausibility(workload)
        if json != STDOUT:
            if bad:
                show(bad_rows_table(bad, "; --json FILE lists them all"))
                say()
            if workload is not None and seen is not None:
                result = f"OK without {rows_text(bad)}" if bad else "OK"
                say(f"{result}: {workload_text(workload)}")
                say(seen.text())
                for warning in seen.warnings:
                    say(f"warning: {warning}")
        outputs.save_json(
            json,
            {
                "ok": workload is not None,
                "tasks": None if workload is None else len(workload.tasks),
                "nodes": None if workload is None else len(workload.nodes),
                "plausibility": seen,
                "bad_rows": [row._asdict() for row in bad],
            },
        )
        if workload is None:
            note(f"error: {rows_text(bad)} cannot be used; correct them, or leave them out with --skip-bad-rows")
            raise typer.Exit(FAILED)
