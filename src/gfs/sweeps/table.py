"""The results of a sweep: one table, and for each scenario the settings that no other is better than."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gfs.batch.front import dominates
from gfs.batch.simulation import SimulationJob, Value
from gfs.domain.errors import InputError
from gfs.files import write_atomically
from gfs.report.columns import SWEPT, P, unmarked
from gfs.report.table import COUNT, Column, DataTable, Mark, table_of

GOALS = {"spot_eviction_rate": False, "spot_jqt_mean": False, "goodput_rate": True}
"""What is weighed against each other; True: more is better."""
SCENARIO = ("spot_scale", "node_share", "guarantee", "trace_seed")
"""What varied and is no setting: settings compete within the same scenario only."""
RUNS = Column("runs", "seeds", COUNT, help="runs that differ in their seeds alone; the figures are their means")


class TableRow(NamedTuple):
    """A run as a row of the table."""

    run: SimulationJob
    varied: tuple[tuple[str, Value], ...]
    """What makes it differ from others: columns of the table."""
    figures: Mapping[str, Any]
    error: str | None
    """Why it failed, if it did."""


def results_table(runs: Sequence[TableRow]) -> pa.Table:
    """One row per run, in the order of the sweep: what varied, the metrics, and why it failed if it did."""
    rows: list[dict[str, Any]] = [
        {"run": i, "scheduler": r.run.scheduler, "seed": r.run.seed, **dict(r.varied), **r.figures, "error": r.error}
        for i, r in enumerate(runs)
    ]
    names = list(dict.fromkeys(name for row in rows for name in row if name != "error"))
    metadata = {"varied": ",".join(dict.fromkeys(name for run in runs for name, _ in run.varied))}
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    columns["error"] = pa.array([row["error"] for row in rows], pa.string())
    return pa.table(columns).replace_schema_metadata(metadata)


def _column(values: Sequence[Any]) -> pa.Array:
    """Whole numbers stay whole, a mix with fractions does not; any other mix is text."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2 and kinds:
        return pa.array(values)
    if kinds <= {int, float}:
        return pa.array(values, pa.float64())
    return pa.array([None if value is None else str(value) for value in values])


def write_results(table: pa.Table, path: Path) -> None:
    """As Parquet, whole or not at all."""
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


@dataclass(frozen=True, slots=True)
class SettingMeans:
    """One setting in one scenario: the means over the seeds."""

    settings: dict[str, Any]
    """Everything that varied but for the seed, the scenario included."""
    scenario: dict[str, Any]
    """What the setting has to cope with, and cannot choose."""
    seeds: int
    means: dict[str, float]
    front: bool
    """On the front of its scenario: no other setting is as good in every goal and better in one."""


@dataclass(frozen=True, slots=True)
class SweepResults:
    """The table of a sweep, seeds averaged."""

    varied: list[str]
    groups: list[SettingMeans]
    failed: list[tuple[str, str]]
    """Runs that failed: what they were, and why."""

    @property
    def scenarios(self) -> list[dict[str, Any]]:
        """Each once, in the order of the table."""
        return list({tuple(group.scenario.items()): group.scenario for group in self.groups}.values())


def sweep_table(varied: Sequence[str], groups: Sequence[SettingMeans]) -> DataTable:
    """A row per group, by scenarios, the shortest spot wait first; those on the front are marked."""
    by_wait = sorted(groups, key=lambda group: group.means.get("spot_jqt_mean", 0.0))
    scenarios = list({tuple(group.scenario.items()): group.scenario for group in groups}.values())
    ordered = sorted(by_wait, key=lambda group: scenarios.index(group.scenario))
    breaks = frozenset(i for i, (one, next_) in enumerate(pairwise(ordered), 1) if one.scenario != next_.scenario)
    names = [P if name == P.header else Column(name, left=True) for name in varied] or [Column("settings", left=True)]
    labels = [[str(group.settings[name]) for name in varied] or ["all runs"] for group in ordered]
    figures = [{**group.means, RUNS.key: group.seeds} for group in ordered]
    marks: dict[int, Mark] = {i: "recommended" for i, group in enumerate(ordered) if group.front}
    goals = "no other is better in evictions, spot wait and goodput" + ", in the same scenario" * (len(scenarios) > 1)
    note = f"marked: on the front, {goals}"
    if len(marks) == len(ordered):  # then there is nothing to tell apart
        marks, note = {}, f"all on the front: {goals}"
    return table_of(names, labels, (RUNS, *unmarked(SWEPT)), figures, marks=marks, note=note, breaks=breaks)


def read_results(path: Path) -> SweepResults:
    """Read a table of results; `path` may be the folder of the sweep."""
    file = path / "results.parquet" if path.is_dir() else path
    try:
        table = pq.read_table(file)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{file}: no results of a sweep can be read there: {error}") from error
    metadata = table.schema.metadata or {}
    if b"varied" not in metadata:
        raise InputError(f"{file}: this table was not written by gfs sweep")
    return results_of(table)


def results_of(table: pa.Table) -> SweepResults:
    """What a table of `results_table` holds."""
    varied = [name for name in table.schema.metadata[b"varied"].decode().split(",") if name and name != "seed"]
    rows = table.to_pylist()
    names = [*varied, "seed"]
    failed = [
        (", ".join(f"{name}={row[name]}" for name in names if row.get(name) is not None), row["error"])
        for row in rows
        if row["error"] is not None
    ]
    return SweepResults(varied, _over_seeds([row for row in rows if row["error"] is None], varied), failed)


def _over_seeds(rows: Sequence[dict[str, Any]], varied: Sequence[str]) -> list[SettingMeans]:
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        alike.setdefault(tuple(row.get(name) for name in varied), []).append(row)
    found = []
    for key, group in alike.items():
        settings = dict(zip(varied, key, strict=True))
        scenario = {name: settings[name] for name in varied if name in SCENARIO}
        found.append(SettingMeans(settings, scenario, len(group), _means(group), front=False))
    return [
        replace(mine, front=_unbeaten(mine.means, [other.means for other in found if other.scenario == mine.scenario]))
        for mine in found
    ]


def _means(group: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of all numbers that every run of the group has."""
    found: dict[str, float] = {}
    for name, first in group[0].items():
        values = [row[name] for row in group]
        if isinstance(first, int | float) and not any(value is None or isinstance(value, str) for value in values):
            found[name] = sum(values) / len(values)
    return found


def _unbeaten(mine: Mapping[str, float], others: Sequence[Mapping[str, float]]) -> bool:
    """On the Pareto front. Where nothing is evicted by design (leases) the rate counts as 0."""

    def goals(means: Mapping[str, float]) -> list[float]:
        return [(-1 if more else 1) * means.get(name, 0.0) for name, more in GOALS.items()]

    ours = goals(mine)
    return not any(dominates(goals(other), ours) for other in others)
