"""Beyond the paper: gfs-plus beside gfs and the best of the others, and what the paper does not show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from gfs.batch.job import Job, JobResult, JobResults
from gfs.experiments.comparison import OURS, SCHEDULERS, runs
from gfs.experiments.experiment import NO_SPOT, Experiment, Finding, Section, Setup, paper, without_spot
from gfs.experiments.jobs import Simulation
from gfs.experiments.quantities import (
    EVICTED,
    HIT_RATE,
    HP_JQT,
    OF_SPOT,
    SPOT_JQT,
    Mean,
    Quantity,
    mean_of,
    metric_table,
)
from gfs.experiments.victim_gap import GapSample
from gfs.report.columns import NOTHING, amount
from gfs.report.design import LIGHT
from gfs.report.figures import CAPACITY, HP, SERIES, SPOT, faded, zero_based
from gfs.report.page import Block, Chart, Paragraph
from gfs.report.table import DataTable

PLUS = "gfs-plus"
COMPARED = (PLUS, OURS, *(name for name in SCHEDULERS if name != OURS))
TARGET = 0.1
"""1 - p: the share of guarantees that may be broken."""

SHOWS = (
    "gfs-plus goes beyond the paper: HP and spot tasks apart, victims for whole gangs at once, a quota that"
    " keeps back no more than the promise takes, GPUs reserved for tasks that wait too long. Beside it the others."
)


QUOTA_LINES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("HP demand expected", "expected_demand", {"line": {"color": HP, "width": 1}}),
    (
        "bound on HP demand",
        "demand",
        {"line": {"color": HP, "width": 0.6}, "fill": "tonexty", "fillcolor": faded(HP, 0.25)},
    ),
    ("actual HP demand", "actual", {"line": {"color": LIGHT["ink"], "width": 1.2}}),
    ("spot quota", "quota", {"line": {"color": SERIES[2], "width": 1.5}}),
    ("held by spot tasks", "spot_in_use", {"line": {"color": SPOT, "width": 1.5}}),
    ("idle", "idle", {"line": {"color": CAPACITY, "width": 1, "dash": "dot"}}),
)
"""What the chart of the quota shows: name, where it is in the view, how it is drawn. The band ends at a bound."""


def _quota_runs(setup: Setup) -> dict[str, Simulation]:
    trace, seed = setup.trace(setup.medium, setup.seeds[0]), setup.seeds[0]
    return {name: Simulation(trace, name, seed=seed, views=frozenset({"quota"})) for name in (OURS, PLUS)}


def _gap(setup: Setup) -> GapSample:
    return GapSample(setup.trace(setup.loads[-1], setup.seeds[0]))


def jobs(setup: Setup) -> list[Job]:
    """The runs of the comparison, those of gfs-plus, two with their quota, and a sample of decisions."""
    found: list[Job] = [run for load in setup.loads for name in COMPARED for run in runs(setup, name, load)]
    return [*found, *_quota_runs(setup).values(), _gap(setup)]


def section(setup: Setup, results: JobResults) -> Section:
    """A table per load, the quota over time, the gap and the time a decision takes."""
    if without_spot(results[runs(setup, PLUS, setup.medium)[0]]):
        return Section(SHOWS, missing=[NO_SPOT])
    blocks: list[Block] = []
    findings: list[Finding] = []
    for load in setup.loads:
        mine = {name: [results[run] for run in runs(setup, name, load)] for name in COMPARED}
        blocks.append(_table(load, mine))
        findings += _findings(load, mine)
    missing = []
    for name, run in _quota_runs(setup).items():
        view = results[run]["views"]["quota"]
        if view["hour"]:
            blocks.append(_quota_chart(name, view))
    gaps = results[_gap(setup)]["gaps"]
    if gaps:
        blocks.append(_gap_words(gaps))
    else:
        missing.append("No HP gang had to evict anyone, so there is no choice of victims to compare with the best.")
    blocks.append(_time_table(setup, results))
    return Section(SHOWS, blocks, findings, missing)


def _table(load: str, mine: dict[str, list[JobResult]]) -> DataTable:
    longest = Quantity("longest HP wait [s]", ("hp", "jqt_max"), amount)
    note = f"Spot load {load}. Of the guarantees 10% may be broken (p = 0.9): a hit rate of 90%."
    shown = (*OF_SPOT, HP_JQT._replace(text="{:.2f}".format), longest)
    table = metric_table("scheduler", mine, shown, note=note)
    reserved = mean_of(run["reservations"]["gpu_hours"] if "reservations" in run else 0.0 for run in mine[PLUS])
    last = [reserved.text(amount) if name == PLUS else NOTHING for name in mine]
    rows = [[*row, cell] for row, cell in zip(table.rows, last, strict=True)]
    return replace(table, columns=[*table.columns, "reserved for starving tasks [GPU-h]"], rows=rows)


def _findings(load: str, mine: dict[str, list[JobResult]]) -> list[Finding]:
    """What is claimed of the closed loop, of gfs and of gfs-plus."""
    findings = []
    places = {}
    for name, found in mine.items():
        wait, rate = SPOT_JQT.of(found), EVICTED.of(found)
        if wait is not None and rate is not None:
            places[name] = (wait, rate)
    for name in (OURS, PLUS):
        kept = HIT_RATE.of(mine[name])
        if kept is not None:
            broken = 1 - kept.value
            found_text = f"{HIT_RATE.text(broken)}% of the guarantees are broken."
            findings.append(Finding(f"{name}, {load}: at most 10% broken", broken <= TARGET, found_text))
        if name in places:
            findings.append(_not_beaten(name, load, places))
    return findings


def _not_beaten(name: str, load: str, places: dict[str, tuple[Mean, Mean]]) -> Finding:
    """Whether no other scheduler waits less and evicts less at once."""
    wait, rate = places[name]
    others = {other: at for other, at in places.items() if other not in {OURS, PLUS}}
    better = [other for other, (w, r) in others.items() if w.value < wait.value and r.value < rate.value]
    words = [
        f"{other}: wait {_times(wait.value, w.value)}, evictions {_times(rate.value, r.value)}"
        for other, (w, r) in others.items()
    ]
    return Finding(
        f"{name}, {load}: no other is better on both", not better, f"{name} against " + "; ".join(words) + "."
    )


def _times(ours: float, theirs: float) -> str:
    if theirs <= 0:
        return "as little" if ours <= 0 else "more"
    ratio = ours / theirs
    return f"{ratio - 1:+.0%}" if ratio < 3 else f"x{ratio:,.1f}"


def _quota_chart(name: str, view: dict[str, Any]) -> Chart:
    """Two weeks from the middle: HP demand predicted and actual, the quota, what spot tasks hold."""
    hours = np.asarray(view["hour"], np.float64)
    first = len(hours) // 2 if len(hours) > 2 * 336 else 0
    part = slice(first, first + 336)
    days = hours[part] / 24
    data = [
        go.Scatter(mode="lines", name=label, x=days, y=view[key][part], **style) for label, key, style in QUOTA_LINES
    ]
    return Chart(
        f"Quota over time: {name}, pool {view['pool']}",
        "Every hour: the HP demand that is expected in the next one and the bound on it (between them the band of"
        " the forecast; a gap where there is no forecast), the actual demand, the quota, and what spot tasks hold.",
        data,
        go.Layout(xaxis_title_text="time [days]", yaxis=zero_based("GPUs")),
    )


def _gap_words(gaps: list[float]) -> Paragraph:
    found = np.asarray(gaps)
    return Paragraph(
        f"Optimality gap: of {len(found)} sampled HP gangs that had to evict, gfs-plus took those that weigh least for"
        f" that gang alone for {(found < 1e-6).mean():.0%}; on average its victims weigh {found.mean():.1%} more than"
        f" these, in the worst case {found.max():.0%} (against a MILP solved by HiGHS, on the highest load)."
    )


def _time_table(setup: Setup, results: JobResults) -> DataTable:
    """Milliseconds a task, scheduling and forecasting apart."""
    rows = []
    for name in COMPARED:
        found = [results[run] for run in runs(setup, name, setup.medium)]
        a_task = mean_of(1000 * a["seconds"] / max(a["tasks"], 1) for a in found)
        training = mean_of(a["forecasting"]["training_seconds"] if "forecasting" in a else 0.0 for a in found)
        asking = mean_of(a["forecasting"]["forecast_seconds"] if "forecasting" in a else 0.0 for a in found)
        total = mean_of(a["seconds"] for a in found)
        rows.append([name, f"{a_task.value:.3f}", *(f"{mean.value:.1f}" for mean in (total, training, asking))])
    header = ["scheduler", "a task [ms]", "whole run [CPU-s]", "of it training [s]", "of it forecasts [s]"]
    below = f"The paper reports less than {paper()['decision']['seconds']:g} s a task. " if setup.given is None else ""
    return DataTable(header, rows, note=f"{below}Medium load, all of a run on this machine, noise included.")


BEYOND = Experiment("beyond", "Beyond the paper", jobs, section)
