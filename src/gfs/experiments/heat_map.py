"""How full every node is over a week (the paper's heat maps of three clusters), here of the largest pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from gfs.batch.job import Job, JobResults
from gfs.experiments.deployment import BEFORE, whole_cluster
from gfs.experiments.experiment import Experiment, Finding, Section, Setup, paper
from gfs.report.columns import amount
from gfs.report.figures import node_heat_map
from gfs.report.page import Chart


def jobs(setup: Setup) -> list[Job]:
    """One run."""
    return [whole_cluster(setup, BEFORE, "heat")]


def section(setup: Setup, results: JobResults) -> Section:
    """A heat map per pool."""
    view = results[jobs(setup)[0]]["views"]["heat"]
    pools, hours = view["pools"], len(view["pools"][0]["hourly"]) if view["pools"] else 0
    shows = (
        f"Rows are nodes, columns hours, colour is the mean share of a node's GPUs allocated under {BEFORE}:"
        " which pools have a daily rhythm, and which nodes stay idle."
    )
    findings: list[Finding] = []
    if setup.given is None:
        sizes = ", ".join(amount(n) for n in paper()["heat_map"]["cards"])
        shows += (
            f" The paper shows three A100 clusters of about {sizes} GPUs and the peak of every hour; here it is"
            " the three largest pools of one cluster."
        )
        findings = _findings(pools, view["first_hour"])
    missing = []
    if len(pools) < 3:
        count = "one pool" if len(pools) == 1 else f"{len(pools)} pools"
        missing.append(f"The trace has {count}: three cannot be compared.")
    if hours < 168:
        missing.append(f"The trace keeps nodes in use for {hours} hours: a whole week cannot be shown.")
    return Section(shows, [_picture(pool, view["first_hour"]) for pool in pools], findings, missing)


def _picture(pool: dict[str, Any], first_hour: int) -> Chart:
    labels, hourly = pool["labels"], pool["hourly"]
    long = len(hourly) > 96
    x = (first_hour + 0.5 + np.arange(len(hourly))) / (24 if long else 1)
    idle = f"{amount(pool['idle_nodes'])} of {_count(pool['nodes'], 'node')}" if pool["idle_nodes"] else "no node"
    caption = f"Mean allocation {np.mean(hourly):.1f}%; {idle} idle all the time."
    if len(hourly) >= 24:
        caption += f" Over the day it moves by {_swing(hourly, first_hour)[0]:.1f} points."
    if pool["nodes"] > len(labels):
        caption += f" A row is up to {-(-pool['nodes'] // len(labels))} neighbouring nodes."
    model = pool["model"]
    return Chart(
        f"{model}: {_count(pool['nodes'], 'node')}, {_count(pool['cards'], 'GPU')}",
        caption,
        [node_heat_map(labels, pool["percent"], "allocated [%]", x=x)],
        go.Layout(
            xaxis={"title_text": "time [days]" if long else "time [hours]", "showgrid": False},
            yaxis={"type": "category", "autorange": "reversed", "showgrid": False, "nticks": 12},
        ),
        height=min(460, 120 + 24 * len(labels)),
    )


def _count(number: int, what: str) -> str:
    return f"{amount(number)} {what}{'s' * (number != 1)}"


def _swing(hourly: list[float], first_hour: int) -> tuple[float, int]:
    """By how many points the mean day moves, and the hour of day in which least is in use."""
    whole = np.asarray(hourly[: len(hourly) // 24 * 24])
    day = np.roll(whole.reshape(-1, 24).mean(axis=0), first_hour % 24)
    return float(day.max() - day.min()), int(day.argmin())


def _findings(pools: list[dict[str, Any]], first_hour: int) -> list[Finding]:
    theirs = paper()["heat_map"]
    swings = {pool["model"]: _swing(pool["hourly"], first_hour) for pool in pools}
    means = {pool["model"]: float(np.mean(pool["hourly"])) for pool in pools}
    lowest = min(means, key=lambda model: means[model])
    words = "; ".join(
        f"{model} {means[model]:.1f}%, {swing:.1f} points, least at {hour}:00"
        for model, (swing, hour) in swings.items()
    )
    idle = [pool for pool in pools if pool["idle_nodes"]]
    counts = "; ".join(f"{p['model']} {p['idle_nodes']} of {p['nodes']}" for p in pools)
    return [
        Finding(
            f"The least allocated ({theirs['lower_mean']}%) has the clearest daily rhythm",
            swings[lowest][0] == max(swing for swing, _ in swings.values()),
            f"here mean and daily swing: {words}.",
        ),
        Finding(
            f"In {theirs['with_idle_nodes']} of three, some nodes idle all week",
            len(idle) >= theirs["with_idle_nodes"],
            f"here in {len(idle)}; idle nodes: {counts}.",
        ),
    ]


HEAT_MAP = Experiment("heat-map", "Allocation of every node", jobs, section)
