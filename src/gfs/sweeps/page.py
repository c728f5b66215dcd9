"""A sweep as a page: waiting against eviction, the front marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gfs.report.columns import percent, short_seconds
from gfs.report.figures import colours_of, front_points, wait_against_evictions
from gfs.report.page import Chart, PageSection, Paragraph, write_page
from gfs.sweeps.table import GOALS, SettingMeans, sweep_table


def sweep_page(varied: Sequence[str], groups: Sequence[SettingMeans], out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    front = [group for group in groups if group.front]
    words = (
        f"{len(front)} of {len(groups)} settings are on the front: no other of the same scenario is as good in"
        " evictions, spot wait and goodput, and better in one. Runs that differ in their seeds alone are one point."
    )
    sections = [
        PageSection("The front", [Paragraph(words, lead=True), sweep_table(varied, front)]),
        PageSection("All settings", [sweep_chart(varied, groups)]),
    ]
    write_page(out, "GFS sweep", f"What varied: {', '.join(varied) or 'seeds alone'}.", sections)


def _name(group: SettingMeans, varied: Sequence[str]) -> str:
    return ", ".join(f"{name}={group.settings[name]}" for name in varied) or "all runs"


def sweep_chart(varied: Sequence[str], groups: Sequence[SettingMeans]) -> Chart:
    """Every setting as a point; those on the front are filled."""
    by = "scheduler" if "scheduler" in varied else ""
    kinds = list(dict.fromkeys(str(group.settings.get(by, "runs")) for group in groups))
    colours = colours_of(kinds)
    data: list[Any] = []
    for kind in kinds:
        mine = [group for group in groups if str(group.settings.get(by, "runs")) == kind]
        figures = [[group.means.get(goal, 0.0) for goal in GOALS] for group in mine]
        data += front_points(
            kind,
            colours[kind],
            [(100 * evicted, max(wait, 1.0)) for evicted, wait, _ in figures],
            [group.front for group in mine],
            [_name(group, varied) for group in mine],
            [
                f"{percent(evicted)} evicted, waits {short_seconds(wait)}, goodput {percent(goodput)}"
                for evicted, wait, goodput in figures
            ],
        )
    caption = "Towards the lower left is better. Filled: on the front. Point at one to see its settings."
    return Chart("Waiting against eviction", caption, data, wait_against_evictions(), height=460)
