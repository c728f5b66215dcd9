"""The columns of a comparison: what they show, how they are written, which value is best.

Shared by the terminal table and the HTML table, so that both always say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gfs.domain.units import DAY, HOUR
from gfs.telemetry.metrics import Metrics

NOTHING: Final = "–"
"""What stands where there is no value."""


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of a comparison."""

    title: str
    subtitle: str
    value: Callable[[Metrics], float | None]
    """The metric, or None where it has no meaning."""
    text: Callable[[float], str]
    lower_is_better: bool | None
    """None: neither is better, so none is marked."""
    help: str


def short_seconds(seconds: float) -> str:
    """A length of time to three digits: '42 s', '9.6 min', '3.42 h', '2.1 d'."""
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


def _hp(value: Callable[[Metrics], float]) -> Callable[[Metrics], float | None]:
    return lambda m: value(m) if m.hp.tasks else None


def _spot(value: Callable[[Metrics], float]) -> Callable[[Metrics], float | None]:
    return lambda m: value(m) if m.spot.tasks else None


def _evicting(value: Callable[[Metrics], float]) -> Callable[[Metrics], float | None]:
    """A lease is no promise, so a scheduler of leases breaks none: nothing to report."""
    return lambda m: value(m) if m.spot.runs and not m.leases else None


COLUMNS: Final[tuple[Column, ...]] = (
    Column("HP wait", "mean", _hp(lambda m: m.hp.jqt_mean), short_seconds, True, "Queuing time of HP tasks"),
    Column("HP wait", "p99", _hp(lambda m: m.hp.jqt_p99), short_seconds, True, "99% of HP tasks waited less"),
    Column("spot wait", "mean", _spot(lambda m: m.spot.jqt_mean), short_seconds, True, "All waits of a spot task"),
    Column("spot wait", "p99", _spot(lambda m: m.spot.jqt_p99), short_seconds, True, "99% waited less"),
    Column("spot JCT", "mean", _spot(lambda m: m.spot.jct_mean), short_seconds, True, "Submission to finish"),
    Column(
        "evicted",
        "of runs",
        _evicting(lambda m: m.spot.eviction_rate),
        percent,
        True,
        "Evictions / spot runs",
    ),
    Column(
        "wasted",
        "GPU-h",
        _spot(lambda m: m.spot.wasted_gpu_hours),
        amount,
        True,
        "GPU-hours lost to evictions and suspensions: work since the last checkpoint, and restarts",
    ),
    Column(
        "kept",
        "promises",
        _evicting(lambda m: m.spot.guarantee_hit_rate),
        percent,
        False,
        "Spot runs that were not evicted within their guaranteed hours",
    ),
    Column("used", "of cards", lambda m: m.allocation_rate_total, percent, False, "Cards allocated over time"),
)

LOST: Final = Column(
    "lost",
    "runs",
    lambda m: m.hp.lost + m.spot.lost,
    amount,
    None,
    "Runs that ended by no decision of the scheduler, such as by the failure of a node",
)
CANCELLED: Final = Column(
    "cancelled",
    "tasks",
    lambda m: m.hp.cancelled + m.spot.cancelled,
    amount,
    None,
    "Tasks that their owners withdrew before they had finished",
)
WASTED_WITH_LOSSES: Final = (
    "GPU-hours lost to evictions, suspensions and failures: work since the last checkpoint, and restarts"
)


def columns_for(metrics: Sequence[Metrics]) -> tuple[Column, ...]:
    """The columns that have something to show of these runs."""
    more = tuple(column for column in (LOST, CANCELLED) if any(column.value(m) for m in metrics))
    if LOST not in more:
        return COLUMNS + more
    usual = (replace(c, help=WASTED_WITH_LOSSES) if c.title == "wasted" else c for c in COLUMNS)
    return (*usual, *more)


def best_rows(metrics: Sequence[Metrics], column: Column) -> frozenset[int]:
    """Rows that hold the best value of a column; none when all read the same."""
    if column.lower_is_better is None:
        return frozenset()
    values = {i: v for i, m in enumerate(metrics) if (v := column.value(m)) is not None}
    if len({column.text(v) for v in values.values()}) < 2:
        return frozenset()
    best = (min if column.lower_is_better else max)(values.values())
    return frozenset(i for i, v in values.items() if column.text(v) == column.text(best))


def in_one_unit(metrics: Sequence[Metrics], column: Column) -> tuple[str, list[str]]:
    """The values of a column in one unit, for a header that names it: a narrow column of bare numbers."""
    return one_unit([column.value(m) for m in metrics], column.text)


def one_unit(values: Sequence[float | None], text: Callable[[float], str]) -> tuple[str, list[str]]:
    """The same for values that `text` writes one by one."""
    scale, unit = 1.0, "GPU-h"
    if text is percent:
        scale, unit = 0.01, "%"
    elif text is short_seconds:
        smallest = min((v for v in values if v), default=0.0)
        scale, unit = (1.0, "s") if smallest < 120 else (60.0, "min") if smallest < 2 * HOUR else (HOUR, "h")
    return unit, [NOTHING if v is None else _digits(v / scale) for v in values]


def _digits(value: float) -> str:
    """Three digits that count, all digits of a larger number, no more than two after the point."""
    after = 0 if value >= 100 or value == 0 else 1 if value >= 10 else 2
    return f"{value:,.{after}f}"


def cell(metrics: Metrics, column: Column) -> str:
    """The value of a column as text."""
    value = column.value(metrics)
    return NOTHING if value is None else column.text(value)
