"""What is shown of a plan, on the terminal and on a page alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gfs.plans.candidates import Candidate
from gfs.plans.choice import ranked
from gfs.plans.evidence import Sums, total
from gfs.plans.plan import CapacityPlan, PlanResult, PoolChoice
from gfs.plans.request import Assignment
from gfs.plans.summary_text import WAIT, finding_text
from gfs.plans.targets import Target, all_met, figure_of
from gfs.report.columns import NODES, PLAN_OTHERS, PLAN_SOLD, percent, short_seconds, unmarked
from gfs.report.table import COUNT, GPU_HOURS, PERCENT, SECONDS, Cell, Column, DataTable, Mark, table_of
from gfs.telemetry.prices import prices_text

SHOWN: Final = 12
"""Settings on the terminal; the page and the table of all runs have every one."""

EVICTED = Column("evicted of runs", "evictions", PERCENT, help="evictions / spot runs")
MEAN_WAIT = Column("spot wait mean", WAIT, SECONDS, help="all waits of a spot task")
WAIT_95 = Column("spot wait p95", "spot-wait-p95", SECONDS, help="95% of spot tasks waited no longer")
BROKEN = Column(
    "guarantees broken", "broken", PERCENT, help="spot runs evicted before their guaranteed hours were over"
)
HP_WAIT_99 = Column("HP wait p99", "hp-wait-p99", SECONDS, help="99% of HP tasks waited no longer")
WASTED = Column("wasted", "wasted", GPU_HOURS, help="GPU-hours lost to evictions and restarts")
OF_POOL = (EVICTED, MEAN_WAIT, WAIT_95, BROKEN, HP_WAIT_99, WASTED)
"""Figures of one pool; all come from its sums."""
IN_SHORT = (EVICTED, MEAN_WAIT, WAIT_95, BROKEN, WASTED)
"""As many as a terminal has room for."""


def sums_record(sums: Sums) -> dict[str, float]:
    """The figures of sums by the keys of the columns above."""
    names = [column.key for column in OF_POOL if column.key != "wasted"]
    return {**{name: figure_of(name, sums) for name in names}, "wasted": sums.wasted_gpu_hours}


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A run of the whole cluster, as a row of a table or a bar of a chart."""

    name: str
    """What is special about it: '90% of nodes'."""
    result: PlanResult
    keeps: bool
    """Within the targets, and where it is about selling also short enough a wait."""
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
        chosen, targets = plan.chosen, plan.request.targets

        def row(result: PlanResult, name: str, *, sold: bool = False) -> PlanRow:
            left_out = result.figures.get("left_out", 0)
            remark = result.error or (f"left out, too large for it: {left_out:,}" if left_out else "")
            keeps = plan.sells(result) if sold else not result.error and all_met(targets, result.sums)
            return PlanRow(name, result, keeps, result is chosen, remark)

        self.plan = plan
        self.nodes = [row(result, f"{result.run.node_share:.0%} of nodes") for result in plan.what_if]
        self.prices = [
            row(result, f"{self.promised(price.hours)}, spot x{result.run.spot_scale:g}", sold=True)
            for price in plan.price_list
            for result in price.results
        ]

    def promised(self, hours: float | None) -> str:
        """A guarantee: '1 h', or that of the trace where tasks differ."""
        hours = self.plan.request.promised if hours is None else hours
        return "as in the trace" if hours is None else f"{hours:g} h"


def plan_tables(view: PlanView) -> list[DataTable]:
    """What is printed of a plan, in the order of the questions."""
    plan = view.plan
    missed = f"! beyond {targets_note(plan.request.targets)}"
    tables = [pools_table(plan, missed)] if len(plan.pools) > 1 else []
    tables += [rivals_table(plan, short=True), certainty_table(plan)]
    tables += [settings_table(choice, plan, missed, SHOWN) for choice in plan.pools]
    tables.append(rows_table("Other nodes, as recommended", "cluster", view.nodes, (NODES, *PLAN_OTHERS), missed))
    tables.append(price_table(view))
    return tables


def targets_note(targets: Sequence[Target]) -> str:
    """Such as 'evictions 5.00% or spot-wait-p95 2 h'."""
    return " or ".join(f"{target.figure} {target.written(target.bound)}" for target in targets)


def pools_table(plan: CapacityPlan, note: str) -> DataTable:
    """What each pool should run. Figures by organization and size class belong beside it."""
    names = [Column("pool", left=True), Column("recommended", left=True), Column("GPUs", "gpus", COUNT)]
    labels = [(c.pool.gpu_model, c.candidate.label, c.pool.gpus) for c in plan.pools]
    marks: dict[int, Mark] = {
        i: "missed" for i, c in enumerate(plan.pools) if not all_met(plan.request.targets, c.sums)
    }
    records = [sums_record(choice.sums) for choice in plan.pools]
    return table_of(names, labels, OF_POOL, records, title="Pool by pool", note=note, marks=marks)


def rivals_table(plan: CapacityPlan, *, short: bool = False) -> DataTable:
    """The recommendation and the best of each other kind of setting, with what can be said of the difference."""
    said = Column("against the recommended", left=True, wrap=True)
    findings = {"worse": "waits longer", "better": "waits less", "no difference": "no difference", None: ""}
    columns = [Column("best of each kind", left=True), EVICTED, MEAN_WAIT, WASTED, said]
    own = _label(plan.chosen.assignment)
    sums = [plan.chosen.sums, *(rival.sums for rival in plan.rivals)]
    labels = [own, *(rival.candidate.label for rival in plan.rivals)]
    texts = [""]
    for rival in plan.rivals:
        told = findings[rival.finding] if short else finding_text(plan, rival)
        texts.append(told if rival.meets else "beyond targets")
    rows: list[list[Cell]] = [
        [label, *(column.value(sums_record(one)) for column in columns[1:-1]), text]
        for label, one, text in zip(labels, sums, texts, strict=True)
    ]
    marks: dict[int, Mark] = {i + 1: "missed" for i, rival in enumerate(plan.rivals) if not rival.meets}
    marks[0] = "recommended"
    note = "no difference: none in mean spot waits that the trace could show" if "no difference" in texts else ""
    note += "" if len(plan.pools) == 1 else "\nother kinds: the same in all pools"
    return DataTable(columns, rows, title="Other kinds", note=note.strip(), marks=marks)


def certainty_table(plan: CapacityPlan) -> DataTable:
    """Every figure that matters with its interval, and out of sample."""
    figures = list(dict.fromkeys(["evictions", WAIT, *(target.figure for target in plan.request.targets)]))
    bounds = {target.figure: target for target in plan.request.targets}
    unseen = plan.unseen
    heads = ["figure", "target", "on the trace"]
    where = f"{len(plan.seeds)} other seeds" if plan.seeds else f"{plan.block}s of the trace"
    heads += [f"nine of ten, by {where}"] if plan.seeds or plan.block else []
    heads += [] if unseen is None or plan.seeds else [f"chosen on {unseen.chosen_on}", f"{unseen.reported_on}"]
    rows: list[list[Cell]] = []
    for figure in figures:
        written = percent if figure in ("evictions", "broken") else short_seconds
        bound = bounds.get(figure)
        here = figure_of(figure, plan.chosen.sums)
        row: list[Cell] = [figure, written(bound.bound) if bound else None, written(here)]
        if plan.seeds or plan.block:
            found = plan.interval(figure)
            row.append(None if found is None else f"{written(found.low)} to {written(found.high)}")
        if unseen is not None and not plan.seeds:
            row += [written(figure_of(figure, unseen.promised)), written(figure_of(figure, unseen.sums))]
        rows.append(row)
    return DataTable(heads, rows, title="How sure")


def settings_table(choice: PoolChoice, plan: CapacityPlan, note: str, shown: int | None = None) -> DataTable:
    """What was tried in a pool, the best first."""
    targets = plan.request.targets
    every = ranked(choice.tried, targets)
    best = every[:shown]
    sums = [total(choice.tried[candidate]) for candidate in best]
    marks: dict[int, Mark] = {i: "missed" for i, one in enumerate(sums) if not all_met(targets, one)}
    marks[best.index(choice.candidate)] = "recommended"
    more = len(every) - len(best)
    note += f"; {more} more on the page" if more > 0 else ""
    title = "Settings" + (f" tried in pool {choice.pool.gpu_model}" if len(plan.pools) > 1 else "")
    names = [Column("scheduler", left=True), Column("quota", left=True)]
    labels = [(candidate.scheduler, candidate.quota_label) for candidate in best]
    records, columns = [sums_record(one) for one in sums], OF_POOL if shown is None else IN_SHORT
    return table_of(names, labels, columns, records, title=title, note=f"* recommended, {note}", marks=marks)


def price_table(view: PlanView) -> DataTable:
    """Hours of guarantee x GPU-hours that could be sold with it."""
    request = view.plan.request
    waits = f"or a mean wait over {request.max_wait:,.0f} s"
    note = f"! not sold: beyond {targets_note(request.targets)}, {waits}\nworth: {prices_text(request.prices)}"
    return rows_table("Price list, as recommended", "guarantee, spot work", view.prices, PLAN_SOLD, note)


def rows_table(title: str, name: str, rows: Sequence[PlanRow], columns: Sequence[Column], note: str = "") -> DataTable:
    """Runs of the whole cluster as a table; the recommended one is marked in place of the best values."""
    marks: dict[int, Mark] = {i: "missed" for i, row in enumerate(rows) if not row.keeps}
    marks |= {i: "recommended" for i, row in enumerate(rows) if row.recommended}
    remarks = [f"{row.name}: {row.remark}" for row in rows if row.remark]
    more = {"title": title, "note": "\n".join([*([note] if note else []), *remarks]), "marks": marks}
    return table_of([name], [(row.name,) for row in rows], unmarked(columns), [row.figures for row in rows], **more)


def _label(assignment: Assignment) -> str:
    found: list[Candidate] = list(dict.fromkeys(candidate for _, candidate in assignment))
    return found[0].label if len(found) == 1 else "a setting for each pool"
