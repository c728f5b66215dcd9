"""What is shown of a plan, on the terminal and on a page alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gfs.plans.plan import CapacityPlan
from gfs.plans.search import Setting, SettingResult
from gfs.report.columns import NODES, NOTHING, PLAN_OTHERS, PLAN_SETTINGS, PLAN_SOLD, SETTING, percent, unmarked
from gfs.report.table import Column, DataTable, Mark, table_of
from gfs.telemetry.prices import prices_text

SHOWN: Final = 12
"""Settings on the terminal; the page and the table of all runs have every one."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A run, as a row of a table or a point of a chart."""

    name: str
    """What is special about it: 'p = 0.9, guarantee 1 h, eta 0.1 to 4'."""
    result: SettingResult
    keeps: bool
    """Within the target, and where it is about selling also short enough a wait."""
    recommended: bool = False
    remark: str = ""
    """Why it failed, or what has to be known of it."""

    @property
    def figures(self) -> Mapping[str, Any]:
        """Empty if it failed."""
        return self.result.figures


class PlanView:
    """A plan, ready to be shown on the terminal and on a page."""

    def __init__(self, plan: CapacityPlan) -> None:
        request, chosen = plan.request, plan.chosen

        def row(result: SettingResult, name: str = "", *, sold: bool = False) -> PlanRow:
            left_out = result.figures.get("left_out", 0)
            remark = result.error or (f"left out, too large for it: {left_out:,}" if left_out else "")
            keeps = plan.sells(result) if sold else result.within(request.target)
            return PlanRow(name or result.setting.label, result, keeps, result is chosen, remark)

        self.plan = plan
        best_first = sorted(plan.settings, key=lambda result: result.order(request.target))
        self.settings = [row(result) for result in best_first]
        fixed = row(plan.fixed, f"static, fixed {request.fixed_share:.0%}")
        self.today = [row(chosen, "recommended"), fixed, row(plan.free, f"{request.scheduler}, no quota")]
        self.nodes = [row(result, f"{result.run.node_share:.0%} of nodes") for result in plan.what_if]
        self.demand = [row(result, f"spot x{result.run.spot_scale:g}", sold=True) for result in plan.demand]
        self.guarantees = [row(best, sold=True) for best in plan.guarantees]


def plan_tables(view: PlanView) -> list[DataTable]:
    """What is printed of a plan, in the order of the questions."""
    more = len(view.settings) - SHOWN
    rest = f"; {more} more on the page" if more > 0 else ""
    request = view.plan.request
    missed = f"! over {percent(request.target)} evicted"
    worth = prices_text(request.prices)
    unsold = f"! not sold: {missed[2:]}, or a mean wait over {request.max_wait:,.0f} s\nworth: {worth}"
    return [
        rows_table("Settings", SETTING, view.settings[:SHOWN], PLAN_SETTINGS, f"* recommended, {missed}{rest}"),
        rows_table("Against today", ("quota",), view.today, PLAN_OTHERS, missed),
        rows_table("Other nodes, recommended setting", ("cluster",), view.nodes, (NODES, *PLAN_OTHERS), missed),
        rows_table("Other spot work, recommended setting", ("offered",), view.demand, PLAN_SOLD),
        rows_table("Each guarantee with its best setting", SETTING, view.guarantees, PLAN_SOLD, unsold),
    ]


def rows_table(
    title: str, names: Sequence[Column | str], rows: Sequence[PlanRow], columns: Sequence[Column], note: str = ""
) -> DataTable:
    """Runs of a plan as a table; the recommended one is marked in place of the best values."""
    labels = [_parts(row.result.setting) if names == SETTING else (row.name,) for row in rows]
    marks: dict[int, Mark] = {i: "missed" for i, row in enumerate(rows) if not row.keeps}
    marks |= {i: "recommended" for i, row in enumerate(rows) if row.recommended}
    remarks = [f"{row.name}: {row.remark}" for row in rows if row.remark]
    more = {"title": title, "note": "\n".join([*([note] if note else []), *remarks]), "marks": marks}
    return table_of(names, labels, unmarked(columns), [row.figures for row in rows], **more)


def _parts(setting: Setting) -> tuple[str, str, str]:
    """p, H and eta."""
    eta = setting.eta
    return (
        NOTHING if setting.p is None else f"{setting.p:g}",
        NOTHING if setting.hours is None else f"{setting.hours:g}",
        NOTHING if eta is None else f"{eta.least:g}–{eta.most:g}",
    )
