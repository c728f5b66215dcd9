"""The charts of a comparison."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload
from gfs.report.columns import percent, short_seconds
from gfs.report.page import Chart
from gfs.report.palette import HEAT, HP, SPOT
from gfs.report.series import (
    Prepared,
    TimeAxis,
    allocation,
    evictions_by_hour,
    node_heat,
    quota_over_time,
    waits,
)

SECONDS_TICKS = (1, 10, 60, 600, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY)
SECONDS_TEXT = ("≤1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 day", "1 week", "30 days")


FINE_TICKS = (1, 10, 60, 300, 900, 1800, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY)
FINE_TEXT = (
    *("≤1 s", "10 s", "1 min", "5 min", "15 min", "30 min", "1 h", "3 h", "6 h", "12 h"),
    *("1 day", "3 days", "1 week", "30 days"),
)
LABEL_PLACES = ("top center", "bottom center", "middle left", "middle right")


def tradeoff_chart(results: Sequence[Prepared], colours: Mapping[str, str]) -> Chart:
    """Every scheduler as a point: evictions to the right, waiting upwards; the corner at zero is ideal."""
    scale, unit = time_unit(max((r.metrics.spot.jqt_mean for r in results), default=0.0))
    data: list[dict[str, Any]] = []
    places = [(0.0 if r.metrics.leases else r.metrics.spot.eviction_rate, r.metrics.spot.jqt_mean) for r in results]
    labelled = len(results) <= len(LABEL_PLACES) and not _crowded(places)  # else a legend names them
    for i, r in enumerate(results):
        spot = r.metrics.spot
        rate = 100 * places[i][0]
        said = "suspends, evicts nothing" if r.metrics.leases else f"{percent(spot.eviction_rate)} evicted"
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text" if labelled else "markers",
                "name": html.escape(r.name),
                "x": [rate],
                "y": [spot.jqt_mean / scale],
                "text": [html.escape(r.name)],
                "textposition": LABEL_PLACES[i % len(LABEL_PLACES)],
                "cliponaxis": False,
                "showlegend": not labelled,
                "marker": {
                    "size": 16,
                    "color": colours[r.name],
                    "symbol": "circle-open" if r.metrics.leases else "circle",
                },
                "hovertemplate": f"%{{text}}: {said}, waits {short_seconds(spot.jqt_mean)}<extra></extra>",
            }
        )
    right = max((d["x"][0] for d in data), default=0.0)
    top = max((d["y"][0] for d in data), default=0.0)
    return Chart(
        "Spot waiting and evictions",
        "Towards the lower left is better: short waits and few evictions at once.",
        data,
        {
            "xaxis": {
                "title": {"text": "spot runs evicted [%]"},
                "range": [-0.15 * (right or 1), 1.25 * (right or 1)],
                "zeroline": True,
            },
            "yaxis": {
                "title": {"text": f"mean spot wait [{unit}]"},
                "range": [-0.15 * (top or 1), 1.25 * (top or 1)],
                "zeroline": True,
            },
        },
        wide=False,
    )


def _crowded(places: Sequence[tuple[float, float]]) -> bool:
    """Whether the labels of two points would be written over each other."""
    right, top = (max(values, default=0.0) or 1.0 for values in zip(*places, strict=True)) if places else (1.0, 1.0)
    return any(abs(a[0] - b[0]) < 0.25 * right and abs(a[1] - b[1]) < 0.15 * top for a, b in combinations(places, 2))


def wait_bars(results: Sequence[Prepared]) -> Chart:
    """Mean waits of both classes, one group a scheduler."""
    worst = max((max(r.metrics.hp.jqt_mean, r.metrics.spot.jqt_mean) for r in results), default=0.0)
    scale, unit = time_unit(worst)
    data = []
    for name, colour, values in (
        ("HP", HP, [r.metrics.hp.jqt_mean for r in results]),
        ("spot", SPOT, [r.metrics.spot.jqt_mean for r in results]),
    ):
        data.append(
            {
                "type": "bar",
                "name": name,
                "x": [html.escape(r.name) for r in results],
                "y": [v / scale for v in values],
                "text": [short_seconds(v) for v in values],
                "textposition": "outside",
                "cliponaxis": False,
                "marker": {"color": colour},
                "hovertemplate": "%{x}: %{text}<extra>" + name + "</extra>",
            }
        )
    top = 1.12 * worst / scale or 1.0
    return Chart(
        "Mean wait by class",
        "All queuing of a task until it finishes, averaged over the tasks of a class.",
        data,
        {
            "barmode": "group",
            "xaxis": {"type": "category"},
            "yaxis": {"title": {"text": f"mean wait [{unit}]"}, "range": [0, top]},
        },
        wide=False,
    )


def wait_chart(results: Sequence[Prepared], colours: Mapping[str, str], *, spot: bool) -> Chart:
    """Cumulative distribution of the waits of one class."""
    data: list[dict[str, Any]] = []
    longest = 1.0
    for r in results:
        seconds, share = waits(r, spot=spot)
        longest = max(longest, float(seconds[-1]) if len(seconds) else 1.0)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": html.escape(r.name),
                "x": np.maximum(seconds, 1.0),
                "y": share,
                "line": {"color": colours[r.name], "width": 2.2},
                "hovertemplate": "%{y:.1f}% waited at most %{x:,.0f} s<extra>" + html.escape(r.name) + "</extra>",
            }
        )
    kind = "spot" if spot else "HP"
    lowest = min((float(d["y"][np.searchsorted(d["x"], 1.0, "right") - 1]) for d in data if len(d["x"])), default=0.0)
    return Chart(
        f"Waits of {kind} tasks",
        f"Share of {kind} tasks that waited at most this long; further up and left is better. "
        "Waits below one second stand at one second.",
        data,
        {
            "xaxis": {
                "type": "log",
                "title": {"text": "total wait of a task"},
                "tickvals": list(SECONDS_TICKS),
                "ticktext": list(SECONDS_TEXT),
                "range": [-0.05, float(np.log10(max(longest, 10.0))) + 0.05],
            },
            "yaxis": {"title": {"text": f"{kind} tasks [%]"}, "range": [max(0.0, 0.9 * lowest - 5), 101]},
            "hovermode": "closest",
        },
        wide=False,
    )


def allocation_chart(results: Sequence[Prepared], workload: Workload) -> Chart:
    """Cards held by each class over time, one panel a scheduler."""
    cards = sum(workload.capacity().values())
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"hovermode": "x unified", "annotations": []}
    panels = max(len(results), 1)
    gap = 0.3 / panels if panels > 1 else 0.0
    height = (1 - gap * (panels - 1)) / panels
    axis = TimeAxis.over((0.0, 1.0))
    for i, r in enumerate(results):
        axis = TimeAxis.over(r.metrics.span)
        suffix = "" if i == 0 else str(i + 1)
        top = 1 - i * (height + gap)
        for name, colour, share in zip(("HP", "spot"), (HP, SPOT), allocation(r, axis, cards), strict=True):
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "x": axis.x,
                    "y": share,
                    "stackgroup": f"panel{i}",
                    "line": {"width": 0.6, "color": colour, "shape": "hvh"},
                    "fillcolor": colour + "c0",
                    "legendgroup": name,
                    "showlegend": i == 0,
                    "xaxis": f"x{suffix}",
                    "yaxis": f"y{suffix}",
                    "hovertemplate": "%{y:.1f}%",
                }
            )
        layout[f"yaxis{suffix}"] = {
            "domain": [max(0.0, top - height), top],
            "range": [0, 102],
            "tickvals": [0, 50, 100],
            "ticktext": ["0%", "50%", "100%"],
        }
        last = i == panels - 1
        layout[f"xaxis{suffix}"] = {
            "anchor": f"y{suffix}",
            "showticklabels": last,
            "title": {"text": axis.title if last else ""},
            **({"matches": "x"} if i else {}),
        }
        layout["annotations"].append(
            {
                "text": f"<b>{html.escape(r.name)}</b>: {percent(r.metrics.allocation_rate_total)} in use",
                "x": 0,
                "y": top,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
    layout["legend"] = {"x": 1, "xanchor": "right"}
    return Chart(
        "Cards held by HP and spot tasks",
        f"Share of all {cards:,} cards, {axis.resolution}; what is missing to 100% is idle.",
        data,
        layout,
        height=90 + 150 * panels,
    )


def eviction_chart(results: Sequence[Prepared], colours: Mapping[str, str]) -> Chart:
    """Evictions by hour of the day; a scheduler of leases evicts nothing."""
    data = [
        {
            "type": "bar" if len(results) <= 3 else "scatter",
            "mode": "lines+markers",
            "name": html.escape(r.name),
            "x": list(range(24)),
            "y": evictions_by_hour(r),
            "marker": {"color": colours[r.name]},
            "line": {"color": colours[r.name]},
            "hovertemplate": "%{y} evictions<extra>" + html.escape(r.name) + "</extra>",
        }
        for r in results
        if not r.metrics.leases
    ]
    for trace in data:
        if trace["type"] == "bar":
            del trace["mode"], trace["line"]
    return Chart(
        "Evictions by hour of day",
        "Spot runs evicted in each hour of the day, all days together; time 0 of the trace is midnight.",
        data,
        {
            "barmode": "group",
            "showlegend": True,
            "xaxis": {"title": {"text": "hour of day"}, "dtick": 3, "range": [-0.6, 23.6]},
            "yaxis": {"title": {"text": "evicted runs"}, "rangemode": "tozero"},
        },
    )


def quota_chart(name: str, quota: pa.Table, axis: TimeAxis) -> Chart:
    """The spot quota and what is used of it."""
    limit, used = quota_over_time(quota, axis)
    return Chart(
        f"Spot quota of {name}",
        f"GPUs that spot tasks may hold and do hold, all pools together, {axis.resolution}. "
        "A quota below what is in use stops new runs; it ends none.",
        [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "quota",
                "x": axis.x,
                "y": limit,
                "line": {"color": "#7b8494", "shape": "hvh", "width": 2},
            },
            {
                "type": "scatter",
                "mode": "lines",
                "name": "in use by spot",
                "x": axis.x,
                "y": used,
                "fill": "tozeroy",
                "fillcolor": SPOT + "60",
                "line": {"color": SPOT, "shape": "hvh", "width": 1.5},
            },
        ],
        {
            "hovermode": "x unified",
            "xaxis": {"title": {"text": axis.title}},
            "yaxis": {"title": {"text": "GPUs"}, "rangemode": "tozero"},
        },
    )


def heat_chart(of: Prepared, events: pa.Table, workload: Workload, axis: TimeAxis) -> Chart:
    """How full each node is over time."""
    labels, share = node_heat(of, events, workload, axis)
    shared = any(label.endswith("…") for label in labels)
    return Chart(
        f"Allocation of each node under {of.name}",
        f"Share of a node's cards that is allocated, {axis.resolution}."
        + (" Neighbouring nodes share a row, named after the first of them." if shared else ""),
        [
            {
                "type": "heatmap",
                "x": axis.x,
                "y": [html.escape(label) for label in labels],
                "z": share.astype(np.int64),
                "zmin": 0,
                "zmax": 100,
                "colorscale": HEAT,
                "colorbar": {
                    "title": {"text": "allocated [%]", "side": "right", "font": {"size": 12}},
                    "thickness": 12,
                    "outlinewidth": 0,
                },
                "hovertemplate": "%{y} at %{x:.4g}: %{z}%<extra></extra>",
            }
        ],
        {
            "xaxis": {"title": {"text": axis.title}, "showgrid": False},
            "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False, "nticks": 16},
        },
        height=min(620, 180 + 14 * len(labels)),
    )


def time_unit(longest: float) -> tuple[float, str]:
    """Divisor and name of the unit in which lengths up to `longest` seconds read well."""
    if longest < 180:
        return 1.0, "s"
    return (60.0, "min") if longest < 3 * HOUR else (HOUR, "h")
