"""Options that the forecast commands share: where demand comes from, and how it is forecast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gfs.cli.console import note
from gfs.cli.options import TRACE, file_option, option, parse_names
from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.forecasting.evaluation import Rolled
    from gfs.forecasting.forecast import Estimator
    from gfs.forecasting.history import DemandHistory


DEMAND = "Demand"
FORECAST = "Forecast"
WINDOW = 672
"""Four weeks: L of the paper."""
HORIZON = 4
LONGEST_HORIZON = 8784
"""A year: what is asked for by mistake should not fill the memory."""
SPLIT = "0.7,0.1,0.2"
WAYS = "give demand in one of three ways: --series FILE, or --jobs FILE with --nodes FILE, or --events FILE"
YEARS = (1900, 2200)
"""Calendars of holidays reach no further, and a year outside is a slip."""

Series = Annotated[
    Path | None,
    file_option("--series", "Hourly demand: time,organization,gpu_model,gpus, or one column per series.", DEMAND),
]
TraceJobs = Annotated[Path | None, file_option("--jobs", "Or: jobs of a trace, whose HP demand is taken.", TRACE)]
TraceNodes = Annotated[Path | None, file_option("--nodes", "Nodes of the trace.", TRACE)]
Events = Annotated[
    Path | None, file_option("--events", "Or: event log of a run, as gfs simulate --events writes it.", DEMAND)
]
Hours = Annotated[str | None, option("--hours", "Use only these hours of the demand.", DEMAND, metavar="START:END")]
FirstDay = Annotated[
    str | None, option("--first-day", "The date of hour 0, for demand without dates.", DEMAND, metavar="YYYY-MM-DD")
]
Models = Annotated[
    str | None,
    option(
        "--models", "Forecasters to set side by side; by default all that need no extra.", FORECAST, metavar="A,B,C"
    ),
]
LookBack = Annotated[
    int,
    option(
        "--look-back", "Hours that forecasters with a window of fixed length look back.", FORECAST, metavar="N", min=1
    ),
]
Horizon = Annotated[
    int, option("--horizon", "Hours that are forecast.", FORECAST, metavar="N", min=1, max=LONGEST_HORIZON)
]
Country = Annotated[
    str,
    option(
        "--country", "Whose public holidays count, such as CN, for forecasters that know them.", FORECAST, metavar="CC"
    ),
]
Split = Annotated[
    str,
    option(
        "--split", "Shares of the hours for training, validation and test, in this order.", FORECAST, metavar="A,B,C"
    ),
]


Shares = tuple[float, float, float]


def load_models(names: Sequence[str], window: int, country: str) -> dict[str, Estimator]:
    """The estimators by name, not fitted yet."""
    from gfs.forecasting.history import check_country
    from gfs.forecasting.registry import find_model

    check_country(country)
    return {name: find_model(name).load(window, country=country) for name in names}


def note_idle_options(names: Sequence[str], window: int, country: str, history: DemandHistory) -> None:
    """Remark on options that change nothing, because of the forecasters or of the demand."""
    from gfs.forecasting.registry import find_model

    chosen = [find_model(name) for name in names]
    if window != WINDOW and not any(model.windowed for model in chosen):
        note("--look-back changes nothing: none of these forecasters looks at a window of fixed length")
    if country and not any(model.dated for model in chosen):
        note("--country changes nothing: none of these forecasters knows holidays")
    elif country and history.first_day is None:
        note("--country changes nothing: this demand has no dates; --first-day gives the date of hour 0")


def roll_models(
    estimators: Mapping[str, Estimator], history: DemandHistory, *, horizon: int, split: Shares
) -> Iterator[tuple[str, Rolled]]:
    """Each in turn over the test part, with a bar."""
    from gfs.cli.progress import bars
    from gfs.forecasting.evaluation import origins_of_test, roll

    origins = origins_of_test(history, horizon, split)
    with bars(list(estimators), len(origins), unit="hours") as running:
        for name, estimator in estimators.items():
            progress = partial(running, name)
            yield name, roll(estimator, history, horizon=horizon, split=split, progress=progress)


def parse_models(text: str | None) -> list[str]:
    """The forecasters in a list like 'persistence,weekly-peak', each known and named once."""
    from gfs.forecasting.registry import MODELS, find_model

    if text is None:
        return [name for name, model in MODELS.items() if not model.extra]
    none = "no forecaster to evaluate: name at least one, for example --models persistence"
    return parse_names(text, "forecaster", find_model, none)


def parse_split(text: str) -> Shares:
    """'0.7,0.1,0.2' as three numbers."""
    try:
        train, validation, test = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"split {text!r}: write three shares, for example 0.7,0.1,0.2") from None
    return train, validation, test


def parse_bounds(text: str) -> list[float]:
    """'0.9,0.95' as probabilities, lowest first."""
    example = "write probabilities between 0 and 1, for example 0.9,0.95"
    try:
        bounds = sorted(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"bounds {text!r}: {example}") from None
    if not all(0 < p < 1 for p in bounds):
        raise InputError(f"bounds {text!r}: {example}")
    if len(set(bounds)) < len(bounds):
        raise InputError(f"bounds {text!r}: name each once")
    return bounds


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
