"""GFS from Python: everything the command line does, as a few typed functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from gfs.assembly.definitions import SchedulerDefinition
from gfs.assembly.parameters import Parameters, read_config_file
from gfs.assembly.result import RunResult, Window
from gfs.assembly.run import Progress, run_simulation, with_task_defaults
from gfs.assembly.schedulers import find_scheduler, warn_of_idle_settings
from gfs.batch.comparison import BarProgress, run_all
from gfs.batch.front import NOISE, FrontComparison, run_fronts
from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.node import NodeEvent
from gfs.domain.workload import Workload, check_workload
from gfs.workloads import generate
from gfs.workloads import read_trace as _read_trace
from gfs.workloads.readers.node_events import read_node_events

__all__ = [
    "Comparison",
    "FrontComparison",
    "RunResult",
    "compare",
    "compare_fronts",
    "generate",
    "parse_window",
    "read_trace",
    "simulate",
]

Source = Workload | Path | str
"""A workload, or the path of a jobs file."""
Schedulers = str | SchedulerDefinition | Sequence[str | SchedulerDefinition]
"""One, several, or names with commas between."""
NodeEvents = Path | str | Sequence[NodeEvent]
"""The path of a file of node events, or the events themselves."""


def read_trace(
    jobs: Path | str,
    nodes: Path | str,
    *,
    node_events: Path | str | None = None,
    skip_bad_rows: bool = False,
    guarantee_hours: float = 1.0,
    checkpoint_interval: float = 3600.0,
) -> Workload:
    """Read and check a trace (CSV, .csv.gz or Parquet; columns of Alibaba's cluster-trace-v2026-spot-gpu).

    `node_events` is a file of what happens to nodes: time, node, event (fail, repair, cordon or uncordon).

    Bad rows raise `BadRows`, which lists each; with `skip_bad_rows` they are left out. The last two are for
    tasks that do not say their own.
    """
    return _read_trace(
        jobs,
        nodes,
        node_events=node_events,
        skip_bad_rows=skip_bad_rows,
        guarantee_hours=guarantee_hours,
        checkpoint_interval=checkpoint_interval,
    ).workload


def simulate(
    jobs: Source,
    nodes: Path | str | None = None,
    *,
    node_events: NodeEvents | None = None,
    scheduler: str | SchedulerDefinition | None = None,
    config: Path | str | None = None,
    window: Window | str | None = None,
    seed: int = 0,
    check: bool = False,
    record_quota: bool = False,
    record_decisions: bool = False,
    skip_bad_rows: bool = False,
    progress: Progress | None = None,
    **parameters: Any,
) -> RunResult:
    """Simulate a trace under one scheduler; further keywords are parameters, e.g. `quota="fixed"`.

    `jobs` is a workload or the path of a jobs file, then with the path of its `nodes` file. `node_events` (a file
    or a sequence) are failures, repairs and cordons of nodes, in place of those of the workload. `window` limits
    what is counted: (start, end) in seconds or "START:END". `check` verifies all invariants at every decision.
    `scheduler` is one of `gfs.schedulers()`, by name, or a definition of your own, such as a `gfs.Composition`; without
    one it is that of the `config`, or else gfs.
    """
    definition = find_scheduler(scheduler or config_scheduler(config))
    given = read_input(jobs, nodes, node_events, config, parameters, window, skip_bad_rows)
    warn_of_idle_settings([definition], given.workload.nodes, given.parameters, given.named)
    options: dict[str, Any] = {"seed": seed, "check": check, "record_quota": record_quota, "progress": progress}
    options["record_decisions"] = record_decisions
    return run_simulation(given.workload, definition, given.parameters, window=given.window, **options)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Sequence[RunResult]):
    """The results of several schedulers on one workload."""

    results: tuple[RunResult, ...]
    workload: Workload

    def __getitem__(self, which: Any) -> Any:
        """By position, or by the scheduler's name."""
        if isinstance(which, str):
            for result in self.results:
                if result.scheduler == which:
                    return result
            raise KeyError(which)
        return self.results[which]

    def __iter__(self) -> Iterator[RunResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def summary(self) -> dict[str, Any]:
        """What `gfs compare --json` writes (docs/reference/files.md#summary)."""
        return {"runs": [result.summary() for result in self.results]}

    def __repr__(self) -> str:
        return "\n".join([f"<Comparison on {self.workload!r}", *(f"  {result!r}" for result in self.results)]) + ">"

    def _repr_html_(self) -> str:
        return "".join(result._repr_html_() for result in self.results)


def compare(
    jobs: Source,
    nodes: Path | str | None = None,
    *,
    node_events: NodeEvents | None = None,
    schedulers: Schedulers = ("gfs", "yarn-cs", "static"),
    config: Path | str | None = None,
    window: Window | str | None = None,
    seed: int = 0,
    check: bool = False,
    record_quota: bool = False,
    skip_bad_rows: bool = False,
    workers: int = 1,
    progress: BarProgress | None = None,
    **parameters: Any,
) -> Comparison:
    """Simulate one trace under several schedulers; arguments as for `simulate`.

    `schedulers` is one, a sequence of them, or their names with commas between: "gfs,yarn-cs".
    With `workers` above 1 they run in processes of their own, which is worth it from about 100,000 tasks on. A
    definition of your own goes there, too, unless it holds what cannot be pickled, such as an open file or a lock.
    """
    definitions = find_schedulers(schedulers)
    given = read_input(jobs, nodes, node_events, config, parameters, window, skip_bad_rows)
    warn_of_idle_settings(definitions, given.workload.nodes, given.parameters, given.named)
    options: dict[str, Any] = {"seed": seed, "check": check, "record_quota": record_quota, "progress": progress}
    at_once = min(workers, len(definitions))
    results = run_all(given.workload, definitions, given.parameters, workers=at_once, window=given.window, **options)
    return Comparison(tuple(results), given.workload)


def compare_fronts(
    jobs: Source,
    nodes: Path | str | None = None,
    *,
    node_events: NodeEvents | None = None,
    schedulers: Schedulers = ("gfs", "yarn-cs", "static"),
    config: Path | str | None = None,
    window: Window | str | None = None,
    seed: int = 0,
    check: bool = False,
    skip_bad_rows: bool = False,
    workers: int = 1,
    noise: float = NOISE,
    **parameters: Any,
) -> FrontComparison:
    """Simulate one trace under several schedulers with many quotas each; arguments as for `compare`.

    What comes back says which points no other beats (`front`), and how each scheduler stands (`standings`); another
    must be better on both figures by more than `noise`, a share, to count there.
    """
    workload, chosen, named, span, _ = read_input(jobs, nodes, node_events, config, parameters, window, skip_bad_rows)
    options: dict[str, Any] = {"window": span, "seed": seed, "check": check}
    definitions, at_once = find_schedulers(schedulers), lambda runs: workers
    return run_fronts(workload, definitions, chosen, named, noise=noise, workers=at_once, **options)


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
    nodes: Path | str | None,
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
    file = node_events if isinstance(node_events, Path | str) else None
    if isinstance(jobs, Workload):
        if nodes is not None:
            raise InputError("a workload brings its own nodes: leave out the nodes file")
        workload = with_task_defaults(jobs, parameters)
        if file is not None:
            node_events, skipped = read_node_events(file, workload.nodes)
            if skipped and not skip_bad_rows:
                raise BadRows(skipped)
    else:
        if nodes is None:
            raise InputError("a jobs file needs a nodes file beside it: simulate(jobs, nodes)")
        defaults = {name: getattr(parameters, name) for name in ("guarantee_hours", "checkpoint_interval")}
        read = _read_trace(jobs, nodes, node_events=file, skip_bad_rows=skip_bad_rows, **defaults)
        workload, skipped = read.workload, read.skipped
        parameters = _dated(parameters, read.first_day)
    if node_events is not None and not isinstance(node_events, Path | str):
        in_order = sorted(node_events, key=lambda event: event.time)  # stable: of one instant, as given
        workload = replace(workload, node_events=tuple(in_order))
    if isinstance(jobs, Workload) or (node_events is not None and file is None):
        check_workload(workload)
    return RunInput(workload, parameters, named, span, skipped)


def _dated(parameters: Parameters, day: date | None) -> Parameters:
    """With the day that the timestamps of the trace say; a parameter that says another is an error."""
    if day is None:
        return parameters
    if parameters.first_day not in ("", day.isoformat()):
        raise InputError(
            f"first_day = {parameters.first_day}: the trace has timestamps, by which it is {day}; leave it out"
        )
    return parameters.changed({"first_day": day.isoformat()})
