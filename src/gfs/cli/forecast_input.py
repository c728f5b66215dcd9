"""From the options of a forecast to a demand history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from gfs.cli.console import note
from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.forecasting.history import DemandHistory

WAYS = "give demand in one of three ways: --series FILE, or --jobs FILE with --nodes FILE, or --events FILE"
YEARS = (1900, 2200)
"""Calendars of holidays reach no further, and a year outside is a slip."""


@dataclass(frozen=True, slots=True)
class DemandOptions:
    """Where demand comes from, as the options say it."""

    series: Path | None = None
    jobs: Path | None = None
    nodes: Path | None = None
    events: Path | None = None
    hours: str | None = None
    first_day: str | None = None
    skip_bad_rows: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """What is read, the file that gives it its name first."""
        return tuple(path for path in (self.series, self.jobs, self.nodes, self.events) if path is not None)

    @property
    def name(self) -> str:
        """What it is called in results."""
        return self.files[0].name

    def read(self) -> DemandHistory:
        """The history, cut to the hours asked for."""
        start, end = parse_hours(self.hours)
        first_day = parse_day(self.first_day)
        history = self._dated(self._history(), first_day)
        low = history.start if start is None else start
        high = history.end if end is None else end
        cut = history.until(high).since(low)
        if not cut.hours:
            raise InputError(
                f"hours {self.hours}: no demand is known then; it is from {history.start} to {history.end}"
            )
        return cut

    def _history(self) -> DemandHistory:
        from gfs.cli.trace_input import read_dated, rows_text
        from gfs.forecasting.sources import EVENT_COLUMNS, history_of_events, history_of_workload
        from gfs.workloads.readers.demand import read_demand
        from gfs.workloads.readers.event_log import read_events

        match (self.series, self.jobs, self.nodes, self.events):
            case (Path() as series, None, None, None):
                read = read_demand(series, skip_bad_rows=self.skip_bad_rows)
                if read.skipped:
                    left_out = f"left out {rows_text(read.skipped)} that cannot be used"
                    note(f"{left_out}; without --skip-bad-rows they are listed")
                return read.history
            case (None, Path() as jobs, Path() as nodes, None):
                return history_of_workload(read_dated(jobs, nodes, self.skip_bad_rows)[0])
            case (None, None, None, Path() as events):
                if self.skip_bad_rows:
                    note("--skip-bad-rows changes nothing: an event log must be whole")
                return history_of_events(read_events(events, EVENT_COLUMNS))
        raise InputError(WAYS)

    def _dated(self, history: DemandHistory, first_day: date | None) -> DemandHistory:
        given = history.first_day or first_day
        if given is not None and not YEARS[0] <= given.year <= YEARS[1]:
            raise InputError(
                f"{self.name}: the first day would be {given}; only years from {YEARS[0]} to {YEARS[1]} are known"
            )
        if first_day is None:
            return history
        if history.first_day is not None:
            raise InputError(
                f"first day {first_day}: {self.name} has dates already, from {history.first_day} on;"
                " leave --first-day out"
            )
        return replace(history, first_day=first_day)


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


def parse_day(text: str | None) -> date | None:
    """'2024-04-01' as a date."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"first day {text!r}: write a date as YYYY-MM-DD, for example 2024-04-01") from None


def rolled_text(name: str, history: DemandHistory, origins: range, horizon: int) -> str:
    """What was rolled over, in two lines."""
    forecasts = f"{len(origins):,} forecasts of {horizon} h, from hour {origins.start} on"
    return f"{name}: {history_text(history)}\n{forecasts}"


def history_text(history: DemandHistory) -> str:
    """What a history holds, in a line."""
    count = len(history.keys)
    return f"{count:,} series, {history.hours:,} hours ({history.start} to {history.end})"
