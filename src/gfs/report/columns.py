"""The figures of a run as columns: what they are called, their unit, which value is best, what they mean.

`gfs simulate`, `compare`, `sweep show` and `plan` and all pages take them from here. The keys are those of
`Metrics.figures()`. docs/concepts/glossary.md has a line on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gfs.domain.units import DAY, HOUR
from gfs.report.table import COUNT, DOLLARS, GPU_HOURS, NOTHING, PERCENT, SECONDS, Column

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
LOSS: Final = Column(
    "wasted a month", "wasted_worth", DOLLARS, None, "wasted spot GPU-hours at the given prices, a month"
)
NODES: Final = Column("nodes", "nodes", COUNT, None, "nodes of the cluster")
P: Final = Column("p", left=True, help="probability with which a spot task keeps its guaranteed hours", explain=True)
H: Final = Column("H", left=True, help="hours that a spot task is guaranteed once it runs", explain=True)
ETA: Final = Column("eta", left=True, help="bounds of the factor by which feedback scales the quota", explain=True)
SETTING: Final = (P, H, ETA)
"""What names a row of quota settings."""

PLAN_SETTINGS: Final = (EVICTED, SPOT_WAIT, SPOT_WAIT_99, PERIODS_BROKEN, HIT_RATE, WASTED, HP_WAIT, GOODPUT)
PLAN_OTHERS: Final = (EVICTED, SPOT_WAIT, SPOT_WAIT_99, HIT_RATE, WASTED, HP_WAIT, GOODPUT, MONTHLY)
"""Of the recommended setting beside others."""
PLAN_SOLD: Final = (EVICTED, SPOT_WAIT, HIT_RATE, MONTHLY, GUARANTEED, WORTH)
"""Of what is sold."""
PLAN_EVERY: Final = (*PLAN_SETTINGS, ALLOCATION, MONTHLY, GUARANTEED, WORTH, LOSS)


def unmarked(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The same without a best value: for tables where another choice is marked."""
    return tuple(replace(column, best=None) for column in columns)


def columns_for(figures: Sequence[dict[str, Any]]) -> tuple[Column, ...]:
    """The columns that have something to show of these runs."""
    return (*COMPARED, *(column for column in (LOST, CANCELLED) if any(column.value(f) for f in figures)))
