"""Charts of the reports as figures of Plotly, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from gfs.assembly.result import RunResult
from gfs.domain.errors import InputError
from gfs.domain.text import suggestion
from gfs.domain.workload import Workload
from gfs.report import charts
from gfs.report.figures import TEMPLATE, colours_of
from gfs.report.page import Chart, Selected
from gfs.report.series import Prepared
from gfs.telemetry.runs import TaskColumns

PLOTS: Final = ("tradeoff", "waits", "hp-waits", "spot-waits", "allocation", "evictions", "quota", "nodes")
"""What can be drawn of runs; the last two are of the first run alone."""


def plot_runs(results: Sequence[RunResult], workload: Workload, what: str) -> go.Figure:
    """One of `PLOTS` of these runs; raises InputError for what cannot be drawn."""
    if what not in PLOTS:
        raise InputError(f"unknown plot {what!r}: {suggestion(what, PLOTS)}")
    tasks = TaskColumns.of(workload)
    prepared = [Prepared.of(result, workload, tasks) for result in results]
    colours, first = colours_of([result.scheduler for result in results]), prepared[0]
    match what:
        case "tradeoff":
            chart = charts.tradeoff_chart(prepared, colours)
        case "waits":
            chart = charts.wait_bars(prepared)
        case "hp-waits" | "spot-waits":
            chart = charts.wait_chart(prepared, colours, spot=what == "spot-waits")
        case "allocation":
            chart = charts.allocation_chart(prepared, workload)
        case "evictions":
            chart = charts.eviction_chart(prepared, colours)
        case "nodes":
            chart = charts.heat_chart(first, results[0].events, workload, first.axis(most=168))
        case _:
            quota = results[0].quota
            if quota is None or not quota.num_rows:
                raise InputError("no quota was recorded: simulate with record_quota=True and a quota")
            chart = charts.quota_chart(first.name, quota, first.axis())
    return figure_of(chart)


def figure_of(chart: Chart) -> go.Figure:
    """A chart as a figure of its own; of what a reader could choose on a page, the first."""
    figure = go.Figure([_chosen(trace) for trace in chart.data], _chosen(chart.layout))
    title = {"text": chart.title, "x": 0, "xanchor": "left"}
    return figure.update_layout(template=TEMPLATE, title=title, height=chart.height + 60, margin_t=70)


def _chosen(thing: go.Layout | go.Figure) -> go.Layout | go.Figure:
    found = type(thing)(thing)
    for path, choice in (found.meta or {}).items() if isinstance(found.meta, dict) else ():
        if isinstance(choice, Selected):
            value = choice.of
            for _ in choice.by:
                value = value[0]
            found[path] = value
    found.meta = None
    return found
