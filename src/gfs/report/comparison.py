"""The page that sets schedulers side by side on one workload."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gfs.domain.workload import Workload
from gfs.report.charts import (
    allocation_chart,
    eviction_chart,
    heat_chart,
    quota_chart,
    tradeoff_chart,
    wait_bars,
    wait_chart,
)
from gfs.report.columns import amount, best_rows, cell, columns_for, percent, short_seconds
from gfs.report.page import Block, DataTable, Details, Figure, Section, Words, build_page, write_page
from gfs.report.palette import scheduler_colours
from gfs.report.series import Prepared, Result, TimeAxis
from gfs.telemetry.metrics import Metrics, monthly_benefit
from gfs.telemetry.runs import TaskColumns

BASELINE = "static"
OURS = "gfs"


def comparison_page(results: Sequence[Result], workload: Workload, out: Path) -> None:
    """Write the report of a comparison as one self-contained HTML file.

    The headline tells what changed from `static` (or else the first scheduler) to `gfs` (or else the last).
    Raises InputError when the file cannot be written.
    """
    before, after = _pair(results)
    tasks = TaskColumns.of(workload)
    prepared = [Prepared.of(r, workload, tasks) for r in results]
    colours = scheduler_colours([r.scheduler for r in results])
    sections = [
        Section("What changed", _headline(before, after, workload)),
        Section("Side by side", [_table(results)]),
    ]
    if results and after is not None:
        mine = next(p for p, r in zip(prepared, results, strict=True) if r is after)
        axis = TimeAxis.over(after.metrics.span)
        coarse = TimeAxis.over(after.metrics.span, most=168)
        sections += [
            Section(
                "Waiting against eviction",
                [tradeoff_chart(prepared, colours), wait_bars(prepared)],
            ),
            Section(
                "How long tasks waited",
                [wait_chart(prepared, colours, spot=spot) for spot in (False, True)],
            ),
            Section("Cards in use over time", [allocation_chart(prepared, workload)]),
            Section("When spot runs are evicted", [eviction_chart(prepared, colours)]),
        ]
        if after.quota is not None and after.quota.num_rows:
            sections.append(Section("Spot quota", [quota_chart(after.scheduler, after.quota, axis)]))
        sections.append(Section("Node by node", [heat_chart(mine, after.events, workload, coarse)]))
        sections.append(Section("Parameters", [_parameters(r) for r in results]))
    write_page(build_page(f"GFS comparison: {workload.name}", _subtitle(results, workload), sections), out)


def _pair(results: Sequence[Result]) -> tuple[Result | None, Result | None]:
    """The two runs the headline speaks of; the first is None when there is only one."""
    if not results:
        return None, None
    by_name = {r.scheduler: r for r in results}
    after = by_name.get(OURS, results[-1])
    before = by_name.get(BASELINE, results[0])
    if before is after:
        before = next((r for r in results if r is not after), after)
    return (None if before is after else before), after


def _subtitle(results: Sequence[Result], workload: Workload) -> str:
    hp = sum(not t.is_spot for t in workload.tasks)
    pools = ", ".join(f"{n:,} {m}" for m, n in workload.capacity().items()) or "no"
    names = ", ".join(r.scheduler for r in results) or "no scheduler"
    return (
        f"{hp:,} high-priority (HP) and {len(workload.tasks) - hp:,} spot tasks "
        f"on {len(workload.nodes):,} nodes with {pools} cards. Schedulers: {names}."
    )


def _headline(before: Result | None, after: Result | None, workload: Workload) -> list[Block]:
    if after is None:
        return [Words("Nothing was run.", lead=True)]
    if before is None:
        return [Words(_alone(after), lead=True)]
    old, new = before.metrics, after.metrics
    blocks: list[Block] = [
        Words(_story(before.scheduler, old, after.scheduler, new), lead=True),
        (
            _change("Spot wait, mean", old.spot.jqt_mean, new.spot.jqt_mean, short_seconds),
            *(
                ()
                if old.leases or new.leases
                else (_change("Spot runs evicted", old.spot.eviction_rate, new.spot.eviction_rate, percent),)
            ),
            _change("GPU-hours wasted", old.spot.wasted_gpu_hours, new.spot.wasted_gpu_hours, amount),
            _change("Cards in use", old.allocation_rate_total, new.allocation_rate_total, percent, more=True),
        ),
    ]
    gain = monthly_benefit(old, new, workload.capacity())["total"]
    if abs(gain) >= 1:
        verb = "is worth" if gain > 0 else "costs"
        blocks.append(
            Words(
                f"At assumed prices the change in cards in use {verb} about ${abs(gain):,.0f} a month "
                "(allocation rate gained x cards x price x 730 h). The prices are an assumption, not a quote."
            )
        )
    return blocks


def _story(first: str, old: Metrics, second: str, new: Metrics) -> str:
    parts = []
    if new.spot.tasks:
        spot = f"spot tasks waited {short_seconds(new.spot.jqt_mean)} on average"
        parts.append(spot + _instead(old.spot.jqt_mean, new.spot.jqt_mean, short_seconds))
        if not (old.leases or new.leases):
            evicted = f"{percent(new.spot.eviction_rate)} of their runs were evicted"
            parts.append(evicted + _instead(old.spot.eviction_rate, new.spot.eviction_rate, percent))
            wasted = f"{_costs(old, new)} cost {amount(new.spot.wasted_gpu_hours)} GPU-hours"
            parts.append(wasted + _instead(old.spot.wasted_gpu_hours, new.spot.wasted_gpu_hours, amount))
    if new.hp.tasks:
        hp = f"HP tasks waited {short_seconds(new.hp.jqt_mean)}"
        parts.append(hp + _instead(old.hp.jqt_mean, new.hp.jqt_mean, short_seconds))
    lost_before, lost = (m.hp.lost + m.spot.lost for m in (old, new))
    if lost_before or lost:
        parts.append(f"{amount(lost)} runs were lost to failures" + _instead(lost_before, lost, amount))
    cards = f"{percent(new.allocation_rate_total)} of the cards were in use"
    parts.append(cards + _instead(old.allocation_rate_total, new.allocation_rate_total, percent))
    text = "; ".join(parts)
    return f"With {second} in place of {first}: {text}."


def _costs(*metrics: Metrics) -> str:
    """What wasted GPU-hours."""
    return "evictions and failures" if any(m.hp.lost or m.spot.lost for m in metrics) else "evictions"


def _instead(old: float, new: float, text: Callable[[float], str]) -> str:
    return ", as before" if text(old) == text(new) else f" instead of {text(old)}"


def _alone(result: Result) -> str:
    m = result.metrics
    words = [f"{percent(m.allocation_rate_total)} of the cards were in use."]
    if m.hp.tasks:
        words.append(f"HP tasks waited {short_seconds(m.hp.jqt_mean)} on average.")
    if m.spot.tasks:
        stopped = f"{percent(m.spot.eviction_rate)} of their runs were evicted"
        if m.leases:
            stopped = f"{m.spot.suspensions:,} leases were not renewed"
        words.append(
            f"Spot tasks waited {short_seconds(m.spot.jqt_mean)}; {stopped}, "
            f"at a cost of {amount(m.spot.wasted_gpu_hours)} GPU-hours."
        )
    if lost := m.hp.lost + m.spot.lost:
        words.append(f"{amount(lost)} runs were lost to failures.")
    return f"With {result.scheduler}: {' '.join(words)}"


def _change(label: str, old: float, new: float, text: Callable[[float], str], *, more: bool = False) -> Figure:
    """A number, what it was, and whether the change is for the better (`more`: higher is better)."""
    if text(old) == text(new):
        return Figure(label, text(new), "as before")
    if text is percent:
        by = f"{100 * (new - old):+.1f} points"
    else:
        by = f"{(new - old) / old:+.0%}" if old else "from nothing"
    return Figure(label, text(new), f"was {text(old)} ({by})".replace("-", "−"), (new > old) == more)


def _table(results: Sequence[Result]) -> DataTable:
    metrics = [r.metrics for r in results]
    columns = columns_for(metrics)
    best = {(i, j) for j, c in enumerate(columns, 1) for i in best_rows(metrics, c)}
    return DataTable(
        header=["scheduler", *(f"{c.title}, {c.subtitle}" for c in columns)],
        rows=[[r.scheduler, *(cell(r.metrics, c) for c in columns)] for r in results],
        best=frozenset(best),
        hints=["", *(c.help for c in columns)],
        note="★ best of its column. Wait: all queuing of a task. JCT: submission to finish. "
        "Kept promises: spot runs not evicted within their guaranteed hours.",
    )


def _parameters(result: Result) -> Details:
    given = result.parameters
    if hasattr(given, "to_dict"):
        given = given.to_dict()
    text = json.dumps(dict(given) if isinstance(given, Mapping) else given, indent=2, default=str, sort_keys=True)
    return Details(result.scheduler, text)
