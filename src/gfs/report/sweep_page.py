"""What a sweep shows: a table of its settings, and a page of waiting against eviction, the front marked."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from gfs.report.columns import SWEPT, P, percent, short_seconds, unmarked
from gfs.report.page import Chart, PageSection, Paragraph, build_page, write_page
from gfs.report.palette import scheduler_colours
from gfs.report.table import COUNT, Column, DataTable, Mark, table_of

RUNS = Column("runs", unit=COUNT, help="runs that differ in their seeds alone; the figures are their means")


class SettingGroup(Protocol):
    """Runs that differ in their seeds alone."""

    @property
    def settings(self) -> dict[str, Any]:
        """What varied."""

    @property
    def scenario(self) -> dict[str, Any]:
        """What settings have to cope with: each has a front of its own."""

    @property
    def seeds(self) -> int:
        """How many runs."""

    @property
    def means(self) -> dict[str, float]:
        """Means of the figures."""

    @property
    def best(self) -> bool:
        """Whether it is on the front."""


def sweep_table(varied: Sequence[str], groups: Sequence[SettingGroup]) -> DataTable:
    """A row per group, by scenarios, the shortest spot wait first; those on the front are marked."""
    by_wait = sorted(groups, key=lambda group: group.means.get("spot_jqt_mean", 0.0))
    scenarios = list({tuple(group.scenario.items()): group.scenario for group in groups}.values())
    ordered = sorted(by_wait, key=lambda group: scenarios.index(group.scenario))
    breaks = frozenset(i for i, (one, next_) in enumerate(pairwise(ordered), 1) if one.scenario != next_.scenario)
    names = [P if name == P.header else Column(name, left=True) for name in varied] or [Column("settings", left=True)]
    labels = [[str(group.settings[name]) for name in varied] or ["all runs"] for group in ordered]
    table = table_of(names, labels, unmarked(SWEPT), [group.means for group in ordered])
    rows = [[*row[: len(names)], g.seeds, *row[len(names) :]] for row, g in zip(table.rows, ordered, strict=True)]
    marks: dict[int, Mark] = {i: "recommended" for i, group in enumerate(ordered) if group.best}
    goals = "no other is better in evictions, spot wait and goodput" + ", in the same scenario" * (len(scenarios) > 1)
    note = f"marked: on the front, {goals}"
    if len(marks) == len(ordered):  # then there is nothing to tell apart
        marks, note = {}, f"all on the front: {goals}"
    return DataTable([*names, RUNS, *unmarked(SWEPT)], rows, names=len(names), marks=marks, note=note, breaks=breaks)


def sweep_page(varied: Sequence[str], groups: Sequence[SettingGroup], out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    front = [group for group in groups if group.best]
    words = (
        f"{len(front)} of {len(groups)} settings are on the front: no other of the same scenario is as good in"
        " evictions, spot wait and goodput, and better in one. Runs that differ in their seeds alone are one point."
    )
    sections = [
        PageSection("The front", [Paragraph(words, lead=True), sweep_table(varied, front)]),
        PageSection("All settings", [_chart(varied, groups)]),
    ]
    write_page(build_page("GFS sweep", f"What varied: {', '.join(varied) or 'seeds alone'}.", sections), out)


def _name(group: SettingGroup, varied: Sequence[str]) -> str:
    return ", ".join(f"{name}={group.settings[name]}" for name in varied) or "all runs"


def _chart(varied: Sequence[str], groups: Sequence[SettingGroup]) -> Chart:
    by = "scheduler" if "scheduler" in varied else ""
    kinds = list(dict.fromkeys(str(group.settings.get(by, "runs")) for group in groups))
    colours = scheduler_colours(kinds)
    data: list[dict[str, Any]] = []
    for kind in kinds:
        mine = [group for group in groups if str(group.settings.get(by, "runs")) == kind]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": html.escape(kind),
                "x": [100 * group.means.get("spot_eviction_rate", 0.0) for group in mine],
                "y": [max(group.means.get("spot_jqt_mean", 0.0), 0.1) for group in mine],
                "text": [html.escape(_name(group, varied)) for group in mine],
                "marker": {
                    "color": colours[kind],
                    "size": [14 if group.best else 8 for group in mine],
                    "symbol": ["circle" if group.best else "circle-open" for group in mine],
                },
                "customdata": [
                    f"{percent(group.means.get('spot_eviction_rate', 0.0))} evicted, waits "
                    f"{short_seconds(group.means.get('spot_jqt_mean', 0.0))}, "
                    f"goodput {percent(group.means.get('goodput_rate', 0.0))}"
                    for group in mine
                ],
                "hovertemplate": "%{text}<br>%{customdata}<extra></extra>",
            }
        )
    layout = {
        "xaxis": {"title": {"text": "spot runs evicted [%]"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "mean spot wait [s]"}, "type": "log"},
    }
    caption = "Towards the lower left is better. Filled: on the front. Point at one to see its settings."
    return Chart("Waiting against eviction", caption, data, layout, height=460)
