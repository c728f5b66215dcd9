"""The paper's section 2 on the whole cluster: what is asked of it, how long tasks run and wait, who is evicted when."""

from __future__ import annotations

import html
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from gfs.domain.task import Kind
from gfs.domain.units import DAY, HOUR
from gfs.experiments.deployment import BEFORE, of_model, whole_cluster
from gfs.experiments.exhibit import Exhibit, Experiment, Verdict
from gfs.experiments.jobs import Answer, Answers, Job
from gfs.experiments.paper import paper
from gfs.experiments.setup import Setup
from gfs.experiments.traces import Trace, load
from gfs.experiments.views import WEEK
from gfs.report.charts import FINE_TEXT, FINE_TICKS
from gfs.report.columns import NOTHING, amount, percent, short_seconds
from gfs.report.inspection_page import COLOURS, NAMES, _demand, _requests, _running_by_size
from gfs.report.page import Block, Chart, DataTable
from gfs.report.palette import SERIES
from gfs.telemetry.inspection import Cdf, ClassSummary, Durations, Inspection, OrganizationDemand, inspect
from gfs.telemetry.runs import TaskColumns

ORGANIZATIONS = 4
WEEKS = 4
POINTS = 200
"""Of a distribution, at most."""


class TraceStatistics(NamedTuple):
    """What a trace asks for, before anything is scheduled."""

    trace: Trace

    @property
    def label(self) -> str:
        """Such as 'statistics of production x1, seed 0'."""
        return f"statistics of {self.trace.label}"

    @property
    def weight(self) -> float:
        """Little more than reading the trace."""
        return 3.0

    def identity(self) -> dict[str, Any]:
        """The trace is all."""
        return {"job": "trace statistics", "trace": self.trace.identity()}

    def run(self) -> Answer:
        """Look at it: distributions thinned, demand of a week and of the largest organizations."""
        workload = load(self.trace)
        seen = inspect(workload, ORGANIZATIONS)
        tasks = TaskColumns.of(workload)
        some = len(tasks.duration) > 0
        submitted = seen.last_submission - seen.first_submission
        begin = seen.first_submission + (WEEK if submitted > 2 * WEEK - DAY else 0.0)
        week = (seen.bin_start + seen.bin_seconds > begin) & (seen.bin_start < begin + WEEK)
        return {
            "submissions": [seen.first_submission, seen.last_submission],
            "pools": [asdict(pool) for pool in seen.pools],
            "classes": [_thin_class(c) for c in seen.classes],
            "organizations": seen.organizations,
            "bin_seconds": seen.bin_seconds,
            "bin_start": seen.bin_start[week].tolist(),
            "demand": [
                {"organization": d.organization, "gpus": np.round(d.gpus[week], 3).tolist()}
                for d in seen.demand[:ORGANIZATIONS]
            ],
            "running_percentiles": np.percentile(tasks.duration, (90, 99)).tolist() if some else [0.0, 0.0],
            "whole_card_pods": _pod_share(seen, 1.0),
            "eight_card_pods": _pod_share(seen, 8.0),
        }


def _pod_share(seen: Inspection, gpus: float) -> float:
    """Share of all pods that ask for at least so many GPUs."""
    pods = sum(c.pods for c in seen.classes)
    return sum(c.pods * (1 - c.pod_requests.at(gpus - 1e-6)) for c in seen.classes if c.pods) / max(pods, 1)


def _thin_class(c: ClassSummary) -> dict[str, Any]:
    thin = {name: asdict(_thin(getattr(c, name))) for name in ("pod_requests", "task_requests", "running_cdf")}
    return {**asdict(c), **thin, "kind": c.kind.label}


def _thin(cdf: Cdf) -> Cdf:
    last = len(cdf.values) - 1
    kept = sorted({round(last * i / (POINTS - 1)) for i in range(POINTS)}) if last >= POINTS else range(last + 1)
    return Cdf(tuple(cdf.values[i] for i in kept), tuple(cdf.shares[i] for i in kept))


def _restored(trace: Answer) -> Inspection:
    """What the charts of a trace look at."""

    def cdf(found: dict[str, Any]) -> Cdf:
        return Cdf(tuple(found["values"]), tuple(found["shares"]))

    classes = tuple(
        ClassSummary(
            **{
                **c,
                "kind": next(kind for kind in Kind if kind.label == c["kind"]),
                **{name: cdf(c[name]) for name in ("pod_requests", "task_requests", "running_cdf")},
                "running": Durations(**c["running"]),
                "running_by_size": tuple((size, Durations(**times)) for size, times in c["running_by_size"]),
            }
        )
        for c in trace["classes"]
    )
    return Inspection(
        name="",
        first_submission=trace["submissions"][0],
        last_submission=trace["submissions"][1],
        pools=(),
        classes=classes,
        organizations=trace["organizations"],
        bin_start=np.asarray(trace["bin_start"]),
        bin_seconds=trace["bin_seconds"],
        demand=tuple(OrganizationDemand(d["organization"], np.asarray(d["gpus"]), 0.0) for d in trace["demand"]),
        load=(),
    )


def jobs(setup: Setup) -> list[Job]:
    """The trace itself, and a run under a static quota."""
    run = whole_cluster(setup, BEFORE, "evictions", "waits", "pools")
    return [TraceStatistics(run.trace), run]


def exhibit(setup: Setup, answers: Answers) -> Exhibit:
    """A table of the pools and the figures of section 2."""
    trace, run = (answers[job] for job in jobs(setup))
    beside = setup.given is None
    shows = (
        "What the cluster has and what is asked of it; how long tasks run, and how long they wait and how often"
        f" spot tasks are evicted under {BEFORE}: first fit and a fixed share of each pool for spot tasks."
    )
    blocks: list[Block] = [_pools(trace, run, beside=beside)]
    if not any(c["tasks"] for c in trace["classes"]):
        return Exhibit(shows, blocks, missing=["The trace has no tasks: there is nothing else to show."])
    seen, evictions = _restored(trace), Evictions.of(trace, run)
    blocks += [_requests(seen, "pod"), _requests(seen, "task"), _running_by_size(seen), _waits(run)]
    blocks.append(_demand(seen))
    if evictions.ended.any():
        blocks.append(_eviction_chart(evictions))
    verdicts = _verdicts(trace, run, evictions) if beside else ()
    return Exhibit(shows, blocks, verdicts, _missing(trace, evictions))


class Evictions(NamedTuple):
    """Spot runs that ended and those evicted: (weeks, hours of the day)."""

    ended: Any
    evicted: Any

    @classmethod
    def of(cls, trace: Answer, run: Answer) -> Evictions:
        """Of the weeks in which tasks are submitted, four at most."""
        first, last = trace["submissions"]
        weeks = min(WEEKS, max(1, int((last - first + DAY) // WEEK)))
        view = run["views"]["evictions"]
        return cls(np.asarray(view["ended"])[:weeks], np.asarray(view["evicted"])[:weeks])

    def rates(self) -> list[float | None]:
        """Percent by hour of the day, all weeks together; None where no run ended."""
        return _rates(self.ended.sum(axis=0), self.evicted.sum(axis=0))


def _rates(ended: Any, evicted: Any) -> list[float | None]:
    return [100 * int(e) / int(n) if n else None for n, e in zip(ended, evicted, strict=True)]


def _missing(trace: Answer, evictions: Evictions) -> list[str]:
    hp, spot = (c["tasks"] for c in trace["classes"])
    words = []
    if not hp:
        words.append("The trace has no HP tasks: nothing evicts the spot tasks.")
    if not spot:
        words.append("The trace has no spot tasks: there are no evictions to show.")
    if trace["organizations"] < ORGANIZATIONS:
        some = "one organization" if trace["organizations"] == 1 else f"{trace['organizations']} organizations"
        words.append(f"The trace has {some}: the demand of four cannot be compared.")
    hours = len(trace["bin_start"])
    if hours < WEEK / trace["bin_seconds"]:
        words.append(f"The trace asks for GPUs in {hours} hours: the demand of a whole week cannot be shown.")
    if spot and len(evictions.ended) < WEEKS:
        first, last = trace["submissions"]
        words.append(
            f"Tasks are submitted over {short_seconds(last - first)}: of four weeks of evictions,"
            f" {len(evictions.ended)} can be shown."
        )
    return words


def _pools(trace: Answer, run: Answer, *, beside: bool) -> DataTable:
    theirs, before = paper()["statistics"], paper()["deployment"]["allocation_before"]
    header = ["GPU model", "nodes", *["paper"] * beside, "cards a node", *["paper"] * beside, "cards"]
    header += ["HP tasks", "spot tasks", "HP asks", "spot asks", "in use", *["paper"] * beside]
    rows = []
    for pool in trace["pools"]:
        model = pool["gpu_model"]
        nodes, cards, rate = (
            of_model(values, model) for values in (theirs["nodes_above"], theirs["cards_a_node"], before)
        )
        row = [model, amount(pool["nodes"]), *[NOTHING if nodes is None else f">{nodes:g}"] * beside]
        row.append(", ".join(str(size) for size, _ in pool["node_sizes"]))
        row += [NOTHING if cards is None else f"{cards:g}"] * beside
        row += [amount(pool["cards"]), amount(pool["hp_tasks"]), amount(pool["spot_tasks"])]
        row += [percent(pool["hp_load"]), percent(pool["spot_load"])]
        row += [percent(run["views"]["pools"][model]["allocation"])]
        rows.append([*row, *[NOTHING if rate is None else f"{rate:.2f}%"] * beside])
    return DataTable(
        header,
        rows,
        note="HP asks, spot asks: mean share of the cards asked for while tasks are submitted, if all started at"
        f" once. In use: mean share allocated under {BEFORE} in that time.",
    )


def _waits(run: Answer) -> Chart:
    """Mean as a dot, p90 as a diamond, as for the running times beside it."""
    data: list[dict[str, Any]] = []
    for kind in Kind:
        rows = run["views"]["waits"][NAMES[kind]]
        for column, what, symbol in ((2, "mean", "circle"), (3, "p90", "diamond-open")):
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"{NAMES[kind]} {what}",
                    "x": [row[0] for row in rows],
                    "y": [max(row[column], 1.0) for row in rows],
                    "text": [short_seconds(row[column]) for row in rows],
                    "marker": {
                        "symbol": symbol,
                        "size": 10,
                        "color": COLOURS[kind],
                        "line": {"width": 2, "color": COLOURS[kind]},
                    },
                    "hovertemplate": "%{x} GPUs: %{text}<extra>%{fullData.name}</extra>",
                }
            )
    sizes = ("<1", "1", "2-3", "4-7", "8", ">8")
    return Chart(
        "Queuing time by size of the task",
        f"Mean and 90th percentile of all waits of a task of so many GPUs, under {BEFORE}. A mean above its 90th"
        " percentile: a few tasks wait very long.",
        [points for points in data if points["x"]],
        {
            "xaxis": {
                "type": "category",
                "categoryorder": "array",
                "categoryarray": list(sizes),
                "title": {"text": "GPUs per task"},
            },
            "yaxis": {"type": "log", "tickvals": list(FINE_TICKS), "ticktext": list(FINE_TEXT)},
        },
        wide=False,
    )


def _eviction_chart(evictions: Evictions) -> Chart:
    """A thin line a week, a thick one for all."""
    weeks = len(evictions.ended)
    lines = [
        (f"week {i + 1}", _rates(evictions.ended[i], evictions.evicted[i]), SERIES[i + 2], 1.2)
        for i in range(weeks)
        if weeks > 1
    ]
    lines.append(("all weeks" if weeks > 1 else "all days", evictions.rates(), "#d1495b", 3.2))
    total = f"{evictions.evicted.sum():,} of {evictions.ended.sum():,} runs"
    return Chart(
        "Spot runs evicted, by hour of day",
        f"Of the spot runs that end in an hour of the day, the share that ends by eviction, under {BEFORE}:"
        f" {total} in all. An hour without such a run is a gap; time 0 of the trace is midnight.",
        [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": list(range(24)),
                "y": rates,
                "line": {"color": colour, "width": width},
                "marker": {"size": 3 + width, "color": colour},
                "hovertemplate": "%{x}:00: %{y:.1f}%<extra>" + html.escape(name) + "</extra>",
            }
            for name, rates, colour, width in lines
        ],
        {
            "showlegend": True,
            "xaxis": {"title": {"text": "hour of day"}, "dtick": 3, "range": [-0.6, 23.6]},
            "yaxis": {"title": {"text": "spot runs evicted [%]"}, "rangemode": "tozero"},
        },
    )


def _verdicts(trace: Answer, run: Answer, evictions: Evictions) -> list[Verdict]:
    return [*_request_verdicts(trace), *_wait_verdicts(run), *_use_verdicts(trace, run), *_when_verdicts(trace, evictions)]
