"""The page that sets schedulers side by side on one workload."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import isclose
from operator import getitem
from pathlib import Path
from typing import Any

from gfs.assembly.result import RunResult
from gfs.domain.units import HOUR
from gfs.domain.workload import Workload
from gfs.report import charts
from gfs.report.breakdown import whose_jobs
from gfs.report.columns import amount, comparison_table, money, percent, quota_text, short_seconds
from gfs.report.figures import colours_of
from gfs.report.hours import Clock
from gfs.report.page import Block, Details, PageSection, Paragraph, Tile, write_page
from gfs.report.series import Prepared
from gfs.telemetry.breakdown import Breakdown
from gfs.telemetry.metrics import Metrics
from gfs.telemetry.prices import monthly_benefit, prices_text
from gfs.telemetry.runs import TaskColumns

BASELINE = "static"
OURS = ("gfs-plus", "gfs")


def comparison_page(
    results: Sequence[RunResult], workload: Workload, out: Path, prices: Mapping[str, float] | None = None
) -> None:
    """Write the report of a comparison as one self-contained HTML file.

    The headline tells what changed from `static` (else the first scheduler) to `gfs-plus` or `gfs` (else the last).
    Money is counted at `prices`, dollars per GPU-hour by GPU model, or at the assumed ones.
    Raises InputError when the file cannot be written.
    """
    before, after = _pair(results)
    tasks = TaskColumns.of(workload)
    prepared = [Prepared.of(r, workload, tasks) for r in results]
    colours = colours_of([r.scheduler for r in results])
    rows = [(r.scheduler, r.metrics) for r in results]
    sections = [
        PageSection("What changed", _headline(before, after, workload, prices)),
        PageSection("Side by side", [comparison_table(rows, quotas=[r.quota_in_force for r in results])]),
    ]
    if results and after is not None:
        mine = next(p for p, r in zip(prepared, results, strict=True) if r is after)
        sections += [
            PageSection(
                "Waiting against eviction", [charts.tradeoff_chart(prepared, colours), charts.wait_bars(prepared)]
            ),
            PageSection(
                "How long tasks waited", [charts.wait_chart(prepared, colours, spot=spot) for spot in (False, True)]
            ),
            PageSection("Whose jobs", whose_jobs([_named(r) for r in results], _named(after))),
            PageSection("GPU allocation over time", [charts.allocation_chart(prepared, workload)]),
            PageSection("When spot runs are evicted", [charts.eviction_chart(prepared, colours)]),
        ]
        if after.quota is not None and after.quota.num_rows:
            sections.append(PageSection("Spot quota", [charts.quota_chart(after.scheduler, after.quota, mine.axis())]))
        sections.append(
            PageSection("Node by node", [charts.heat_chart(mine, after.events, workload, mine.axis(most=168))])
        )
        sections.append(PageSection("Parameters", [_parameters(r) for r in results]))
    write_page(out, f"GFS comparison: {workload.name}", _subtitle(results, workload), sections)


def _named(result: RunResult) -> tuple[str, Breakdown]:
    return result.scheduler, result.breakdown()


def _pair(results: Sequence[RunResult]) -> tuple[RunResult | None, RunResult | None]:
    """The two runs the headline speaks of; the first is None when there is only one."""
    if not results:
        return None, None
    by_name = {r.scheduler: r for r in results}
    after = next((by_name[name] for name in OURS if name in by_name), results[-1])
    before = by_name.get(BASELINE, results[0])
    if before is after:
        before = next((r for r in results if r is not after), after)
    return (None if before is after else before), after


def _subtitle(results: Sequence[RunResult], workload: Workload) -> str:
    hp = sum(not t.is_spot for t in workload.tasks)
    pools = ", ".join(f"{n:,} {m}" for m, n in workload.capacity().items()) or "no"
    names = [r.scheduler for r in results]
    words = [
        f"{hp:,} high-priority (HP) and {len(workload.tasks) - hp:,} spot tasks "
        f"on {len(workload.nodes):,} nodes with {pools} GPUs.",
        f"Schedulers: {', '.join(names) or 'none'}.",
    ]
    if results:
        words.append(f"Spot quota in force: {quota_text(names, [r.quota_in_force for r in results])}.")
        if (day := results[0].parameters.day) is not None:
            first, last = (Clock(day).words(int(second // HOUR)) for second in results[0].metrics.span)
            words.append(f"Time 0 is {day} 00:00; measured from {first} to {last}.")
    return " ".join(words)


def _headline(
    before: RunResult | None, after: RunResult | None, workload: Workload, prices: Mapping[str, float] | None
) -> list[Block]:
    if after is None:
        return [Paragraph("Nothing was run.", lead=True)]
    if before is None:
        return [Paragraph(_alone(after), lead=True), _use_tiles(None, after.metrics)]
    old, new = before.metrics, after.metrics
    tiles = [*_use_tiles(old, new)]
    if not (old.leases or new.leases):
        tiles.append(_change("Spot runs evicted", old.spot.eviction_rate, new.spot.eviction_rate, percent))
    tiles.append(_change("Spot wait, mean", old.spot.jqt_mean, new.spot.jqt_mean, short_seconds))
    return [
        Paragraph(what_changed(before.scheduler, old.to_dict(), after.scheduler, new.to_dict()), lead=True),
        tuple(tiles),
        Paragraph(_worth(old, new, workload, prices)),
    ]


def _use_tiles(old: Metrics | None, new: Metrics) -> tuple[Tile, ...]:
    """Goodput first; allocation beside it says how much of it was useful, and is neither good nor bad by itself."""
    split = f"{percent(new.goodput_rate_total)} useful, {percent(new.wasted_rate_total)} wasted"
    allocation = Tile("GPU allocation", percent(new.allocation_rate_total), split)
    useful = f"{amount(new.useful_gpu_hours)} useful GPU-hours"
    if old is None:
        wasted = Tile("GPU-hours wasted", amount(new.spot.wasted_gpu_hours), "work lost, and restarts")
        return Tile("Goodput", percent(new.goodput_rate_total), useful), allocation, wasted
    goodput = _change("Goodput", old.goodput_rate_total, new.goodput_rate_total, percent, more=True)
    good = None if _same_work(old, new) else goodput.good
    goodput = Tile(goodput.label, goodput.value, f"{goodput.detail}; {useful}", good)
    wasted = _change("GPU-hours wasted", old.spot.wasted_gpu_hours, new.spot.wasted_gpu_hours, amount)
    return goodput, allocation, wasted


def _same_work(old: Metrics, new: Metrics) -> bool:
    """Whether both ran everything to its end: then their goodput differs only by how long that took."""
    return isclose(old.useful_gpu_hours, new.useful_gpu_hours, rel_tol=1e-9)


def _worth(old: Metrics, new: Metrics, workload: Workload, prices: Mapping[str, float] | None) -> str:
    """Money, from useful work alone: what is wasted less is no loss."""
    gain = monthly_benefit(old, new, workload.capacity(), prices)
    count = "useful share of the pool gained x GPUs x price x 730 h"
    assumption = f"This is an assumption. Prices: {prices_text((prices or {}).items())}."
    if _same_work(old, new):
        return "Both did the same useful work, so it is worth the same; goodput differs by when the last task finished."
    if abs(gain) < 1:
        return f"The useful work is the same, so it is worth the same ({count}: $0 a month)."
    verb = "is worth" if gain > 0 else "costs"
    return f"The change in useful work {verb} about {money(abs(gain))} a month ({count}). {assumption}"


def what_changed(first: str, old: Mapping[str, Any], second: str, new: Mapping[str, Any]) -> str:
    """What came of one scheduler in place of another, in a sentence; metrics as they stand in a summary."""

    def part(words: str, write: Callable[[float], str], *path: str) -> str:
        both: tuple[Any, Any] = old, new
        before, now = (reduce(getitem, path, metrics) for metrics in both)
        return words.format(write(now)) + _instead(before, now, write)

    lost_before, lost = (m["hp"]["lost"] + m["spot"]["lost"] for m in (old, new))
    parts = [part("goodput is {} of the pool", percent, "goodput_rate_total")]
    if new["spot"]["tasks"]:
        if not (old["leases"] or new["leases"]):
            parts.append(part("{} of spot runs were evicted", percent, "spot", "eviction_rate"))
            costs = "evictions and failures" if lost_before or lost else "evictions"
            parts.append(part(f"{costs} wasted {{}} GPU-hours", amount, "spot", "wasted_gpu_hours"))
        parts.append(part("spot tasks waited {} on average", short_seconds, "spot", "jqt_mean"))
    if new["hp"]["tasks"]:
        parts.append(part("HP tasks waited {}", short_seconds, "hp", "jqt_mean"))
    if lost_before or lost:
        parts.append(f"{amount(lost)} runs were lost to failures" + _instead(lost_before, lost, amount))
    return f"With {second} in place of {first}: {'; '.join(parts)}."


def _instead(old: float, new: float, text: Callable[[float], str]) -> str:
    return ", as before" if text(old) == text(new) else f" instead of {text(old)}"


def _alone(result: RunResult) -> str:
    m = result.metrics
    words = [f"goodput was {percent(m.goodput_rate_total)} of the pool."]
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


def _change(label: str, old: float, new: float, text: Callable[[float], str], *, more: bool = False) -> Tile:
    """A number, what it was, and whether the change is for the better (`more`: higher is better)."""
    if text(old) == text(new):
        return Tile(label, text(new), "as before")
    if text is percent:
        by = f"{100 * (new - old):+.1f} points"
    else:
        by = f"{(new - old) / old:+.0%}" if old else "from nothing"
    return Tile(label, text(new), f"was {text(old)} ({by})".replace("-", "−"), (new > old) == more)


def _parameters(result: RunResult) -> Details:
    text = json.dumps(result.parameters.to_dict(), indent=2, default=str, sort_keys=True)
    return Details(f"{result.scheduler} (spot quota in force: {result.quota_in_force})", text)
