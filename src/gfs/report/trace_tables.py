"""The tables of a trace: what it asks for, and its values that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gfs.domain.errors import BadRow
from gfs.report.table import COUNT, GPU_HOURS, GPUS, PERCENT, SECONDS, Cell, Column, DataTable
from gfs.workloads.inspection import Durations, Inspection

REQUESTS: Final = (1, 2, 4, 8, 16, 32, 64)
MOST_BAD_ROWS: Final = 50
LONGEST_VALUE: Final = 24

TASKS: Final = Column("tasks", unit=COUNT)
WORK: Final = Column("work", unit=GPU_HOURS, help="GPUs x duration, all tasks")
LOAD: Final = "mean share of the GPUs asked for while tasks are submitted, if all started at once"
RUNNING: Final = tuple(
    Column(f"duration {name}", unit=SECONDS, help=f"how long tasks run: {words}")
    for name, words in (
        ("p50", "the median"),
        ("p90", "90% run no longer"),
        ("p99", "99% run no longer"),
        ("mean", "mean"),
    )
)


def inspection_tables(seen: Inspection) -> list[DataTable]:
    """What `gfs trace inspect` shows: pools, classes, requests, durations by size, organizations."""
    return [pools_table(seen), classes_table(seen), requests_table(seen), sizes_table(seen), organizations_table(seen)]


def pools_table(seen: Inspection) -> DataTable:
    """The cluster, and what is asked of it."""
    columns: list[Column | str] = [
        "GPU model",
        Column("nodes", unit=COUNT),
        Column("GPUs per node", help="where nodes differ: nodes x GPUs"),
        Column("GPUs", unit=COUNT),
        Column("HP tasks", unit=COUNT),
        Column("spot tasks", unit=COUNT),
        Column("HP load", unit=PERCENT, help=LOAD),
        Column("spot load", unit=PERCENT, help=LOAD),
        Column("peak load", unit=PERCENT, help="the same for HP and spot together in the hour that asks for most"),
    ]
    rows: list[list[Cell]] = []
    for pool, load in zip(seen.pools, seen.load, strict=True):
        sizes = [f"{size}" if len(pool.node_sizes) == 1 else f"{count}x{size}" for size, count in pool.node_sizes]
        counts = (pool.cards, pool.hp_tasks, pool.spot_tasks)
        peak = float((load.hp + load.spot).max()) / pool.cards if len(load.hp) and pool.cards else None
        loads = (pool.hp_load, pool.spot_load, peak)
        rows.append([pool.gpu_model, pool.nodes, " ".join(sizes) or None, *counts, *loads])
    return DataTable(columns, rows, title="Pools", note=f"load: {LOAD}; peak: busiest hour")


def classes_table(seen: Inspection) -> DataTable:
    """HP and spot tasks."""
    gangs = Column("gangs", unit=PERCENT, help="tasks of more than one pod, which start together", explain=True)
    rows: list[list[Cell]] = []
    for c in seen.classes:
        gang_share = c.gang_share if c.tasks else None
        rows.append([c.priority.label, c.tasks, gang_share, c.gpu_hours, *_times(c.running if c.tasks else None)])
    columns: list[Column | str] = [
        "class",
        TASKS,
        gangs,
        Column("work", unit=GPU_HOURS, help="GPUs x duration"),
        *RUNNING,
    ]
    return DataTable(columns, rows, title="Classes")


def requests_table(seen: Inspection) -> DataTable:
    """How many GPUs pods and tasks ask for."""
    rows: list[list[Cell]] = []
    for c in seen.classes:
        for level, cdf in (("pod", c.pod_requests), ("task", c.task_requests)):
            shares = [cdf.at(1 - 1e-6), *(cdf.at(n) for n in REQUESTS)]
            rows.append([c.priority.label, level, *(share if c.tasks else None for share in shares)])
    columns = [Column(text, unit=PERCENT) for text in ("<1", *(f"{n}" for n in REQUESTS))]
    title = "GPU requests: share of all that ask for at most so many"
    return DataTable(["class", "per", *columns], rows, title=title, names=2)


def sizes_table(seen: Inspection) -> DataTable:
    """How long tasks of each size run."""
    rows = [[c.priority.label, size, d.tasks, *_times(d)] for c in seen.classes for size, d in c.running_by_size]
    return DataTable(["class", "GPUs", TASKS, *RUNNING], rows, title="Duration by GPUs of the task", names=2)


def organizations_table(seen: Inspection) -> DataTable:
    """Demand of the largest organizations."""
    columns: list[Column | str] = [
        "organization",
        WORK,
        *(Column(text, unit=GPUS) for text in ("mean", "lowest hour", "highest hour")),
    ]
    rows: list[list[Cell]] = []
    for d in seen.demand:
        gpus = (d.gpus.mean(), d.gpus.min(), d.gpus.max()) if len(d.gpus) else (0.0, 0.0, 0.0)
        rows.append([d.organization, d.gpu_hours, *map(float, gpus)])
    return DataTable(columns, rows, title=f"Demand of {seen.organizations:,} organizations")


def bad_rows_table(rows: Sequence[BadRow], rest: str = "") -> DataTable:
    """The values of a trace that cannot be used: where, what and why. `rest`: how to see those beyond the first."""
    files = {row.file for row in rows}
    names = {file: Path(file).name for file in files}
    if len(set(names.values())) < len(files):
        names = {file: file for file in files}
    more = len(rows) - MOST_BAD_ROWS
    cells: list[list[Cell]] = []
    for row in rows[:MOST_BAD_ROWS]:
        value = row.value if len(row.value) <= LONGEST_VALUE else f"{row.value[: LONGEST_VALUE - 3]}..."
        cells.append([names[row.file], str(row.row), row.column, repr(value), row.reason])
    columns = [Column(name, left=name != "row") for name in ("file", "row", "column", "value")]
    note = f"... and {more:,} more values{rest}" if more > 0 else ""
    return DataTable([*columns, Column("reason", wrap=True)], cells, note=note)


def _times(d: Durations | None) -> list[Cell]:
    return [None] * len(RUNNING) if d is None else [d.p50, d.p90, d.p99, d.mean]
