"""The figures of a run as columns (name, unit, which value is best, meaning), and the tables of runs.

`gfs simulate`, `compare`, `sweep show` and `plan` and all pages take them from here. The keys are those of
`Metrics.figures()`. docs/concepts/glossary.md has a line on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gfs.domain.units import DAY, HOUR
from gfs.report.table import COUNT, DOLLARS, GPU_HOURS, NOTHING, PERCENT, SECONDS, Cell, Column, DataTable, table_of
from gfs.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from gfs.assembly.result import RunResult


__all__ = ["NOTHING", "amount", "money", "percent", "short_seconds"]


def short_seconds(seconds: float) -> str:
    """A length of time in a sentence, to three digits: '42 s', '9.6 min', '3.42 h', '2.1 d'."""
    if seconds < 100:
        return f"{seconds:.3g} s" if seconds >= 0.05 else "0 s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.3g} min"
    if seconds < 2 * DAY:
        return f"{seconds / HOUR:.3g} h"
    return f"{seconds / DAY:,.1f} d"


def percent(share: float) -> str:
    """A share as a percentage: one digit after the point, two when it is small."""
    return f"{share:.2%}" if 0 < share < 0.1 else f"{share:.1%}"


def amount(value: float) -> str:
    """A count or sum: thousands set apart, digits after the point only when it is small."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def money(dollars: float) -> str:
    """Whole dollars."""
    return f"${dollars:,.0f}"


GOODPUT: Final = Column(
    "goodput",
    "goodput_rate",
    PERCENT,
    "highest",
    "share of the pool's GPU time spent on useful work, which is kept",
    explain=True,
)
USEFUL: Final = Column(
    "useful work", "useful_gpu_hours", GPU_HOURS, "highest", "GPU-hours of work that was kept, HP and spot"
)
WASTED: Final = Column(
    "wasted",
    "spot_wasted_gpu_hours",
    GPU_HOURS,
    "lowest",
    "GPU-hours lost to evictions, suspensions and failures, HP and spot: work since the last checkpoint, and restarts",
)
WASTED_SHARE: Final = Column(
    "wasted", "wasted_rate", PERCENT, "lowest", "share of the pool's GPU time whose work is lost, and restarts"
)
ALLOCATION: Final = Column(
    "GPU allocation",
    "allocation_rate",
    PERCENT,
    None,
    "share of the pool's GPU time held by tasks: goodput + wasted",
    explain=True,
)
EVICTED: Final = Column(
    "evicted of runs", "spot_eviction_rate", PERCENT, "lowest", "evictions / spot runs", needs="spot_runs"
)
PERIODS_BROKEN: Final = Column(
    "periods broken",
    "spot_evictions_per_guarantee_period",
    PERCENT,
    "lowest",
    "evictions / (evictions + completed guarantee periods)",
    needs="spot_runs",
)
HIT_RATE: Final = Column(
    "guarantee hit rate",
    "spot_guarantee_hit_rate",
    PERCENT,
    "highest",
    "spot runs not evicted within their guaranteed hours",
    explain=True,
    needs="spot_runs",
)


def _time(header: str, key: str, words: str, *, explain: bool = False) -> Column:
    return Column(header, key, SECONDS, "lowest", words, explain, f"{key.split('_')[0]}_tasks")


HP_WAIT: Final = _time("HP wait mean", "hp_jqt_mean", "job queuing time (JQT) of HP tasks: all waits of a task")
HP_WAIT_99: Final = _time("HP wait p99", "hp_jqt_p99", "99% of HP tasks waited no longer")
SPOT_WAIT: Final = _time("spot wait mean", "spot_jqt_mean", "job queuing time (JQT) of spot tasks: all waits of a task")
SPOT_WAIT_99: Final = _time("spot wait p99", "spot_jqt_p99", "99% of spot tasks waited no longer")
SPOT_JCT: Final = _time("spot JCT mean", "spot_jct_mean", "job completion time, submission to finish", explain=True)
LOST: Final = Column("lost runs", "lost", COUNT, None, "runs that ended by no decision of the scheduler")
CANCELLED: Final = Column("cancelled tasks", "cancelled", COUNT, None, "tasks that their owners withdrew")

COMPARED: Final = (
    *(GOODPUT, USEFUL, WASTED, ALLOCATION, EVICTED, HIT_RATE),
    *(HP_WAIT, HP_WAIT_99, SPOT_WAIT, SPOT_WAIT_99, SPOT_JCT),
)
"""Of schedulers side by side."""
SWEPT: Final = (GOODPUT, WASTED, ALLOCATION, EVICTED, PERIODS_BROKEN, SPOT_WAIT, HP_WAIT)
"""Of the settings of a sweep."""

# What only a plan has: figures of a month at the rate of the trace.
MONTHLY: Final = Column(
    "useful GPU-h a month", "spot_gpu_hours", COUNT, None, "useful spot GPU-hours while tasks were submitted, a month"
)
GUARANTEED: Final = Column(
    "guaranteed GPU-h a month", "guaranteed_gpu_hours", COUNT, None, "GPU-hours of completed guarantee periods, a month"
)
WORTH: Final = Column("worth a month", "worth", DOLLARS, None, "useful spot GPU-hours at the given prices, a month")
NODES: Final = Column("nodes", "nodes", COUNT, None, "nodes of the cluster")
P: Final = Column("p", left=True, help="probability with which a spot task keeps its guaranteed hours", explain=True)

PLAN_OTHERS: Final = (EVICTED, SPOT_WAIT, SPOT_WAIT_99, HIT_RATE, WASTED, HP_WAIT, GOODPUT, MONTHLY)
"""Of the recommendation on other clusters."""
PLAN_SOLD: Final = (EVICTED, SPOT_WAIT, HIT_RATE, MONTHLY, GUARANTEED, WORTH)
"""Of what is sold."""


def unmarked(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The same without a best value: for tables where another choice is marked."""
    return tuple(replace(column, best=None) for column in columns)


def columns_for(figures: Sequence[dict[str, Any]]) -> tuple[Column, ...]:
    """The columns that have something to show of these runs."""
    return (*COMPARED, *(column for column in (LOST, CANCELLED) if any(column.value(f) for f in figures)))


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
    names = [name for name, _ in rows]
    note = f"spot quota: {quota_text(names, quotas)}" if quotas else ""
    more = {"title": title, "note": note, "split": 1 + columns.index(HP_WAIT)}
    return table_of(["scheduler"], ([name] for name in names), columns, figures, **more)


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
