"""The page that shows a trace before anything is scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from gfs.domain.task import Priority
from gfs.domain.units import DAY, HOUR
from gfs.report.columns import short_seconds
from gfs.report.figures import HP, SERIES, SPOT, area, curve, dashed, day_axis, seconds_axis, sizes_layout, zero_based
from gfs.report.hours import Clock
from gfs.report.page import Chart, PageSection, Paragraph, write_page
from gfs.report.series import MOST_POINTS, TimeAxis
from gfs.report.trace_tables import classes_table, pools_table
from gfs.telemetry.runs import SIZES, Floats
from gfs.workloads.inspection import OTHERS, Cdf, Inspection, PoolLoad

COLOURS = {Priority.HP: HP, Priority.SPOT: SPOT}
NAMES = {Priority.HP: "HP", Priority.SPOT: "spot"}
HOVER = "%{y:,.1f} GPUs"


def inspection_page(inspection: Inspection, out: Path, first_day: date | None = None) -> None:
    """Write what `gfs trace inspect` shows as one self-contained HTML file, with dates if the first day is known.

    Raises InputError when the file cannot be written.
    """
    seen = inspection
    sections = [PageSection("The cluster and what is asked of it", [pools_table(seen)])]
    if any(c.tasks for c in seen.classes):
        sections += [
            PageSection("GPU requests", [requests_chart(seen, "pod"), requests_chart(seen, "task")]),
            PageSection("Durations", [_running(seen), running_by_size_chart(seen), classes_table(seen)]),
            PageSection("Demand of the organizations", [demand_chart(seen, first_day)]),
            PageSection("Load against capacity", [_load(seen, pool, first_day) for pool in seen.load if _asked(pool)]),
            PageSection("Hour of day", [_arrivals(seen)]),
        ]
    else:
        sections.append(PageSection("Tasks", [Paragraph("The trace has no tasks.", lead=True)]))
    write_page(out, f"Trace: {seen.name}", _subtitle(seen, first_day), sections)


def _subtitle(seen: Inspection, first_day: date | None) -> str:
    hp, spot = seen.classes
    days = (seen.last_submission - seen.first_submission) / DAY
    length = f"{days:.1f} days" if days >= 1 else f"{days * 24:.1f} hours"
    if first_day is not None:
        clock = Clock(first_day)
        first, last = (clock.words(int(second // HOUR)) for second in (seen.first_submission, seen.last_submission))
        length += f", from {first} to {last}"
    return (
        f"{hp.tasks:,} high-priority (HP) and {spot.tasks:,} spot tasks "
        f"of {seen.organizations:,} organizations, submitted over {length}."
    )


def requests_chart(seen: Inspection, level: str) -> Chart:
    """How many GPUs a pod, or a whole task, asks for."""
    data, largest = [], 8.0
    for c in seen.classes:
        cdf: Cdf = c.pod_requests if level == "pod" else c.task_requests
        if not cdf.values:
            continue
        largest = max(largest, float(cdf.values[-1]))
        shares = [0.0, *(round(100 * s, 3) for s in cdf.shares)]
        mode = "lines+markers" if len(cdf.values) <= 12 else "lines"
        hover, x = "%{y:.1f}% ask for at most %{x:g} GPUs", [cdf.values[0], *cdf.values]
        data.append(curve(NAMES[c.priority], shares, COLOURS[c.priority], hover, x=x, shape="hv", mode=mode))
    ticks = [t for t in (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096) if t <= largest]
    whole = ", all their pods together" if level == "task" else ""
    axis = {"type": "log", "title_text": f"GPUs per {level}", "tickvals": ticks, "ticktext": [f"{t:g}" for t in ticks]}
    layout = go.Layout(xaxis=axis, yaxis={"title_text": f"{level}s [%]", "range": [0, 102]}, showlegend=True)
    caption = f"Share of {level}s that ask for at most so many GPUs{whole}."
    return Chart(f"GPUs per {level}", caption, data, layout, wide=False)


def _running(seen: Inspection) -> Chart:
    data = [
        curve(
            NAMES[c.priority],
            100 * np.asarray(c.running_cdf.shares),
            COLOURS[c.priority],
            "%{y:.1f}% run at most %{x:,.0f} s",
            x=np.maximum(np.asarray(c.running_cdf.values), 1.0),
        )
        for c in seen.classes
        if c.tasks
    ]
    shares = {"title_text": "tasks [%]", "range": [0, 102]}
    layout = go.Layout(xaxis=seconds_axis("duration"), yaxis=shares, showlegend=True)
    return Chart("Duration", "Share of tasks that run at most this long.", data, layout, wide=False)


def running_by_size_chart(seen: Inspection) -> Chart:
    """Median as a dot, p90 as a diamond: the tail is what keeps GPUs taken."""
    labels = {size for c in seen.classes for size, _ in c.running_by_size}
    order = [label for label, _ in SIZES if label in labels]
    data = []
    for c in seen.classes:
        sizes = [s for s, _ in c.running_by_size]
        times = [d for _, d in c.running_by_size]
        if c.tasks:
            data.append(size_points(c.priority, "median", sizes, [d.p50 for d in times]))
            data.append(size_points(c.priority, "p90", sizes, [d.p90 for d in times]))
    caption = "Median and 90th percentile for tasks of so many GPUs."
    return Chart("Duration by size of the task", caption, data, sizes_layout(order), wide=False)


def size_points(priority: Priority, what: str, sizes: Sequence[str], seconds: Sequence[float], **more: Any) -> Any:
    """Times of tasks of each size: dots, p90 as diamonds."""
    style = {
        "symbol": "diamond-open" if what == "p90" else "circle",
        "size": 10,
        "color": COLOURS[priority],
        "line": {"width": 2, "color": COLOURS[priority]},
    }
    return go.Scatter(
        mode="markers",
        name=f"{NAMES[priority]} {what}",
        x=list(sizes),
        y=[max(v, 1.0) for v in seconds],
        text=[short_seconds(v) for v in seconds],
        marker=style,
        hovertemplate="%{x} GPUs: %{text}<extra>%{fullData.name}</extra>",
        **more,
    )


def demand_chart(seen: Inspection, first_day: date | None = None) -> Chart:
    """GPUs of the organizations over time."""
    axis = _axis(seen, first_day)
    data = []
    for i, d in enumerate(seen.demand):
        rest = d.organization == OTHERS and i == len(seen.demand) - 1
        colour = SERIES[-1] if rest else SERIES[i % (len(SERIES) - 1)]
        data.append(curve(d.organization, _thin(d.gpus), colour, width=1.6, hovertemplate=HOVER, **axis.steps))
    caption = f"What would run if every task started when it is submitted, HP and spot together, {axis.resolution}."
    layout = go.Layout(hovermode="x unified", showlegend=True, xaxis=axis.layout, yaxis=zero_based("GPUs"))
    return Chart("GPUs asked by each organization", caption, data, layout, height=400)


def _load(seen: Inspection, pool: PoolLoad, first_day: date | None) -> Chart:
    axis = _axis(seen, first_day)
    shown = {"hovertemplate": HOVER, **axis.steps}
    data = [area("HP", _thin(pool.hp), HP, "load", **shown), area("spot", _thin(pool.spot), SPOT, "load", **shown)]
    limit = dashed(y=pool.cards, width=2)
    return Chart(
        f"{pool.gpu_model}: GPUs asked for against {pool.cards:,} GPUs of the pool",
        f"Above the dashed line tasks have to wait, {axis.resolution}.",
        data,
        go.Layout(hovermode="x unified", xaxis=axis.layout, yaxis=zero_based("GPUs"), shapes=[limit]),
        height=280,
        wide=sum(_asked(p) for p in seen.load) == 1,
    )


def _arrivals(seen: Inspection) -> Chart:
    data = [
        go.Bar(
            name=NAMES[c.priority],
            x=list(range(24)),
            y=[100 * n / c.tasks for n in c.arrivals_by_hour],
            customdata=list(c.arrivals_by_hour),
            marker_color=COLOURS[c.priority],
            hovertemplate="%{y:.1f}% (%{customdata:,} tasks)<extra>" + NAMES[c.priority] + "</extra>",
        )
        for c in seen.classes
        if c.tasks
    ]
    layout = go.Layout(showlegend=True, xaxis=day_axis(), yaxis_title_text="tasks [%]")
    caption = "Share of the tasks of a class submitted in each hour; time 0 of the trace is midnight."
    return Chart("Submissions by hour of day", caption, data, layout)


def _asked(pool: PoolLoad) -> bool:
    return bool(pool.hp.any() or pool.spot.any())


def _thin(series: Floats) -> Floats:
    """Averages of neighbouring bins, so that a line has no more points than a screen can show."""
    factor = max(1, ceil(len(series) / MOST_POINTS))
    if factor == 1:
        return series
    edges = np.arange(0, len(series), factor)
    counts = np.diff(np.append(edges, len(series)))
    averages: Floats = np.add.reduceat(series, edges) / counts
    return averages


def _axis(seen: Inspection, first_day: date | None) -> TimeAxis:
    """The bins of an inspection, as many of them together as `_thin` averages."""
    bins = len(_thin(seen.bin_start))
    width = seen.bin_seconds * max(1, ceil(len(seen.bin_start) / MOST_POINTS))
    return TimeAxis(float(seen.bin_start[0]) if bins else 0.0, width, bins, first_day)
