"""From the options of a run to a checked workload and its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from gfs.cli.console import note
from gfs.domain.errors import BadRow, InputError

if TYPE_CHECKING:
    from gfs.api import RunInput
    from gfs.assembly.parameters import Parameters
    from gfs.assembly.result import Window
    from gfs.batch.simulation import TraceFiles
    from gfs.domain.workload import Workload


def read_run_input(
    jobs: Path,
    nodes: Path,
    node_events: Path | None,
    skip_bad_rows: bool,
    config: Path | None,
    settings: Sequence[str] | None,
    window: str | None,
) -> RunInput:
    """Check the options, then read and check the trace; remark on what was left out and on what changes nothing."""
    from gfs.api import read_input
    from gfs.assembly.parameters import parse_settings
    from gfs.workloads.plausibility import check_run_length

    given = read_input(jobs, nodes, node_events, config, parse_settings(settings or ()), window, skip_bad_rows)
    _note_skipped(given.skipped)
    check_run_length(given.workload, given.parameters.tick)
    _require_tasks_inside(given.workload, given.window, window)
    _note_idle_defaults(given.workload, given.parameters)
    return given


def read_dated(jobs: Path, nodes: Path, skip_bad_rows: bool) -> tuple[Workload, date | None]:
    """The trace, and the day that its second 0 begins if it has timestamps; remarks on rows that were left out."""
    from gfs.workloads import read_trace

    read = read_trace(jobs, nodes, skip_bad_rows=skip_bad_rows)
    _note_skipped(read.skipped)
    return read.workload, read.first_day


def _note_skipped(rows: Sequence[BadRow]) -> None:
    if rows:
        note(f"left out {rows_text(rows)} that cannot be used; `gfs trace check` lists them")


def own_trace(jobs: Path | None, nodes: Path | None) -> TraceFiles | None:
    """A trace of the user's own for many runs, if there is one. Errors in it show now, not in their midst."""
    from gfs.assembly.parameters import Parameters
    from gfs.batch.simulation import TraceFiles
    from gfs.workloads.plausibility import check_run_length

    if jobs is None and nodes is None:
        return None
    if jobs is None or nodes is None:
        raise InputError("a trace of your own takes both --jobs and --nodes")
    check_run_length(read_dated(jobs, nodes, skip_bad_rows=False)[0], Parameters().tick)
    return TraceFiles.of(jobs, nodes)


def rows_text(bad: Sequence[BadRow]) -> str:
    """'1 row' or '7 rows': rows, not values, because one row may hold several bad values."""
    rows = len({(row.file, row.row) for row in bad})
    return f"{rows:,} row{'s' if rows > 1 else ''}"


def workload_text(workload: Workload) -> str:
    """What a workload holds, in a line."""

    spot = sum(task.is_spot for task in workload.tasks)
    pools = ", ".join(f"{gpus:,} {model}" for model, gpus in workload.capacity().items())
    hp = len(workload.tasks) - spot
    nodes = f"{len(workload.nodes):,} node{'s' * (len(workload.nodes) != 1)}"
    text = f"{hp:,} HP and {spot:,} spot tasks on {nodes} ({pools} GPUs)"
    cancelled = sum(time != inf for time in workload.cancel_times)
    failures = sum(event.event == "fail" for event in workload.node_events)
    text += f", {cancelled:,} with a cancel time" if cancelled else ""
    return text + (f", {failures:,} node failures" if failures else "")


def _require_tasks_inside(workload: Workload, window: Window, text: str | None) -> None:
    """A window without tasks would give a table of zeros: say so instead."""
    low = float("-inf") if window[0] is None else window[0]
    high = float("inf") if window[1] is None else window[1]
    tasks = workload.tasks
    if not any(low <= task.submit_time <= high for task in tasks):
        raise InputError(
            f"window {text}: no task is submitted inside it; this trace runs"
            f" from {tasks[0].submit_time:g} to {tasks[-1].submit_time:g} seconds"
        )


def _note_idle_defaults(workload: Workload, parameters: Parameters) -> None:
    """Some parameters are only for tasks that do not say their own: remark if all of them do."""
    usual = type(parameters)()
    for name in ("guarantee_hours", "checkpoint_interval"):
        value = getattr(parameters, name)
        if value != getattr(usual, name) and all(getattr(task, name) != value for task in workload.tasks):
            note(f"{name} = {value:g} changes nothing: every task of this trace has its own in column {name}")
