"""Simulate a trace under one scheduler or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gfs.api.frames import Frames
from gfs.api.inputs import NodeEvents, OwnParts, Schedulers, Source, config_scheduler, find_schedulers, read_input
from gfs.assembly.definitions import SchedulerDefinition
from gfs.assembly.result import RunResult, Window
from gfs.assembly.run import Progress, run_simulation
from gfs.assembly.schedulers import find_scheduler, warn_of_idle_settings
from gfs.batch.comparison import BarProgress, run_all
from gfs.batch.front import NOISE, FrontComparison, run_fronts
from gfs.domain.errors import InputError
from gfs.domain.text import suggestion
from gfs.domain.workload import Workload
from gfs.telemetry.breakdown import KINDS
from gfs.telemetry.tasks_table import tasks_table
from gfs.workloads import read_trace as _read_trace
from gfs.workloads.readers.tables import TableSource

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def read_trace(
    jobs: TableSource,
    nodes: TableSource,
    *,
    node_events: TableSource | None = None,
    skip_bad_rows: bool = False,
    guarantee_hours: float = 1.0,
    checkpoint_interval: float = 3600.0,
) -> Workload:
    """Read and check a trace (CSV, .csv.gz, Parquet or frames; columns of Alibaba's cluster-trace-v2026-spot-gpu).

    `node_events` is a table of what happens to nodes: time, node, event (fail, repair, cordon or uncordon).

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


class SimulationResult(RunResult, Frames):
    """One scheduler on one workload: numbers, tables and plots."""

    __slots__ = ()

    TABLES = ("tasks", "events", "quota", *KINDS, "evictions")

    @classmethod
    def of(cls, result: RunResult) -> SimulationResult:
        """The same result, with tables and plots."""
        return cls(**{field.name: getattr(result, field.name) for field in fields(result) if field.init})

    def to_arrow(self, table: str = "") -> pa.Table:
        """One of `TABLES`: a row for each task (the main one), event, tick of the quota, group, or pair of
        organizations of which one evicts the other."""
        table = table or "tasks"
        if table not in self.TABLES:
            raise InputError(f"unknown table {table!r}: {suggestion(table, self.TABLES)}")
        if table == "tasks":
            return tasks_table(self.events, self.workload, self.parameters.rules)
        if table == "events":
            return self.events
        if table == "quota":
            if self.quota is None:
                raise InputError("no quota was recorded: simulate with record_quota=True")
            return self.quota
        parts = self.breakdown()
        if table == "evictions":
            return _table([pair._asdict() for pair in parts.evictions])
        return _table([asdict(group) for group in getattr(parts, table)])

    def plot(self, what: str = "allocation") -> Figure:
        """A figure of Plotly: tradeoff, waits, hp-waits, spot-waits, allocation, evictions, quota or nodes."""
        from gfs.report.plots import plot_runs  # Plotly takes a while to load

        return plot_runs([self], self.workload, what)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows) if rows else pa.table({})


def simulate(
    jobs: Source,
    nodes: TableSource | None = None,
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
) -> SimulationResult:
    """Simulate a trace under one scheduler; further keywords are parameters, e.g. `quota="fixed"`.

    `jobs` is a workload or a table of jobs (a path, an Arrow table, a frame of pandas or Polars), then with its
    `nodes`. `node_events` (a table or a sequence) are failures, repairs and cordons of nodes, in place of those of the
    workload. `window` limits what is counted: (start, end) in seconds or "START:END". `check` verifies all invariants
    at every decision.
    `scheduler` is one of `gfs.schedulers()`, by name, or a definition of your own, such as a `gfs.Composition`; without
    one it is that of the `config`, or else gfs.
    `quota` and `forecaster` may be objects, too (docs/guides/write-a-part.md).
    """
    own, settings = OwnParts.taken_from(parameters)
    definition = own.given_to(find_scheduler(scheduler or config_scheduler(config)))
    given = read_input(jobs, nodes, node_events, config, settings, window, skip_bad_rows)
    own.check(given.parameters)
    warn_of_idle_settings([definition], given.workload.nodes, given.parameters, given.named)
    options: dict[str, Any] = {"seed": seed, "check": check, "record_quota": record_quota, "progress": progress}
    options["record_decisions"] = record_decisions
    return SimulationResult.of(
        run_simulation(given.workload, definition, given.parameters, window=given.window, **options)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Sequence[RunResult], Frames):
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

    def to_arrow(self, table: str = "") -> pa.Table:
        """A row for each scheduler with all figures; or one of `SimulationResult.TABLES` of all of them, one below the
        other, with a column `scheduler`."""
        if not table or table == "schedulers":
            return _table([{"scheduler": result.scheduler, **result.metrics.figures()} for result in self.results])
        parts = []
        for result in self.results:
            part = SimulationResult.of(result).to_arrow(table)
            if part.num_columns:
                parts.append(part.add_column(0, "scheduler", pa.array([result.scheduler] * part.num_rows, pa.string())))
        return pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})

    def plot(self, what: str = "tradeoff") -> Figure:
        """A figure of Plotly: tradeoff, waits, hp-waits, spot-waits, allocation, evictions, quota or nodes."""
        from gfs.report.plots import plot_runs  # Plotly takes a while to load

        return plot_runs(self.results, self.workload, what)

    def __repr__(self) -> str:
        return "\n".join([f"<Comparison on {self.workload!r}", *(f"  {result!r}" for result in self.results)]) + ">"

    def _repr_html_(self) -> str:
        """The table that `gfs compare` prints."""
        from gfs.report.columns import comparison_table
        from gfs.report.page import table_html

        rows = [(result.scheduler, result.metrics) for result in self.results]
        return table_html(comparison_table(rows, quotas=[result.quota_in_force for result in self.results]))


def compare(
    jobs: Source,
    nodes: TableSource | None = None,
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
    own, settings = OwnParts.taken_from(parameters)
    definitions = [own.given_to(definition) for definition in find_schedulers(schedulers)]
    given = read_input(jobs, nodes, node_events, config, settings, window, skip_bad_rows)
    own.check(given.parameters)
    warn_of_idle_settings(definitions, given.workload.nodes, given.parameters, given.named)
    options: dict[str, Any] = {"seed": seed, "check": check, "record_quota": record_quota, "progress": progress}
    at_once = min(workers, len(definitions))
    results = run_all(given.workload, definitions, given.parameters, workers=at_once, window=given.window, **options)
    return Comparison(tuple(SimulationResult.of(result) for result in results), given.workload)


def compare_fronts(
    jobs: Source,
    nodes: TableSource | None = None,
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
