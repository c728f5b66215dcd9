"""`gfs trace inspect`: what a trace asks for, before anything is scheduled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gfs.cli.console import note, say, show
from gfs.cli.options import RESULTS, Jobs, Json, Nodes, SkipBadRows, examples, file_option
from gfs.cli.outputs import JSON, PAGES, STDOUT, Outputs, plain

if TYPE_CHECKING:
    from gfs.workloads.inspection import Inspection

EPILOG = examples("gfs trace inspect --jobs jobs.csv --nodes nodes.csv --html trace.html")


def inspect(
    jobs: Jobs,
    nodes: Nodes,
    skip_bad_rows: SkipBadRows = False,
    html: Annotated[Path, file_option("--html", "Page with the plots; works offline.", RESULTS)] = Path("trace.html"),
    json: Json = None,
) -> None:
    """Show what a trace asks for: requests, running times, demand of organizations, load against capacity.

    Tables in the terminal, and a page with plots: trace.html in the current folder unless --html names another.
    """
    from gfs.cli.trace_input import read_dated, workload_text
    from gfs.report.inspection_page import inspection_page
    from gfs.report.trace_tables import inspection_tables
    from gfs.workloads.inspection import inspect as look_at

    with Outputs(jobs, nodes) as outputs:
        outputs.plan(html, PAGES)
        outputs.plan(json, JSON)
        workload, day = read_dated(jobs, nodes, skip_bad_rows)
        seen = look_at(workload)
        outputs.save(html, lambda path: inspection_page(seen, path, day))
        outputs.save_json(json, _document(seen))
        if json != STDOUT:
            say(f"{workload.name}: {workload_text(workload)}")
            say()
            show(*inspection_tables(seen))
        note(f"open {html} in a browser to see the plots")


def _document(seen: Inspection) -> dict[str, Any]:
    """What is written as JSON; the class of a task is called kind there, as in event logs."""
    document: dict[str, Any] = plain(seen)
    document["classes"] = [{"kind": part.pop("priority"), **part} for part in document["classes"]]
    return document
