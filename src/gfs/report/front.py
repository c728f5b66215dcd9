"""Schedulers over many quotas: in words who is on the common fronts, and a table of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gfs.batch.front import FRONTS, FrontAxes, FrontComparison, FrontPoint
from gfs.report.columns import EVICTED, GOODPUT, HP_WAIT, SPOT_JCT, SPOT_WAIT, WASTED, unmarked
from gfs.report.table import Column, DataTable, table_of

COLUMNS: Final = {FRONTS[0]: (SPOT_WAIT, EVICTED, HP_WAIT, GOODPUT), FRONTS[1]: (SPOT_JCT, WASTED, HP_WAIT, GOODPUT)}
"""The two figures of each front, and what should not suffer from them."""
NAMES: Final = (Column("scheduler", left=True), Column("quota", left=True))


def quota_name(point: FrontPoint) -> str:
    """Its quota, and whether it is the scheduler's own."""
    return f"{point.quota} (own)" if point.own else point.quota


def front_words(comparison: FrontComparison, axes: FrontAxes) -> list[str]:
    """Who is on the front with how many points, whose best points hold, and who takes no part."""
    standings = comparison.standings(axes)
    if not standings:
        return [f"No scheduler has points of {axes.name}."]
    there = [f"{standing.scheduler} {standing.front}" for standing in standings if standing.front]
    absent = [standing.scheduler for standing in standings if not standing.front]
    count, points = sum(standing.front for standing in standings), sum(standing.points for standing in standings)
    words = [
        f"{count} of {points} points are on the common front: {', '.join(there)}"
        + (f"; none of {', '.join(absent)}." if absent else ".")
    ]
    if len(standings) > 1:
        by_share = sorted(standings, key=lambda s: -s.unbeaten / s.best)
        kept = ", ".join(f"{s.scheduler} {s.unbeaten} of {s.best}" for s in by_share)
        by = f"on both by more than {100 * comparison.noise:.4g}%"
        words.append(f"Best points that no other scheduler beats {by}: {kept}.")
    if missing := [name for name in comparison.schedulers if name not in {s.scheduler for s in standings}]:
        words.append(f"{', '.join(missing)}: no part in this front, because it gives out leases and evicts nobody.")
    return words


def left_out_words(comparison: FrontComparison) -> list[str]:
    """A line per reason for which runs are missing."""
    names = {one.scheduler for one in comparison.left_out} | set(comparison.schedulers)
    reasons: dict[str, dict[str, list[str]]] = {}
    for one in comparison.left_out:
        reasons.setdefault(one.reason, {}).setdefault(one.quota, []).append(one.scheduler)
    lines = []
    for reason, quotas in reasons.items():
        which = [quota if set(who) == names else f"{quota} of {', '.join(who)}" for quota, who in quotas.items()]
        lines.append(f"Left out: {', '.join(which)} ({reason}).")
    return lines


def front_table(comparison: FrontComparison, axes: FrontAxes) -> DataTable:
    """The points on the common front, the shortest time first."""
    note = "front: no other point is as good on the first two figures and better on one"
    if len(comparison.schedulers) > 1:
        note += "\nbest points: the front of a scheduler's own points"
    return _table(comparison.front(axes), unmarked(COLUMNS[axes]), note)


def points_table(comparison: FrontComparison) -> DataTable:
    """Every point."""
    return _table(comparison.points, (SPOT_WAIT, EVICTED, SPOT_JCT, WASTED, HP_WAIT, GOODPUT))


def _table(points: Sequence[FrontPoint], columns: Sequence[Column], note: str = "") -> DataTable:
    labels = [[point.scheduler, quota_name(point)] for point in points]
    return table_of(NAMES, labels, columns, [point.figures for point in points], note=note)
