"""The scheduling comparison (the paper's main table), twice: each scheduler as its authors describe it, and all with
the same quota, which is what the authors' released code does. At low, medium and high spot load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import plotly.graph_objects as go

from gfs.batch.job import Job, JobResult, JobResults
from gfs.experiments.experiment import Experiment, Finding, Section, Setup, paper
from gfs.experiments.jobs import Settings, Simulation
from gfs.experiments.quantities import COMPARED, EVICTED, HP_JQT, SPOT_JQT, Mean, Quantity, metric_table
from gfs.report.columns import NOTHING, percent, short_seconds
from gfs.report.figures import colours_of, wait_against_evictions
from gfs.report.page import Block, Chart
from gfs.report.table import DataTable

SCHEDULERS = ("yarn-cs", "chronus", "lyra", "fgd", "gfs")
OURS = "gfs"
SAME_QUOTA: Settings = (("quota", "forecast-no-feedback"), ("aggregate", "independent"))
"""The quota that the authors' released code gives to every scheduler but Chronus."""


def runs(setup: Setup, scheduler: str, load: str, settings: Settings = ()) -> list[Simulation]:
    """All seeds of a scheduler at a load."""
    return [Simulation(setup.trace(load, seed), scheduler, seed, settings) for seed in setup.runs()]


def jobs(setup: Setup, schedulers: Sequence[str], settings: Settings) -> list[Job]:
    """Every scheduler, load and seed."""
    return [run for load in setup.loads for name in schedulers for run in runs(setup, name, load, settings)]


def section(setup: Setup, results: JobResults, schedulers: Sequence[str], settings: Settings, about: str) -> Section:
    """A table and a chart per load, and where the order differs from the paper's."""
    blocks: list[Block] = []
    findings: list[Finding] = []
    for load in setup.loads:
        found = {name: [results[run] for run in runs(setup, name, load, settings)] for name in schedulers}
        means = {name: {q.key: q.of(mine) for q in COMPARED} for name, mine in found.items()}
        blocks += [_table(setup, load, found, means), _picture(setup, load, means)]
        if setup.given is None:
            findings += [_finding(load, means, q) for q in (HP_JQT, SPOT_JQT, EVICTED)]
    whom = "means over seeds, with 95% intervals" if len(setup.runs()) > 1 else "one seed"
    shows = (
        f"Waits, completion times and evictions of HP and spot tasks. {about} "
        f"JCT is submission to finish, JQT the sum of all waits, evicted the share of spot runs; {whom}."
    )
    return Section(shows, blocks, findings)


Means = Mapping[str, Mapping[str, Mean | None]]


def _printed(name: str, load: str) -> dict[str, float]:
    """What the paper prints of a scheduler at a load."""
    place = paper()["loads"].index(load)
    return {key: float(values[place]) for key, values in paper()["comparison"][name].items()}


def _of_paper(name: str, quantity: Quantity, load: str) -> float | None:
    value = _printed(name, load).get(quantity.key)
    return None if value is None else value * quantity.scale


def _table(setup: Setup, load: str, found: Mapping[str, Sequence[JobResult]], means: Means) -> DataTable:
    beside = setup.given is None
    row, best = [f"{OURS} against the best other"], set()
    for column, q in enumerate(COMPARED):
        row.append(_change({name: m[q.key] for name, m in means.items()}))
        if beside:
            row.append(_change({name: _as_mean(_of_paper(name, q, load)) for name in means}))
        values = [(mean.value, i) for i, m in enumerate(means.values()) if (mean := m[q.key]) is not None]
        best.add((min(values)[1], 1 + column * (1 + beside)))
    theirs = {name: _printed(name, load) for name in found} if beside else None
    table = metric_table("scheduler", found, COMPARED, theirs, note=f"Spot load {load}." if beside else "")
    return replace(table, rows=[*table.rows, row], best=frozenset(best))


def _as_mean(value: float | None) -> Mean | None:
    return None if value is None else Mean(value, 0.0)


def _change(means: dict[str, Mean | None]) -> str:
    """Ours against the best of the others: '-12%' is twelve percent less."""
    ours = means[OURS]
    others = [m.value for name, m in means.items() if name != OURS and m is not None]
    if ours is None or not others:
        return NOTHING
    best = min(others)
    if best <= 0:
        return NOTHING if ours.value else "as the best"
    change = ours.value / best - 1
    return f"{change:+.0%}" if change < 10 else f"x{change + 1:,.0f}"


def _finding(load: str, means: Means, quantity: Quantity) -> Finding:
    theirs = {name: value for name in means if (value := _of_paper(name, quantity, load)) is not None}
    ours = {name: mean.value for name in theirs if (mean := means[name][quantity.key]) is not None}
    best = min(ours, key=lambda name: ours[name])
    pairs = list(combinations(theirs, 2))
    alike = sum((theirs[a] < theirs[b]) == (ours[a] < ours[b]) for a, b in pairs)
    what = quantity.title.split(" [", 1)[0].replace("evicted", "evictions")
    if best == OURS:
        found = f"gfs has the lowest here too; {alike} of {len(pairs)} pairs stand in the paper's order."
    else:
        miss = f"{quantity.text(ours[OURS])} against {quantity.text(ours[best])}"
        found = f"here {best} has the lowest: {miss}; {alike} of {len(pairs)} pairs stand in the paper's order."
    return Finding(f"Lowest {what}, {load} load: gfs", best == OURS, found)


def _picture(setup: Setup, load: str, means: Means) -> Chart:
    """Waiting against eviction, with the paper's points hollow."""
    colours = colours_of(SCHEDULERS)
    data = []
    for name in means:
        wait, rate = means[name][SPOT_JQT.key], means[name][EVICTED.key]
        if wait is None or rate is None:
            continue
        data.append(_point(name, rate, wait, colours[name], "circle"))
        if setup.given is None:
            of_paper = [_as_mean(_of_paper(name, q, load)) for q in (EVICTED, SPOT_JQT)]
            if of_paper[0] is not None and of_paper[1] is not None:
                data.append(_point(f"{name}, paper", of_paper[0], of_paper[1], colours[name], "circle-open"))
    hollow = " Hollow: the paper's." if setup.given is None else ""
    return Chart(
        f"Waiting against eviction, load {load}",
        f"Towards the lower left is better.{hollow}"
        + (" Chronus suspends instead of evicting and has no place here." if "chronus" in means else ""),
        data,
        wait_against_evictions(),
        wide=False,
    )


def _point(name: str, rate: Mean, wait: Mean, colour: str, symbol: str) -> go.Scatter:
    return go.Scatter(
        mode="markers",
        name=name,
        x=[100 * rate.value],
        y=[max(wait.value, 1.0)],
        error_x={"array": [100 * rate.half], "visible": rate.half > 0},
        error_y={"array": [wait.half], "visible": wait.half > 0},
        marker={"size": 12, "color": colour, "symbol": symbol},
        hovertemplate=f"{name}: {percent(rate.value)}, {short_seconds(wait.value)}<extra></extra>",
    )


def _one_seed(setup: Setup) -> Setup:
    """The first seed alone: with forecasts, runs take several times as long."""
    return replace(setup, seeds=setup.seeds[:1])


AS_DESCRIBED = (
    "Each scheduler as its authors describe it: gfs with its forecast and feedback, the others without a quota, lyra"
    " with nodes lent and returned at once and no reserve."
)
WITH_THE_SAME = (
    "All but Chronus with the same spot quota: the forecast at p = 0.9, organizations independent, no feedback. The"
    " authors' released code does so, though the paper does not say it. What differs is queue, placement and victims."
)
COMPARISON = Experiment(
    "comparison",
    "Scheduling comparison",
    lambda setup: jobs(setup, SCHEDULERS, ()),
    lambda setup, results: section(setup, results, SCHEDULERS, (), AS_DESCRIBED),
)
_WITH_QUOTA = tuple(name for name in SCHEDULERS if name != "chronus")
SAME_QUOTA_COMPARISON = Experiment(
    "same-quota",
    "Scheduling comparison with the same quota",
    lambda setup: jobs(_one_seed(setup), _WITH_QUOTA, SAME_QUOTA),
    lambda setup, results: section(_one_seed(setup), results, _WITH_QUOTA, SAME_QUOTA, WITH_THE_SAME),
)
