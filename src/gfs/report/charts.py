"""The charts of a comparison."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa

from gfs.domain.units import HOUR
from gfs.domain.workload import Workload
from gfs.report.columns import percent, short_seconds
from gfs.report.figures import (
    CAPACITY,
    HP,
    SPOT,
    area,
    bars,
    curve,
    day_axis,
    node_heat_map,
    seconds_axis,
    up_to,
    zero_based,
)
from gfs.report.page import Chart
from gfs.report.series import Prepared, TimeAxis, allocation, evictions_by_hour, node_heat, quota_over_time, waits

LABEL_PLACES = ("top center", "bottom center", "middle left", "middle right")


def tradeoff_chart(results: Sequence[Prepared], colours: Mapping[str, str]) -> Chart:
    """Every scheduler as a point: evictions to the right, waiting upwards; the corner at zero is ideal."""
    places = [
        (0.0 if r.metrics.leases else 100 * r.metrics.spot.eviction_rate, r.metrics.spot.jqt_mean) for r in results
    ]
    right, top = (max(values, default=0.0) or 1.0 for values in zip(*places, strict=True)) if places else (1.0, 1.0)
    scale, unit = time_unit(top)
    labelled = len(results) <= len(LABEL_PLACES) and not _crowded(places, right, top)  # else a legend names them
    data = []
    for i, (r, (evicted, wait)) in enumerate(zip(results, places, strict=True)):
        text = "suspends, evicts nothing" if r.metrics.leases else f"{percent(r.metrics.spot.eviction_rate)} evicted"
        data.append(
            go.Scatter(
                mode="markers+text" if labelled else "markers",
                name=html.escape(r.name),
                x=[evicted],
                y=[wait / scale],
                text=[html.escape(r.name)],
                textposition=LABEL_PLACES[i % len(LABEL_PLACES)],
                cliponaxis=False,
                showlegend=not labelled,
                marker={
                    "size": 16,
                    "color": colours[r.name],
                    "symbol": "circle-open" if r.metrics.leases else "circle",
                },
                hovertemplate=f"%{{text}}: {text}, waits {short_seconds(wait)}<extra></extra>",
            )
        )
    layout = go.Layout(
        xaxis={"title_text": "spot runs evicted [%]", "range": [-0.15 * right, 1.25 * right], "zeroline": True},
        yaxis={
            "title_text": f"mean spot wait [{unit}]",
            "range": [-0.15 * top / scale, 1.25 * top / scale],
            "zeroline": True,
        },
    )
    caption = "Towards the lower left is better: short waits and few evictions at once."
    return Chart("Spot waiting and evictions", caption, data, layout, wide=False)


def _crowded(places: Sequence[tuple[float, float]], right: float, top: float) -> bool:
    """Whether the labels of two points would be written over each other."""
    return any(abs(a[0] - b[0]) < 0.25 * right and abs(a[1] - b[1]) < 0.15 * top for a, b in combinations(places, 2))


def wait_bars(results: Sequence[Prepared]) -> Chart:
    """Mean waits of both classes, one group per scheduler."""
    hp, spot = ([getattr(r.metrics, name).jqt_mean for r in results] for name in ("hp", "spot"))
    worst = max([*hp, *spot], default=0.0)
    scale, unit = time_unit(worst)
    names = [r.name for r in results]
    data = [
        bars(names, [v / scale for v in values], [short_seconds(v) for v in values], colour, name)
        for name, colour, values in (("HP", HP, hp), ("spot", SPOT, spot))
    ]
    layout = go.Layout(xaxis_type="category", yaxis=up_to(f"mean wait [{unit}]", worst / scale))
    caption = "All queuing of a task until it finishes, averaged over the tasks of a class."
    return Chart("Mean wait by class", caption, data, layout, wide=False)


def wait_chart(results: Sequence[Prepared], colours: Mapping[str, str], *, spot: bool) -> Chart:
    """Cumulative distribution of the waits of one class."""
    kind = "spot" if spot else "HP"
    data, longest, lowest = [], 10.0, 100.0
    for r in results:
        seconds, share = waits(r, spot=spot)
        if len(seconds):
            longest = max(longest, float(seconds[-1]))
            lowest = min(lowest, float(share[np.searchsorted(seconds, 1.0, "right") - 1]))
        hover = "%{y:.1f}% waited at most %{x:,.0f} s"
        data.append(curve(r.name, share, colours[r.name], hover, x=np.maximum(seconds, 1.0)))
    lowest = lowest if lowest < 100 else 0.0
    layout = go.Layout(
        xaxis=seconds_axis("total wait of a task", range=[-0.05, float(np.log10(longest)) + 0.05]),
        yaxis={"title_text": f"{kind} tasks [%]", "range": [max(0.0, 0.9 * lowest - 5), 101]},
        hovermode="closest",
    )
    return Chart(
        f"Waits of {kind} tasks",
        f"Share of {kind} tasks that waited at most this long; further up and left is better. "
        "Waits below one second stand at one second.",
        data,
        layout,
        wide=False,
    )


def allocation_chart(results: Sequence[Prepared], workload: Workload) -> Chart:
    """GPUs held by each class over time, one panel per scheduler."""
    gpus = sum(workload.capacity().values())
    panels = max(len(results), 1)
    gap = 0.3 / panels if panels > 1 else 0.0
    height = (1 - gap * (panels - 1)) / panels
    layout = go.Layout(hovermode="x unified", legend={"x": 1, "xanchor": "right"})
    spans = [r.metrics.span for r in results] or [(0.0, 1.0)]
    whole = (min(begin for begin, _ in spans), max(end for _, end in spans))
    data, axis = [], TimeAxis.over(whole, first_day=results[0].first_day if results else None)
    for i, r in enumerate(results):
        suffix, top, last = "" if i == 0 else str(i + 1), 1 - i * (height + gap), i == panels - 1
        for name, colour, share in zip(("HP", "spot"), (HP, SPOT), allocation(r, axis, gpus), strict=True):
            panel = {"legendgroup": name, "showlegend": i == 0, "xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
            data.append(area(name, share, colour, f"panel{i}", hovertemplate="%{y:.1f}%", **axis.steps, **panel))
        layout[f"yaxis{suffix}"] = {
            "domain": [max(0.0, top - height), top],
            "range": [0, 102],
            "tickvals": [0, 50, 100],
            "ticktext": ["0%", "50%", "100%"],
        }
        title = axis.layout["title_text"] if last else ""
        beside = {"anchor": f"y{suffix}", "showticklabels": last, "title_text": title}
        layout[f"xaxis{suffix}"] = {**axis.layout, **beside, **({"matches": "x"} if i else {})}
        text = f"<b>{html.escape(r.name)}</b>: {percent(r.metrics.allocation_rate_total)} allocated"
        place = {"x": 0, "y": top, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
        layout.annotations = [*layout.annotations, {"text": text, "showarrow": False, **place}]
    return Chart(
        "GPUs held by HP and spot tasks",
        f"Share of all {gpus:,} GPUs, {axis.resolution}; what is missing to 100% is idle.",
        data,
        layout,
        height=90 + 150 * panels,
    )


def eviction_chart(results: Sequence[Prepared], colours: Mapping[str, str]) -> Chart:
    """Evictions by hour of the day; a scheduler of leases evicts nothing."""
    draw = go.Bar if len(results) <= 3 else go.Scatter
    data = [
        draw(
            name=html.escape(r.name),
            x=list(range(24)),
            y=evictions_by_hour(r),
            marker_color=colours[r.name],
            hovertemplate="%{y} evictions<extra>" + html.escape(r.name) + "</extra>",
        )
        for r in results
        if not r.metrics.leases
    ]
    return Chart(
        "Evictions by hour of day",
        "Spot runs evicted in each hour of the day, all days together; time 0 of the trace is midnight.",
        data,
        go.Layout(showlegend=True, xaxis=day_axis(), yaxis=zero_based("evicted runs")),
    )


def quota_chart(name: str, quota: pa.Table, axis: TimeAxis) -> Chart:
    """The spot quota and what is used of it."""
    limit, used = quota_over_time(quota, axis)
    return Chart(
        f"Spot quota of {name}",
        f"GPUs that spot tasks may hold and do hold, all pools together, {axis.resolution}. "
        "A quota below what is in use stops new runs; it ends none.",
        [
            area("in use by spot", used, SPOT, "spot", **axis.steps),
            curve("quota", limit, CAPACITY, width=2, shape="hvh", **axis.steps),
        ],
        go.Layout(hovermode="x unified", xaxis=axis.layout, yaxis=zero_based("GPUs")),
    )


def heat_chart(of: Prepared, events: pa.Table, workload: Workload, axis: TimeAxis) -> Chart:
    """How full each node is over time."""
    labels, share = node_heat(of, events, workload, axis)
    shared = any(label.endswith("…") for label in labels)
    return Chart(
        f"Allocation of each node under {of.name}",
        f"Share of a node's GPUs that is allocated, {axis.resolution}."
        + (" Neighbouring nodes share a row, named after the first of them." if shared else ""),
        [node_heat_map(labels, share.astype(np.int64), "allocated [%]", **axis.steps)],
        go.Layout(
            xaxis={**axis.layout, "showgrid": False},
            yaxis={"type": "category", "autorange": "reversed", "showgrid": False, "nticks": 16},
        ),
        height=min(620, 180 + 14 * len(labels)),
    )


def time_unit(longest: float) -> tuple[float, str]:
    """Divisor and name of the unit in which lengths up to `longest` seconds read well."""
    if longest < 180:
        return 1.0, "s"
    return (60.0, "min") if longest < 3 * HOUR else (HOUR, "h")
