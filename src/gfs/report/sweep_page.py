"""The groups of a sweep as a page: waiting against eviction, the front marked."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gfs.report.columns import percent, short_seconds
from gfs.report.page import Chart, DataTable, Section, Words, build_page, write_page
from gfs.report.palette import scheduler_colours
from gfs.report.sweep_columns import COLUMNS, Group


def sweep_page(varied: Sequence[str], groups: Sequence[Group], out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    front = [group for group in groups if group.best]
    words = (
        f"{len(front)} of {len(groups)} settings are on the front: no other of the same scenario is as good in"
        " evictions, spot wait and goodput, and better in one. Runs that differ in their seeds alone are one point."
    )
    ordered = sorted(front, key=lambda group: group.means.get("spot_jqt_mean", 0.0))
    rows = [
        [
            _name(group, varied),
            *(text(group.means[key]) if key in group.means else "–" for _, key, text in COLUMNS),
        ]
        for group in ordered
    ]
    sections = [
        Section("The front", [Words(words, lead=True), DataTable(["settings", *(c[0] for c in COLUMNS)], rows)]),
        Section("All settings", [_chart(varied, groups)]),
    ]
    write_page(build_page("GFS sweep", f"What varied: {', '.join(varied) or 'seeds alone'}.", sections), out)


def _name(group: Group, varied: Sequence[str]) -> str:
    return ", ".join(f"{name}={group.settings[name]}" for name in varied) or "all runs"


def _chart(varied: Sequence[str], groups: Sequence[Group]) -> Chart:
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
                    f"goodput {percent(group.means.get('goodput', 0.0))}"
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
