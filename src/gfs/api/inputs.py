"""What the functions of the Python interface are given: traces, schedulers, parameters, windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from gfs.assembly.context import QuotaDefinition
from gfs.assembly.definitions import SchedulerDefinition, WithOwnParts
from gfs.assembly.parameters import Parameters, read_config_file
from gfs.assembly.quotas import as_quota
from gfs.assembly.result import Window
from gfs.assembly.run import with_task_defaults
from gfs.assembly.schedulers import find_scheduler
from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.node import NodeEvent
from gfs.domain.workload import Workload, check_workload
from gfs.forecasting.forecast import Estimator
from gfs.forecasting.perfect import PERFECT
from gfs.forecasting.registry import MODELS, as_estimator
from gfs.workloads import read_trace as _read_trace
from gfs.workloads.readers.node_events import read_node_events
from gfs.workloads.readers.tables import TableSource

Source = Workload | TableSource
"""A workload, or its jobs: the path of a file, an Arrow table, a frame of pandas or Polars."""
Schedulers = str | SchedulerDefinition | Sequence[str | SchedulerDefinition]
"""One, several, or names with commas between."""
NodeEvents = TableSource | Sequence[NodeEvent]
"""The path of a file of node events, a frame of them, or the events themselves."""


def find_schedulers(schedulers: Schedulers) -> list[SchedulerDefinition]:
    """The schedulers, each known and named once."""
    if isinstance(schedulers, str):
        schedulers = [name.strip() for name in schedulers.split(",") if name.strip()]
    elif not isinstance(schedulers, Sequence):
        schedulers = [schedulers]
    if not schedulers:
        raise InputError("no scheduler to compare: name at least one, for example gfs,yarn-cs")
    definitions = [find_scheduler(scheduler) for scheduler in schedulers]
    names = [definition.name for definition in definitions]
    if len(set(names)) != len(names):
        raise InputError(f"a scheduler is named twice in {','.join(names)}: name each once")
    return definitions


def parse_window(window: Window | str | None) -> Window:
    """Turn 'START:END' (seconds, either may be empty) into a pair."""
    if window is None:
        return (None, None)
    if isinstance(window, str):
        start_text, colon, end_text = window.partition(":")
        try:
            start = float(start_text) if start_text.strip() else None
            end = float(end_text) if end_text.strip() else None
        except ValueError:
            colon = ""
        if not colon or start != start or end != end:  # NaN
            raise InputError(f"window {window!r}: write it as START:END in seconds, for example 86400:604800")
        window = (start, end)
    start, end = window
    if start is not None and end is not None and not start < end:
        raise InputError(f"window {start:g}:{end:g}: its end must come after its start")
    return (start, end)


def config_scheduler(config: Path | str | None) -> str:
    """The scheduler that a config file names, as those of `gfs plan` do; gfs if there is none."""
    return (read_config_file(config)[1] if config is not None else "") or "gfs"


class RunInput(NamedTuple):
    """All that a simulation needs besides a scheduler."""

    workload: Workload
    parameters: Parameters
    named: frozenset[str]
    """The parameters that were given."""
    window: Window
    skipped: tuple[BadRow, ...]
    """The values for which rows were left out."""


def read_input(
    jobs: Source,
    nodes: TableSource | None,
    node_events: NodeEvents | None,
    config: Path | str | None,
    settings: Mapping[str, Any],
    window: Window | str | None,
    skip_bad_rows: bool,
) -> RunInput:
    """Check parameters and window, then read or check the trace. By its timestamps, if it has them, `first_day` is set.

    What is made in Python is held to the rules that files are held to.
    """
    parameters, named = Parameters.given(config, settings)
    span = parse_window(window)
    skipped: tuple[BadRow, ...] = ()
    file, events = _file_or_events(node_events)
    if isinstance(jobs, Workload):
        if nodes is not None:
            raise InputError("a workload brings its own nodes: leave out the nodes file")
        workload = with_task_defaults(jobs, parameters)
        if file is not None:
            events, skipped = read_node_events(file, workload.nodes)
            if skipped and not skip_bad_rows:
                raise BadRows(skipped)
    else:
        if nodes is None:
            raise InputError("a jobs file needs a nodes file beside it: simulate(jobs, nodes)")
        defaults = {name: getattr(parameters, name) for name in ("guarantee_hours", "checkpoint_interval")}
        read = _read_trace(jobs, nodes, node_events=file, skip_bad_rows=skip_bad_rows, **defaults)
        workload, skipped = read.workload, read.skipped
        parameters = _dated(parameters, read.first_day)
    if events is not None:
        in_order = sorted(events, key=lambda event: event.time)  # stable: of one instant, as given
        workload = replace(workload, node_events=tuple(in_order))
    if isinstance(jobs, Workload) or events is not None:
        check_workload(workload)
    return RunInput(workload, parameters, named, span, skipped)


def _file_or_events(given: NodeEvents | None) -> tuple[TableSource | None, Sequence[NodeEvent] | None]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return None, given
    return given, None


class OwnParts(NamedTuple):
    """A quota and a forecaster that were given as objects, not by name."""

    quota: QuotaDefinition | None = None
    forecaster: Estimator | None = None

    @classmethod
    def taken_from(cls, settings: Mapping[str, Any]) -> tuple[OwnParts, dict[str, Any]]:
        """The objects, checked, and the settings without them."""
        rest = dict(settings)
        own: dict[str, Any] = {}
        try:
            if not isinstance(rest.get("quota", ""), str):
                own["quota"] = as_quota(rest.pop("quota"))
            if not isinstance(rest.get("forecaster", ""), str):
                own["forecaster"] = forecaster = as_estimator(rest["forecaster"])
                rest["forecaster"] = forecaster.name
                if forecaster.name in {*MODELS, PERFECT}:
                    raise InputError(f"there is a built-in forecaster {forecaster.name!r}: give yours another name")
        except InputError as error:
            raise InputError(f"this part cannot be used: {error}") from error
        return cls(**own), rest

    def given_to(self, definition: SchedulerDefinition) -> SchedulerDefinition:
        """The scheduler with these parts in place of those that it would choose."""
        if self.quota is None and self.forecaster is None:
            return definition
        return find_scheduler(WithOwnParts(definition, self.quota, self.forecaster))

    def check(self, parameters: Parameters) -> None:
        """Parts given as objects are for all pools: raise InputError where pools have something of their own."""
        if parameters.pools and self != OwnParts():
            raise InputError(
                "[pools]: with a quota or a forecaster given as an object all pools are alike; leave them out"
            )


def _dated(parameters: Parameters, day: date | None) -> Parameters:
    """With the day that the timestamps of the trace say; a parameter that says another is an error."""
    if day is None:
        return parameters
    if parameters.first_day not in ("", day.isoformat()):
        raise InputError(
            f"first_day = {parameters.first_day}: the trace has timestamps, by which it is {day}; leave it out"
        )
    return parameters.changed({"first_day": day.isoformat()})
