"""A plan as a page: the answer, waits against evictions with the target, other nodes, what could be sold."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gfs.report.charts import FINE_TEXT, FINE_TICKS, time_unit
from gfs.report.columns import NODES, PLAN_EVERY, PLAN_OTHERS, PLAN_SOLD, SETTING, amount, money, percent, short_seconds
from gfs.report.page import Chart, Details, PageSection, Paragraph, Tile, build_page, write_page
from gfs.report.palette import CAPACITY, HP, MISSED, SPOT, scheduler_colours
from gfs.report.plan_view import PlanRow, PlanView, rows_table

CHOSEN = scheduler_colours(["gfs"])["gfs"]


def plan_page(view: PlanView, out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    missed = f"★ recommended, ! over {percent(view.target)} evicted."
    nodes = rows_table("", ("cluster",), view.nodes, (NODES, *PLAN_OTHERS), missed)
    sections = [
        PageSection("The answer", [Paragraph(view.answer, lead=True), _figures(view)]),
        PageSection("Settings", [_plane(view), rows_table("", SETTING, view.settings, PLAN_EVERY, missed)]),
        PageSection("Against today", [rows_table("", ("quota",), view.today, PLAN_EVERY, missed)]),
        PageSection("Other nodes", [*_node_bars(view), nodes]),
        PageSection(
            "What could be sold",
            [
                Paragraph(
                    f"Spot work counts as sold if evictions stay within {percent(view.target)} of the runs and the"
                    f" mean wait within {short_seconds(view.max_wait)}."
                ),
                _demand_chart(view),
                rows_table("", ("spot work",), view.demand, PLAN_SOLD, "! not sold."),
                Paragraph("Each guarantee with its best setting, at the spot work of the trace:"),
                rows_table("", SETTING, view.guarantees, PLAN_SOLD, "! not sold."),
                Paragraph(f"Prices: {view.prices}"),
            ],
        ),
        PageSection("The config file", [Details("gfs.toml", view.config)]),
    ]
    write_page(build_page("GFS plan", view.about, sections), out)


def _figures(view: PlanView) -> tuple[Tile, ...]:
    best = view.recommended
    fixed = view.today[1]
    waits = f"fixed quota: {short_seconds(fixed.wait)}" if fixed.figures else "of all waits of a task"
    return (
        Tile("spot runs evicted", percent(best.evicted), f"target {percent(view.target)}", view.meets),
        Tile("mean spot wait", short_seconds(best.wait), waits),
        Tile("spot GPU-hours a month", amount(best.figures["spot_gpu_hours"]), "useful work"),
        Tile("worth a month", money(best.figures["worth"]), "at the prices below"),
    )


def _plane(view: PlanView) -> Chart:
    """Every setting as a point; the target is a line, and left of it is where to be."""
    done = [row for row in view.settings if row.figures]
    today = [row for row in view.today[1:] if row.figures]
    groups = (
        ("within the target", CHOSEN, "circle", 10, [r for r in done if r.keeps and not r.recommended]),
        ("beyond it", CAPACITY, "circle-open", 9, [r for r in done if not r.keeps and not r.recommended]),
        ("today", SPOT, "diamond", 12, today),
        ("recommended", CHOSEN, "star", 20, [r for r in done if r.recommended]),
    )
    data = [_points(name, colour, symbol, size, rows) for name, colour, symbol, size, rows in groups if rows]
    target = 100 * view.target
    right = max([100 * row.evicted for row in [*done, *today]] + [target]) * 1.12 or 1.0
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "spot runs evicted [%]"}, "range": [-0.03 * right, right]},
        "yaxis": {
            "title": {"text": "mean spot wait"},
            "type": "log",
            "tickvals": list(FINE_TICKS),
            "ticktext": list(FINE_TEXT),
        },
        "shapes": [
            {
                "type": "line",
                "x0": target,
                "x1": target,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": MISSED, "width": 1.5, "dash": "dash"},
            }
        ],
        "annotations": [
            {
                "x": target,
                "y": 1,
                "yref": "paper",
                "text": f"target {percent(view.target)}",
                "showarrow": False,
                "xanchor": "left" if target < 0.7 * right else "right",
                "yanchor": "top",
                "font": {"color": MISSED},
            }
        ],
    }
    caption = (
        "Left of the dashed line evictions are within the target; lower is a shorter wait. Point at one to see it."
    )
    return Chart("Spot waiting and evictions", caption, data, layout, height=440)


def _points(name: str, colour: str, symbol: str, size: int, rows: Sequence[PlanRow]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [round(100 * row.evicted, 4) for row in rows],
        "y": [round(max(row.wait, 1.0), 4) for row in rows],
        "text": [html.escape(row.name) for row in rows],
        "customdata": [f"{percent(row.evicted)} evicted, waits {short_seconds(row.wait)}" for row in rows],
        "marker": {"color": colour, "symbol": symbol, "size": size},
        "hovertemplate": "%{text}<br>%{customdata}<extra></extra>",
    }


def _node_bars(view: PlanView) -> list[Chart]:
    """Evictions and waits on clusters of other sizes, side by side."""
    rows = [row for row in view.nodes if row.figures]
    scale, unit = time_unit(max((row.wait for row in rows), default=0.0))
    evicted = _bars(rows, "evicted", SPOT, [100 * row.evicted for row in rows], [percent(r.evicted) for r in rows])
    waits = _bars(rows, "spot wait", HP, [row.wait / scale for row in rows], [short_seconds(r.wait) for r in rows])
    line = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "line": {"color": MISSED, "width": 1.5, "dash": "dash"},
    }
    shape = {**line, "y0": 100 * view.target, "y1": 100 * view.target}
    top = 1.2 * max([100 * row.evicted for row in rows] + [100 * view.target])
    first = {"yaxis": {"title": {"text": "spot runs evicted [%]"}, "range": [0, top or 1]}, "shapes": [shape]}
    highest = 1.2 * max((row.wait / scale for row in rows), default=0.0)
    second = {"yaxis": {"title": {"text": f"mean spot wait [{unit}]"}, "range": [0, highest or 1]}}
    return [
        Chart("Evictions", "Same trace, same setting; dashed: the target.", [evicted], first, 300, wide=False),
        Chart("Waiting", "Mean wait of spot tasks.", [waits], second, 300, wide=False),
    ]


def _bars(
    rows: Sequence[PlanRow], name: str, colour: str, values: Sequence[float], texts: Sequence[str]
) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": [html.escape(row.name) for row in rows],
        "y": [round(value, 4) for value in values],
        "text": list(texts),
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": colour},
        "hovertemplate": "%{x}: %{text}<extra></extra>",
    }


def _demand_chart(view: PlanView) -> Chart:
    """GPU-hours delivered as more spot work is offered; what cannot be sold is grey."""
    rows = [row for row in view.demand if row.figures]
    bars = _bars(
        rows,
        "GPU-hours",
        CHOSEN,
        [row.figures["spot_gpu_hours"] for row in rows],
        [f"{percent(row.evicted)}, {short_seconds(row.wait)}" for row in rows],
    )
    bars["marker"] = {"color": [CHOSEN if row.keeps else CAPACITY for row in rows]}
    top = 1.2 * max((row.figures["spot_gpu_hours"] for row in rows), default=1.0)
    layout = {"yaxis": {"title": {"text": "useful spot GPU-hours a month"}, "range": [0, top or 1]}}
    caption = "Above each bar: evicted, mean wait. Green: within the target and the limit of the wait. Grey: not."
    return Chart("More spot work with the recommended setting", caption, [bars], layout, height=320)
