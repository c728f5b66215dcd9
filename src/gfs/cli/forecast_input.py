"""From the options of a forecast to a demand history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gfs.cli.console import note
from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.forecasting.history import DemandHistory


def read_history(
    series: Path | None, jobs: Path | None, nodes: Path | None, *, hours: str | None, skip_bad_rows: bool
) -> DemandHistory:
    """Demand of a file or of a trace, cut to the hours asked for."""
    if (series is None) == (jobs is None) or (jobs is None) != (nodes is None):
        raise InputError("give demand in one of two ways: --series FILE, or --jobs FILE with --nodes FILE")
    start, end = parse_hours(hours)
    history = _of_file(series, skip_bad_rows) if series is not None else _of_trace(jobs, nodes, skip_bad_rows)
    low = history.start if start is None else start
    high = history.end if end is None else end
    cut = history.until(high).since(low)
    if not cut.hours:
        raise InputError(f"hours {hours}: no demand is known then; it is from {history.start} to {history.end}")
    return cut


def parse_hours(text: str | None) -> tuple[int | None, int | None]:
    """'24:4416' as two numbers of hours; either side may be empty."""
    if text is None:
        return None, None
    start, colon, end = text.partition(":")
    try:
        low, high = (int(side) if side.strip() else None for side in (start, end))
    except ValueError:
        colon = ""
    if not colon or (low is not None and high is not None and low >= high):
        raise InputError(f"hours {text!r}: write START:END in whole hours, START before END; either may be empty")
    return low, high


def history_text(history: DemandHistory) -> str:
    """What a history holds, in a line."""
    count = len(history.keys)
    return f"{count:,} series, {history.hours:,} hours ({history.start} to {history.end})"


def _of_file(path: Path, skip_bad_rows: bool) -> DemandHistory:
    from gfs.assembly.demand import read_demand
    from gfs.cli.trace_input import rows_text

    read = read_demand(path, skip_bad_rows=skip_bad_rows)
    if read.skipped:
        note(f"left out {rows_text(read.skipped)} that cannot be used; without --skip-bad-rows they are listed")
    return read.history


def _of_trace(jobs: Path | None, nodes: Path | None, skip_bad_rows: bool) -> DemandHistory:
    from gfs.cli.trace_input import read_workload
    from gfs.forecasting.sources import history_of_workload

    assert jobs is not None
    assert nodes is not None
    return history_of_workload(read_workload(jobs, nodes, skip_bad_rows=skip_bad_rows))
