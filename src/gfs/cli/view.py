"""`gfs view`: look at a run in a web browser."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfs.cli.console import say
from gfs.cli.options import RESULTS, TRACE, examples, file_option, option
from gfs.cli.outputs import PAGES, Outputs
from gfs.domain.address import parse_address
from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.dashboard.files import RunFiles, RunTables
    from gfs.dashboard.site import Site
    from gfs.dashboard.wire import Recording

DEFAULT_HTTP = "127.0.0.1:8090"
EPILOG = examples(
    "gfs view events.csv --nodes nodes.csv --quota quota.csv",
    "gfs view events.csv --nodes nodes.csv --jobs jobs.csv --export page.html",
)
IN_FOLDER = {
    "events": ("events.csv", "events.csv.gz", "events.parquet"),
    "nodes": ("nodes.csv",),
    "jobs": ("jobs.csv",),
    "quota": ("quota.csv", "quota.parquet"),
    "node_events": ("node_events.csv",),
    "summary": ("summary.json",),
    "decisions": ("decisions.jsonl", "decisions.jsonl.gz"),
}
"""What the files of a run are called in a folder that holds them all."""


def view(
    events: Annotated[
        Path,
        typer.Argument(metavar="EVENTS", help="Event log of a run, or a folder with events.csv and its other files."),
    ],
    nodes: Annotated[
        Path | None,
        file_option("--nodes", "Nodes of the trace; without them, those that the log names.", TRACE),
    ] = None,
    jobs: Annotated[
        Path | None, file_option("--jobs", "Jobs of the trace: guarantee and checkpoint interval of each.", TRACE)
    ] = None,
    quota: Annotated[
        Path | None, file_option("--quota", "Quota log of the run: gfs simulate --quota-log wrote it.", TRACE)
    ] = None,
    node_events: Annotated[Path | None, file_option("--node-events", "Failures and cordons of nodes.", TRACE)] = None,
    summary: Annotated[
        Path | None,
        file_option("--summary", "Summary of the run (gfs simulate --json): scheduler, promise, restarts.", TRACE),
    ] = None,
    decisions: Annotated[
        Path | None,
        file_option("--decisions", "Decision log of the run: gfs simulate --decisions wrote it.", TRACE),
    ] = None,
    title: Annotated[
        str, option("--title", "What stands above the page; by default the name of the log.", RESULTS, metavar="TEXT")
    ] = "",
    export: Annotated[
        Path | None,
        file_option("--export", "Write the page as one file that works offline; nothing is served.", RESULTS),
    ] = None,
    http: Annotated[
        str, option("--http", "Where the page is served; port 0: any that is free.", RESULTS, metavar="ADDR")
    ] = DEFAULT_HTTP,
    browse: Annotated[bool, option("--open/--no-open", "Open the page in a browser.", RESULTS)] = True,
) -> None:
    """Look at a run in a web browser: GPUs, nodes, queue and organizations at any moment of it.

    The event log is what gfs simulate --events FILE or gfs live run --record DIR wrote. The page is served on this
    machine until Ctrl-C; with --export it is one file that works offline and can be sent to others.
    """
    from gfs.dashboard.files import RunFiles, read_run
    from gfs.dashboard.page import write_export
    from gfs.dashboard.recording import recording_of

    files = RunFiles(events, nodes, jobs, quota, node_events, summary, decisions)
    files = _in_folder(events, files) if events.is_dir() else files
    inputs = (getattr(files, field.name) for field in fields(files))
    with Outputs(*inputs) as outputs:
        outputs.plan(export, PAGES)
        tables = read_run(files)
        recording = recording_of(tables, title or events.name)
        outputs.save(export, lambda path: write_export(recording, path))
    if export is None:
        _serve(_site(recording, tables, files), http, browse)


def _site(recording: Recording, tables: RunTables, files: RunFiles) -> Site:
    """What is served; with jobs and nodes the day can be simulated again."""
    import msgspec

    from gfs.assembly.parameters import QUOTAS
    from gfs.assembly.schedulers import SCHEDULERS
    from gfs.dashboard.replay import Replay
    from gfs.dashboard.site import Site
    from gfs.dashboard.whatif import WhatIf
    from gfs.workloads import read_trace

    if files.jobs is None or files.nodes is None:
        return Site(Replay(recording))
    known = {name: tables.parameters[name] for name in ("guarantee_hours", "checkpoint_interval") if tables.parameters}
    workload = read_trace(files.jobs, files.nodes, node_events=files.node_events, **known).workload
    offered = msgspec.structs.replace(recording, schedulers=list(SCHEDULERS), quotas=list(QUOTAS))
    return Site(Replay(offered), WhatIf(tables, workload))


def _serve(site: Site, http: str, browse: bool) -> None:
    """Serve until Ctrl-C."""
    from gfs.dashboard.server import PageServer

    host, port = parse_address(http)
    with PageServer(site, host, port) as server:
        say(f"{server.address} shows the run until Ctrl-C")
        if browse:
            webbrowser.open(server.address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _in_folder(folder: Path, given: RunFiles) -> RunFiles:
    """The files of a run by their usual names, where none is given."""
    from gfs.dashboard.files import RunFiles

    found = {
        name: next((folder / file for file in names if (folder / file).is_file()), None)
        for name, names in IN_FOLDER.items()
    }
    log = found.pop("events")
    if log is None:
        raise InputError(f"{folder}: holds no event log; {' or '.join(IN_FOLDER['events'])} is looked for")
    return RunFiles(log, **{name: getattr(given, name) or path for name, path in found.items()})
