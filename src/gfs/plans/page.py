"""A plan as a page: the answer, waits against evictions with the target, other nodes, what could be sold."""

from __future__ import annotations

import html
from pathlib import Path

import plotly.graph_objects as go

from gfs.plans.summary_text import config_text, summary_text
from gfs.plans.view import PlanView, rows_table
from gfs.report.charts import time_unit
from gfs.report.columns import NODES, PLAN_EVERY, PLAN_OTHERS, PLAN_SOLD, SETTING, amount, money, percent, short_seconds
from gfs.report.figures import CAPACITY, HP, MISSED, SPOT, bars, colours_of, dashed, seconds_axis, up_to
from gfs.report.page import Chart, Details, PageSection, Paragraph, Tile, write_page
from gfs.telemetry.prices import prices_text

CHOSEN = colours_of(["gfs"])["gfs"]


def plan_page(view: PlanView, out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    plan, request = view.plan, view.plan.request
    missed = f"★ recommended, ! over {percent(request.target)} evicted."
    nodes = rows_table("", ("cluster",), view.nodes, (NODES, *PLAN_OTHERS), missed)
    sections = [
        PageSection("The answer", [Paragraph(summary_text(plan), lead=True), _figures(view)]),
        PageSection("Settings", [_plane(view), rows_table("", SETTING, view.settings, PLAN_EVERY, missed)]),
        PageSection("Against today", [rows_table("", ("quota",), view.today, PLAN_EVERY, missed)]),
        PageSection("Other nodes", [*_node_bars(view), nodes]),
        PageSection(
            "What could be sold",
            [
                Paragraph(
                    f"Spot work counts as sold if evictions stay within {percent(request.target)} of the runs and the"
                    f" mean wait within {short_seconds(request.max_wait)}."
                ),
                _demand_chart(view),
                rows_table("", ("spot work",), view.demand, PLAN_SOLD, "! not sold."),
                Paragraph("Each guarantee with its best setting, at the spot work of the trace:"),
                rows_table("", SETTING, view.guarantees, PLAN_SOLD, "! not sold."),
                Paragraph(f"Prices: {prices_text(request.prices)}"),
            ],
        ),
        PageSection("The config file", [Details("gfs.toml", config_text(plan))]),
    ]
    about = f"{request.trace.label} under {request.scheduler}: {len(plan.settings)} settings tried."
    write_page(out, "GFS plan", about, sections)


def _figures(view: PlanView) -> tuple[Tile, ...]:
    best, target = view.plan.chosen, f"target {percent(view.plan.request.target)}"
    fixed = view.today[1]
    waits = f"fixed quota: {short_seconds(fixed.result.wait)}" if fixed.figures else "of all waits of a task"
    return (
        Tile("spot runs evicted", percent(best.evicted), target, view.plan.meets),
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
    data = [
        go.Scatter(
            mode="markers",
            name=name,
            x=[round(100 * row.result.evicted, 4) for row in rows],
            y=[round(max(row.result.wait, 1.0), 4) for row in rows],
            text=[html.escape(row.name) for row in rows],
            customdata=[
                f"{percent(row.result.evicted)} evicted, waits {short_seconds(row.result.wait)}" for row in rows
            ],
            marker={"color": colour, "symbol": symbol, "size": size},
            hovertemplate="%{text}<br>%{customdata}<extra></extra>",
        )
        for name, colour, symbol, size, rows in groups
        if rows
    ]
    target = 100 * view.plan.request.target
    right = max([100 * row.result.evicted for row in [*done, *today]] + [target]) * 1.12 or 1.0
    label = {
        "x": target,
        "y": 1,
        "yref": "paper",
        "text": f"target {percent(target / 100)}",
        "showarrow": False,
        "xanchor": "left" if target < 0.7 * right else "right",
        "yanchor": "top",
        "font": {"color": MISSED},
    }
    layout = go.Layout(
        xaxis={"title_text": "spot runs evicted [%]", "range": [-0.03 * right, right]},
        yaxis=seconds_axis("mean spot wait", fine=True),
        shapes=[dashed(x=target, colour=MISSED, width=1.5)],
        annotations=[label],
    )
    caption = (
        "Left of the dashed line evictions are within the target; lower is a shorter wait. Point at one to see it."
    )
    return Chart("Spot waiting and evictions", caption, data, layout, height=440)


def _node_bars(view: PlanView) -> list[Chart]:
    """Evictions and waits on clusters of other sizes, side by side."""
    rows = [row for row in view.nodes if row.figures]
    names = [row.name for row in rows]
    evicted, waits = [100 * row.result.evicted for row in rows], [row.result.wait for row in rows]
    scale, unit = time_unit(max(waits, default=0.0))
    target = 100 * view.plan.request.target
    first = go.Layout(
        yaxis=up_to("spot runs evicted [%]", max([*evicted, target])),
        shapes=[dashed(y=target, colour=MISSED, width=1.5)],
    )
    second = go.Layout(yaxis=up_to(f"mean spot wait [{unit}]", max(waits, default=0.0) / scale))
    left = bars(names, evicted, [percent(row.result.evicted) for row in rows], SPOT)
    right = bars(names, [wait / scale for wait in waits], [short_seconds(wait) for wait in waits], HP)
    return [
        Chart("Evictions", "Same trace, same setting; dashed: the target.", [left], first, 300, wide=False),
        Chart("Waiting", "Mean wait of spot tasks.", [right], second, 300, wide=False),
    ]


def _demand_chart(view: PlanView) -> Chart:
    """GPU-hours delivered as more spot work is offered; what cannot be sold is grey."""
    rows = [row for row in view.demand if row.figures]
    hours = [row.figures["spot_gpu_hours"] for row in rows]
    texts = [f"{percent(row.result.evicted)}, {short_seconds(row.result.wait)}" for row in rows]
    colours = [CHOSEN if row.keeps else CAPACITY for row in rows]
    layout = go.Layout(yaxis=up_to("useful spot GPU-hours a month", max(hours, default=1.0)))
    caption = "Above each bar: evicted, mean wait. Green: within the target and the limit of the wait. Grey: not."
    data = [bars([row.name for row in rows], hours, texts, colours)]
    return Chart("More spot work with the recommended setting", caption, data, layout, height=320)
