"""What is shown of a plan, on the terminal and on a page alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gfs.report.columns import NODES, PLAN_OTHERS, PLAN_SETTINGS, PLAN_SOLD, SETTING, percent, unmarked
from gfs.report.table import Column, DataTable, Mark, table_of


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A run."""

    name: str
    """What is special about it: 'p = 0.9, guarantee 1 h, eta 0.1 to 4'."""
    figures: Mapping[str, Any]
    """Empty if it failed."""
    keeps: bool
    """Within the target."""
    cells: tuple[str, ...] = ()
    """The name in parts: p, H, eta."""
    recommended: bool = False
    remark: str = ""
    """Why it failed, or what has to be known of it."""

    @property
    def evicted(self) -> float:
        """Share of the spot runs."""
        return float(self.figures["spot_eviction_rate"])

    @property
    def wait(self) -> float:
        """Mean seconds of spot tasks."""
        return float(self.figures["spot_jqt_mean"])


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan, ready to be shown."""

    about: str
    """Trace, scheduler and seed in a line."""
    answer: str
    target: float
    max_wait: float
    meets: bool
    settings: Sequence[PlanRow]
    """The best first: those within the target by their wait, then the others by their evictions."""
    today: Sequence[PlanRow]
    """The recommended setting, then what operators have."""
    nodes: Sequence[PlanRow]
    demand: Sequence[PlanRow]
    """`keeps` also says that the wait is short enough."""
    guarantees: Sequence[PlanRow]
    prices: str
    config: str

    @property
    def recommended(self) -> PlanRow:
        """The setting to use."""
        return next(row for row in self.settings if row.recommended)


SHOWN: Final = 12
"""Settings on the terminal; the page and the table of all runs have every one."""


def plan_tables(view: PlanView) -> list[DataTable]:
    """What is printed of a plan, in the order of the questions."""
    more = len(view.settings) - SHOWN
    rest = f"; {more} more on the page" if more > 0 else ""
    missed = f"! over {percent(view.target)} evicted"
    return [
        rows_table("Settings", SETTING, view.settings[:SHOWN], PLAN_SETTINGS, f"* recommended, {missed}{rest}"),
        rows_table("Against today", ("quota",), view.today, PLAN_OTHERS, missed),
        rows_table("Other nodes, recommended setting", ("cluster",), view.nodes, (NODES, *PLAN_OTHERS), missed),
        rows_table("Other spot work, recommended setting", ("offered",), view.demand, PLAN_SOLD),
        rows_table(
            "Each guarantee with its best setting",
            SETTING,
            view.guarantees,
            PLAN_SOLD,
            f"! not sold: {missed[2:]}, or a mean wait over {view.max_wait:,.0f} s\nworth: {view.prices}",
        ),
    ]


def rows_table(
    title: str, names: Sequence[Column | str], rows: Sequence[PlanRow], columns: Sequence[Column], note: str = ""
) -> DataTable:
    """Runs of a plan as a table; the recommended one is marked in place of the best values."""
    labels = [row.cells if len(names) > 1 else (row.name,) for row in rows]
    table = table_of(names, labels, unmarked(columns), [row.figures for row in rows])
    marks: dict[int, Mark] = {i: "missed" for i, row in enumerate(rows) if not row.keeps}
    marks |= {i: "recommended" for i, row in enumerate(rows) if row.recommended}
    remarks = [f"{row.name}: {row.remark}" for row in rows if row.remark]
    note = "\n".join([*([note] if note else []), *remarks])
    return DataTable(table.columns, table.rows, title=title, note=note, names=len(names), marks=marks)
