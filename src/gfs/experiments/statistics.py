"""The paper's section 2 on the whole cluster: what is asked of it, how tasks run and wait, who is evicted when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from gfs.batch.job import Job, JobResult, JobResults
from gfs.batch.simulation import GeneratedTrace
from gfs.domain.task import Priority
from gfs.domain.units import DAY, HOUR
from gfs.experiments.deployment import BEFORE, FEW, of_model, static_words, whole_cluster
from gfs.experiments.experiment import Experiment, Finding, Section, Setup, paper
from gfs.experiments.jobs import Simulation
from gfs.experiments.trace_statistics import ORGANIZATIONS, TraceStatistics, restored
from gfs.experiments.views import WEEK
from gfs.report.columns import NOTHING, amount, percent, short_seconds
from gfs.report.figures import SERIES, SPOT, curve, day_axis, sizes_layout, zero_based
from gfs.report.inspection_page import NAMES, demand_chart, requests_chart, running_by_size_chart, size_points
from gfs.report.page import Block, Chart
from gfs.report.table import DataTable
from gfs.workloads.calibration import figures

WEEKS = 4
WEEK_COLOURS = (SERIES[0], SERIES[2], SERIES[4], SERIES[6])
CROWDED = 16.0
"""Times the spot work of the trace: about what HP leaves of the A100 pool."""
STUCK = 0.1
"""Share of the GPUs that is asked for and not allocated from which a pool has a problem of its own."""


def _run(setup: Setup) -> Simulation:
    return whole_cluster(setup, BEFORE, "evictions", "waits", "pools")


def _crowded(setup: Setup) -> Simulation:
    """The same with so much spot work that it fills what HP leaves; on a given trace the run itself."""
    run = whole_cluster(setup, BEFORE, "evictions")
    if not isinstance(run.trace, GeneratedTrace):
        return _run(setup)
    return replace(run, trace=run.trace._replace(spot_scale=CROWDED))


def jobs(setup: Setup) -> list[Job]:
    """The trace itself, a run under a static quota, and one with more spot work."""
    return [TraceStatistics(_run(setup).trace), _run(setup), _crowded(setup)]


def section(setup: Setup, results: JobResults) -> Section:
    """A table of the pools and the figures of section 2."""
    trace, run, more = (results[job] for job in jobs(setup))
    beside = setup.given is None
    shows = (
        "What the cluster has and what is asked of it; how long tasks run, and how long they wait and how often"
        f" spot tasks are evicted under {BEFORE} ({static_words(_run(setup))})."
    )
    blocks: list[Block] = [_pools(trace, run, beside=beside)]
    seen, evictions = restored(trace), Evictions.of(trace, run)
    blocks += [requests_chart(seen, "pod"), requests_chart(seen, "task"), running_by_size_chart(seen), _waits(run)]
    blocks.append(demand_chart(seen))
    if evictions.ended.any():
        blocks.append(eviction_chart(evictions))
    findings = _findings(trace, run, evictions, Evictions.of(trace, more)) if beside else ()
    return Section(shows, blocks, findings, _missing(trace, evictions))


def _missing(trace: JobResult, evictions: Evictions) -> list[str]:
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
            f"Tasks are submitted over {short_seconds(last - first)}: evictions of four weeks cannot be compared."
        )
    return words


def _pools(trace: JobResult, run: JobResult, *, beside: bool) -> DataTable:
    theirs, before = paper()["statistics"], paper()["deployment"]["allocation_before"]
    header = ["GPU model", "nodes", *["paper"] * beside, "GPUs per node", *["paper"] * beside, "GPUs"]
    header += ["HP tasks", "spot tasks", "HP asks", "spot asks", "allocated", *["paper"] * beside]
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
        note="HP asks, spot asks: mean share of the GPUs asked for while tasks are submitted, if all started at"
        f" once. Allocated: mean share under {BEFORE} in that time.",
    )


def _stuck(run: JobResult) -> str:
    """Pools in which tasks wait though GPUs are free, in words."""
    words = [
        f" In {model}, {percent(pool['asked'])} of the GPUs are asked for and {percent(pool['allocation'])}"
        " allocated: tasks wait there though GPUs are free."
        for model, pool in run["views"]["pools"].items()
        if min(pool["asked"], 1.0) - pool["allocation"] > STUCK
    ]
    return "".join(words)


def _waits(run: JobResult) -> Chart:
    """Mean as a dot, p90 as a diamond, as for the running times beside it."""
    data = []
    for priority in Priority:
        rows = run["views"]["waits"][NAMES[priority]]
        sizes = [row[0] for row in rows]
        if rows:
            for column, what in ((2, "mean"), (3, "p90")):
                seconds = [row[column] for row in rows]
                data.append(size_points(priority, what, sizes, seconds, offsetgroup=NAMES[priority]))
    layout = sizes_layout(("<1", "1", "2-3", "4-7", "8", ">8"), "queuing time")
    layout.update(scattermode="group", scattergap=0.6)
    return Chart(
        "Queuing time by size of the task",
        f"Mean and 90th percentile of all waits of a task of so many GPUs, under {BEFORE}. A mean above its 90th"
        f" percentile: a few tasks wait very long.{_stuck(run)}",
        data,
        layout,
        wide=False,
    )


def _findings(trace: JobResult, run: JobResult, evictions: Evictions, crowded: Evictions) -> list[Finding]:
    """The paper's three observations, in its order."""
    return [
        *_request_findings(trace),
        _running_finding(trace),
        *_wait_findings(run),
        _use_finding(run),
        *_demand_findings(trace),
        *eviction_findings(trace, evictions, crowded),
    ]


def most_eight_card_pods() -> float:
    """The largest share of 8-card pods that the published totals of the trace leave room for.

    A10 nodes have one card. Of every other model at least half of the tasks ask for no more than its median, a card at
    least; all other GPUs may be in pods of eight.
    """
    totals = figures()["trace_totals"]
    eights = others = 0.0
    for model, jobs in totals["jobs_by_model"].items():
        small = jobs if model == "A10" else jobs / 2 if totals["median_gpu_request_by_model"][model] < 8 else 0.0
        others += small
        eights += 0.0 if model == "A10" else (jobs * totals["gpus_per_job_by_model"][model] - small) / 8
    return eights / (eights + others)


def _request_findings(trace: JobResult) -> list[Finding]:
    theirs = paper()["statistics"]
    whole, eight = 100 * trace["whole_card_pods"], 100 * trace["eight_card_pods"]
    return [
        Finding(
            f"Nearly {theirs['whole_card_pods']:g}% of pods ask for whole GPUs",
            whole >= theirs["whole_card_pods"] - 5,
            f"here {whole:.1f}%, all pools together.",
        ),
        Finding(
            f"{theirs['eight_card_pods']:g}% of pods ask for 8 cards",
            abs(eight - theirs["eight_card_pods"]) <= 10,
            f"here {eight:.1f}%, all pools together; the trace's own totals allow {100 * most_eight_card_pods():.0f}%.",
        ),
    ]


def _running_finding(trace: JobResult) -> Finding:
    theirs = paper()["statistics"]
    p90, p99 = trace["running_percentiles"]
    hours, days = theirs["running_p90_hours"], theirs["running_p99_days"]
    return Finding(
        f"Tasks run {hours:g} h at p90, {days:g} days at p99",
        _within_twice(p90, hours * HOUR) and _within_twice(p99, days * DAY),
        f"here {p90 / HOUR:.1f} h and {p99 / DAY:.1f} days; up to twice or half counts as agreeing. Of the trace's own"
        f" HP tasks p90 is {figures()['durations']['p90_seconds']['HP'] / HOUR:.1f} h.",
    )


def _within_twice(mine: float, theirs: float) -> bool:
    return theirs / 2 <= mine <= 2 * theirs


def _wait_findings(run: JobResult) -> list[Finding]:
    theirs = paper()["statistics"]
    rows = [row for priority in Priority for row in run["views"]["waits"][NAMES[priority]]]
    means, most = {}, {}
    for size in ("1", "8"):
        mine = [(count, mean, p90) for label, count, mean, p90 in rows if label == size]
        means[size] = sum(count * mean for count, mean, _ in mine) / max(sum(count for count, _, _ in mine), 1)
        most[size] = max((p90 for _, _, p90 in mine), default=0.0)
    hours = theirs["wait_eight_cards_hours"]
    short = most["8"] < hours * HOUR
    return [
        Finding(
            f"8-GPU tasks wait longer than 1-GPU tasks: {theirs['wait_eight_over_one']:g} times",
            means["8"] > means["1"],
            f"here {short_seconds(means['8'])} and {short_seconds(means['1'])} on average; the paper has medians."
            + _stuck(run),
        ),
        Finding(
            f"Half of the 8-GPU tasks wait {hours:g} h or more",
            False if short else None,
            f"here nine of ten wait {short_seconds(most['8'])} or less."
            if most["8"]
            else "here nine of ten wait not at all.",
        ),
    ]


def _use_finding(run: JobResult) -> Finding:
    known = paper()["statistics"]["allocation_below"]
    named = dict.fromkeys(known["models"], 1.0)
    mine = {model: p["allocation"] for model, p in run["views"]["pools"].items() if of_model(named, model)}
    words = ", ".join(f"{model} {percent(rate)}" for model, rate in mine.items())
    claim = f"{', '.join(known['models'])} are allocated below {known['percent']:g}%"
    return Finding(claim, all(100 * rate < known["percent"] for rate in mine.values()), f"here {words}.")


def _demand_findings(trace: JobResult) -> list[Finding]:
    theirs = paper()["statistics"]
    (least_a, most_a), (least_b, most_b) = theirs["demand_extremes"].values()
    of_paper = (1 - least_a / most_a, 1 - least_b / most_b)
    series = {d["organization"]: np.asarray(d["gpus"]) for d in trace["demand"]}
    moves = {name: 1 - float(gpus.min()) / max(float(gpus.max()), 1e-9) for name, gpus in series.items()}
    hour = np.floor(np.asarray(trace["bin_start"]) / HOUR) % 24
    low, high = theirs["demand_peak_hours"]
    inside = (hour >= low) & (hour < high)
    rises = {name: float(gpus[inside].mean() / max(gpus[~inside].mean(), 1e-9)) - 1 for name, gpus in series.items()}
    return [
        Finding(
            f"Organizations differ: demand moves by {of_paper[0]:.0%} (A) and {of_paper[1]:.0%} (B) of its peak",
            max(moves.values()) / max(min(moves.values()), 1e-9) >= of_paper[1] / of_paper[0],
            "here in a week: " + ", ".join(f"{name} {move:.0%}" for name, move in moves.items()) + ".",
        ),
        Finding(
            f"All four peak from {low}:00 to {high}:00",
            all(rise > 0 for rise in rises.values()),
            "more than in the other hours: " + ", ".join(f"{n} {rise:+.1%}" for n, rise in rises.items()) + ".",
        ),
    ]


class Evictions(NamedTuple):
    """Spot runs that ended and those evicted: (weeks, hours of the day)."""

    ended: Any
    evicted: Any

    @classmethod
    def of(cls, trace: JobResult, run: JobResult) -> Evictions:
        """Of the weeks in which tasks are submitted, four at most."""
        first, last = trace["submissions"]
        weeks = min(WEEKS, max(1, int((last - first + DAY) // WEEK)))
        view = run["views"]["evictions"]
        return cls(np.asarray(view["ended"])[:weeks], np.asarray(view["evicted"])[:weeks])

    @property
    def some(self) -> bool:
        """Whether there are enough to say something of them."""
        return int(self.evicted.sum()) >= FEW

    def rates(self) -> list[float | None]:
        """Percent by hour of the day, all weeks together; None where no run ended."""
        return _rates(self.ended.sum(axis=0), self.evicted.sum(axis=0))

    def rate(self, hours: Sequence[int] = range(24)) -> float:
        """Percent in these hours of the day."""
        return 100 * float(self.evicted[:, hours].sum()) / max(int(self.ended[:, hours].sum()), 1)

    def follow(self, arrivals: Sequence[float]) -> float:
        """Correlation of the rates with HP arrivals, over the hours of the day; 0 if there are too few."""
        rates = self.rates()
        known = [hour for hour in range(24) if rates[hour] is not None]
        if not self.some:
            return 0.0
        return float(np.corrcoef([arrivals[hour] for hour in known], [rates[hour] for hour in known])[0, 1])


def _rates(ended: Any, evicted: Any) -> list[float | None]:
    return [100 * int(e) / int(n) if n else None for n, e in zip(ended, evicted, strict=True)]


def eviction_chart(evictions: Evictions) -> Chart:
    """A thin line a week, a thick one for all."""
    weeks = len(evictions.ended)
    lines = [
        (f"week {i + 1}", _rates(evictions.ended[i], evictions.evicted[i]), colour, 1.2)
        for i, colour in enumerate(WEEK_COLOURS[: weeks if weeks > 1 else 0])
    ]
    lines.append(("all weeks" if weeks > 1 else "all days", evictions.rates(), SPOT, 3.2))
    total = f"{evictions.evicted.sum():,} of {evictions.ended.sum():,} runs"
    return Chart(
        "Spot runs evicted, by hour of day",
        f"Of the spot runs that end in an hour of the day, the share that ends by eviction, under {BEFORE}:"
        f" {total} in all. An hour without such a run is a gap; time 0 of the trace is midnight.",
        [
            curve(name, rates, colour, "%{x}:00: %{y:.1f}%", width=width, mode="lines+markers", marker_size=3 + width)
            for name, rates, colour, width in lines
        ],
        go.Layout(showlegend=True, xaxis=day_axis(), yaxis=zero_based("spot runs evicted [%]")),
    )


def eviction_findings(trace: JobResult, evictions: Evictions, crowded: Evictions) -> list[Finding]:
    """Of the trace's own spot work, and beside it what comes of enough to fill what HP leaves (`crowded`)."""
    theirs, some = paper()["statistics"], evictions.some
    low, high = theirs["eviction_peak_hours"]
    inside, outside = range(low, high), [*range(low), *range(high, 24)]
    arrivals = trace["hp_arrivals_by_hour"]
    rates, follows = evictions.rates(), evictions.follow(arrivals)
    highest = max(range(24), key=lambda hour: rates[hour] or 0.0)
    few = "" if some else f" Too few to tell: {evictions.evicted.sum()} evictions."
    more = f" With {CROWDED:g} times the spot work"
    return [
        Finding(
            f"Most evictions from {low}:00 to {high}:00, up to {theirs['eviction_peak']}%"
            f" against {theirs['eviction_off_peak']}% off peak",
            evictions.rate(inside) > evictions.rate(outside) if some else None,
            f"here {evictions.rate(inside):.2f}% in these hours, {evictions.rate(outside):.2f}% in the others; most at"
            f" {highest}:00, {rates[highest] or 0.0:.1f}%.{few}{more} {crowded.rate(inside):.2f}% and"
            f" {crowded.rate(outside):.2f}%.",
        ),
        Finding(
            f"{theirs['eviction_mean']}% of spot runs are evicted under a static quota",
            theirs["eviction_mean"] / 2 <= evictions.rate() <= 2 * theirs["eviction_mean"],
            f"here {evictions.rate():.2f}%; up to twice or half counts as agreeing.{more} {crowded.rate():.2f}%.",
        ),
        Finding(
            f"Evictions follow HP arrivals (correlation {theirs['eviction_follows_hp']})",
            follows >= theirs["eviction_follows_hp"] / 2 if some else None,
            (few.strip() or f"here {follows:.2f} over the hours of the day; half as much counts as agreeing.")
            + f"{more} {crowded.follow(arrivals):.2f}.",
        ),
    ]


STATISTICS = Experiment("statistics", "Cluster statistics and observations", jobs, section)
