"""The tables of simulated runs, for the terminal and for pages alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gfs.report.columns import (
    ALLOCATION,
    CANCELLED,
    EVICTED,
    GOODPUT,
    HIT_RATE,
    HP_WAIT,
    LOST,
    USEFUL,
    WASTED,
    WASTED_SHARE,
    amount,
    columns_for,
    unmarked,
)
from gfs.report.table import COUNT, PERCENT, SECONDS, Cell, Column, DataTable, table_of
from gfs.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from gfs.assembly.result import RunResult

GPU_COUNT = Column("GPUs", unit=COUNT, help="GPUs of the pool")
QUOTA_USE = Column("quota in use", unit=PERCENT, help="spot GPUs in use / quota, mean over time")
WASTED_OF_BOTH = replace(WASTED, header="wasted, HP and spot")
LOST_WORK = "GPU-hours lost with them"


def comparison_table(rows: Sequence[tuple[str, Metrics]], title: str = "", quotas: Sequence[str] = ()) -> DataTable:
    """One row per scheduler; the best value of every column is marked.

    `quotas` say in words what limited spot tasks in each run.
    """
    figures = [metrics.figures() for _, metrics in rows]
    columns = columns_for(figures)
    table = table_of(["scheduler"], ([name] for name, _ in rows), columns, figures)
    note = f"spot quota: {quota_text([name for name, _ in rows], quotas)}" if quotas else ""
    return DataTable(table.columns, table.rows, title=title, note=note, split=1 + columns.index(HP_WAIT))


def quota_text(names: Sequence[str], quotas: Sequence[str]) -> str:
    """What limited spot tasks under each scheduler, or once if it was the same under all."""
    if len(set(quotas)) == 1:
        return quotas[0]
    return ", ".join(f"{name} {quota}" for name, quota in zip(names, quotas, strict=True))


def result_table(result: RunResult) -> DataTable:
    """One run: a row per figure, both classes side by side."""
    metrics = result.metrics
    figures, hp, spot = metrics.figures(), metrics.hp, metrics.spot
    rows: list[list[Cell]] = [["tasks counted", amount(hp.tasks), amount(spot.tasks)]]
    breaks = set()

    def times(label: str, key: str) -> None:
        values = [SECONDS.write(getattr(c, key)) if c.tasks else None for c in (hp, spot)]
        rows.append([f"{label} [s]", *values])

    def of_spot(column: Column, value: Cell = None) -> None:
        rows.append([column.heading, None, column.text(column.value(figures) if value is None else value)])

    times("wait (JQT), mean", "jqt_mean")
    times("wait (JQT), median", "jqt_p50")
    times("wait (JQT), p99", "jqt_p99")
    times("completion (JCT), mean", "jct_mean")
    times("completion (JCT), p99", "jct_p99")
    rows.append(["slowdown, mean", *(f"{c.slowdown_mean:.2f}" if c.tasks else None for c in (hp, spot))])
    if spot.runs:
        breaks.add(len(rows))
        rows.append(["runs", None, amount(spot.runs)])
        if metrics.leases:
            rows.append(["suspended at lease ends", amount(hp.suspensions), amount(spot.suspensions)])
        else:
            rows.append(["evictions", "never", amount(spot.evictions)])
            of_spot(EVICTED)
            of_spot(HIT_RATE)
        of_spot(WASTED_OF_BOTH)
        if metrics.quota_use is not None:
            of_spot(QUOTA_USE, metrics.quota_use)
    if hp.lost or spot.lost or hp.cancelled or spot.cancelled:
        breaks.add(len(rows))
    if hp.lost or spot.lost:
        rows.append([LOST.heading, amount(hp.lost), amount(spot.lost)])
        rows.append([LOST_WORK, amount(hp.lost_gpu_hours), amount(spot.lost_gpu_hours)])
    if hp.cancelled or spot.cancelled:
        rows.append([CANCELLED.heading, amount(hp.cancelled), amount(spot.cancelled)])
    explained = "JQT: job queuing time, all waits of a task; JCT: job completion time, submission to finish"
    return DataTable(
        ["", "HP", "spot"],
        rows,
        title=f"{result.scheduler} on {result.workload.name}",
        note=f"spot quota: {result.quota_in_force}\n{explained}\np99: 99% of the tasks are at or below it",
        breaks=frozenset(breaks),
    )


def pools_table(metrics: Metrics, capacity: dict[str, int]) -> DataTable:
    """How well each pool was used: allocation, and how much of it was useful."""
    rows: list[list[Any]] = [
        [model, gpus, metrics.goodput_rate[model], metrics.wasted_rate[model], metrics.allocation_rate[model]]
        for model, gpus in capacity.items()
    ]
    total = (metrics.goodput_rate_total, metrics.wasted_rate_total, metrics.allocation_rate_total)
    if len(rows) > 1:
        rows.append(["all", sum(capacity.values()), *total])
    useful = USEFUL.text(metrics.useful_gpu_hours)
    columns: list[Column | str] = ["GPU model", GPU_COUNT, *unmarked((GOODPUT, WASTED_SHARE, ALLOCATION))]
    return DataTable(columns, rows, title="Use of the GPUs", note=f"useful work: {useful} GPU-hours")
