"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from gfs.report.columns import (
    CANCELLED,
    COLUMNS,
    LOST,
    Column,
    amount,
    best_rows,
    cell,
    in_one_unit,
    percent,
    short_seconds,
)
from gfs.telemetry.metrics import Metrics
from gfs.telemetry.runs import Floats
from gfs.workloads.inspection import Inspection

STAR = "*"
REQUESTS = (1, 2, 4, 8, 16, 32, 64)
REMARKS: tuple[tuple[str, Column], ...] = (("runs lost to failures", LOST), ("tasks cancelled", CANCELLED))
"""Told below a comparison where there is something to tell: the table itself must fit 80 columns."""


def comparison_table(
    rows: Sequence[tuple[str, Metrics]], title: str | None = None, quotas: Sequence[str] = ()
) -> Table:
    """One row a scheduler; the best value of every column is bold green and starred.

    `quotas` say in words what limited spot tasks in each run.
    """
    table = narrow_table(title)
    captions = [f"{STAR} best of its column"] if len(rows) > 1 else []
    if quotas:
        captions.append(f"spot quota: {_each(rows, quotas)}")
    captions += [
        f"{words}: {_each(rows, [cell(m, column) for _, m in rows])}"
        for words, column in REMARKS
        if any(column.value(m) for _, m in rows)
    ]
    table.caption = "\n".join(captions)
    table.add_column("scheduler", style="bold", no_wrap=True)
    metrics = [m for _, m in rows]
    cells: list[list[Text]] = []
    for column in COLUMNS:
        unit, texts = in_one_unit(metrics, column)
        words = [*column.title.split(), column.subtitle]
        header = "\n".join(w for w in words if w != unit)
        table.add_column(f"{header} \n\\[{unit}] ", justify="right", no_wrap=True, vertical="bottom")
        best = best_rows(metrics, column)
        cells.append([marked(text, i in best) for i, text in enumerate(texts)])
    for i, (name, _) in enumerate(rows):
        table.add_row(Text(name), *(column_cells[i] for column_cells in cells))
    return table


def _each(rows: Sequence[tuple[str, Metrics]], said: Sequence[str]) -> str:
    """What is said of each scheduler, or once if it is the same of all."""
    if len(set(said)) == 1:
        return said[0]
    return ", ".join(f"{name} {text}" for (name, _), text in zip(rows, said, strict=True))


def marked(text: str, best: bool) -> Text:
    """A star or a space in its place, so that the digits of a column stay in line."""
    return Text(f"{text}{STAR}", style="bold green") if best else Text(f"{text} ")


def inspection_tables(inspection: Inspection) -> list[Table]:
    """What `gfs trace inspect` prints: pools, classes, requests, running times by size, organizations."""
    makers = (_pools, _classes, _requests, _running, _organizations)
    return [make(inspection) for make in makers]


def _pools(seen: Inspection) -> Table:
    table = narrow_table("Pools")
    table.add_column("GPU model", style="bold")
    _right(
        table,
        "nodes",
        "GPUs\nper node",
        "cards",
        "HP\ntasks",
        "spot\ntasks",
        "HP\nload",
        "spot\nload",
        "peak\nload",
    )
    peaks = {p.gpu_model: _peak(p.hp + p.spot, p.cards) for p in seen.load}
    for pool in seen.pools:
        sizes = [f"{size}" if len(pool.node_sizes) == 1 else f"{count}x{size}" for size, count in pool.node_sizes]
        table.add_row(
            Text(pool.gpu_model),
            amount(pool.nodes),
            " ".join(sizes) or "–",
            amount(pool.cards),
            amount(pool.hp_tasks),
            amount(pool.spot_tasks),
            percent(pool.hp_load),
            percent(pool.spot_load),
            peaks[pool.gpu_model],
        )
    table.caption = "load: mean share of the cards asked for while tasks are submitted; peak: busiest hour"
    return table


def _classes(seen: Inspection) -> Table:
    table = narrow_table("Classes")
    table.add_column("class", style="bold")
    _right(table, "tasks", "gangs", "GPU-h", "runs\np50", "runs\np90", "runs\np99", "runs\nmean")
    for c in seen.classes:
        times = (c.running.p50, c.running.p90, c.running.p99, c.running.mean)
        lengths = [short_seconds(t) if c.tasks else "–" for t in times]
        gangs = percent(c.gang_share) if c.tasks else "–"
        table.add_row(c.priority.label, amount(c.tasks), gangs, amount(c.gpu_hours), *lengths)
    table.caption = "gangs: tasks of more than one pod; runs: how long tasks run"
    return table


def _requests(seen: Inspection) -> Table:
    table = narrow_table("GPU requests: share of all that ask for at most so many")
    table.add_column("class", style="bold")
    table.add_column("per", style="bold")
    _right(table, "<1", *(f"{n}" for n in REQUESTS))
    for c in seen.classes:
        for level, cdf in (("pod", c.pod_requests), ("task", c.task_requests)):
            shares = [cdf.at(1 - 1e-6), *(cdf.at(n) for n in REQUESTS)]
            table.add_row(c.priority.label, level, *(percent(s) if c.tasks else "–" for s in shares))
    return table


def _running(seen: Inspection) -> Table:
    table = narrow_table("Running time by GPUs of the task")
    table.add_column("class", style="bold")
    table.add_column("GPUs", justify="right")
    _right(table, "tasks", "p50", "p90", "p99", "mean")
    for c in seen.classes:
        for size, d in c.running_by_size:
            times = (short_seconds(t) for t in (d.p50, d.p90, d.p99, d.mean))
            table.add_row(c.priority.label, size, amount(d.tasks), *times)
    return table


def _organizations(seen: Inspection) -> Table:
    table = narrow_table(f"Demand of {seen.organizations} organizations")
    table.add_column("organization", style="bold")
    _right(table, "GPU-h", "mean\nGPUs", "lowest\nhour", "highest\nhour")
    for d in seen.demand:
        row = (d.gpus.mean(), d.gpus.min(), d.gpus.max()) if len(d.gpus) else (0.0, 0.0, 0.0)
        table.add_row(Text(d.organization), amount(d.gpu_hours), *(amount(float(x)) for x in row))
    return table


def _peak(load: Floats, cards: int) -> str:
    return percent(float(load.max()) / cards) if len(load) and cards else "–"


def _right(table: Table, *titles: str) -> None:
    for title in titles:
        table.add_column("\n".join(f" {line}" for line in title.split("\n")), justify="right", vertical="bottom")


def narrow_table(title: str | None) -> Table:
    """Narrow gaps and no frame: a comparison fits a terminal of 80 columns."""
    return Table(
        title=title,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
    )
