"""What each part of gfs brings: the paper's variants with a part left out, medium load."""

from __future__ import annotations

from gfs.batch.job import Job, JobResults
from gfs.experiments.comparison import points, runs, seconds
from gfs.experiments.experiment import (
    NO_SPOT,
    Experiment,
    Finding,
    Mean,
    Section,
    Setup,
    metric,
    paper,
    text_of,
    without_spot,
)
from gfs.report.columns import amount
from gfs.report.table import DataTable

VARIANTS = {
    "gfs": "whole",
    "gfs-e": "last week's peak instead of the estimator (GDE)",
    "gfs-d": "no feedback, eta = 1 (SQA)",
    "gfs-s": "best fit instead of the scores (PTS)",
    "gfs-p": "random victims instead of the cheapest (PTS)",
    "gfs-sp": "both (PTS)",
}

SHOWS = (
    "gfs at the medium load with one part after the other left out: the demand estimator (GDE), the feedback"
    " of the spot quota allocator (SQA), the scores and the cost of preemption of the task scheduler (PTS)."
)


def jobs(setup: Setup) -> list[Job]:
    """A run per variant and seed."""
    return [run for name in VARIANTS for run in runs(setup, name, setup.medium)]


def section(setup: Setup, results: JobResults) -> Section:
    """A row per variant beside the paper's, and whether leaving the part out makes it worse."""
    if without_spot(results[runs(setup, "gfs", setup.medium)[0]]):
        return Section(SHOWS, missing=[NO_SPOT])
    theirs = paper()["ablations"]
    beside = setup.given is None
    rows: list[list[str]] = []
    found: dict[str, tuple[Mean, Mean, Mean]] = {}
    for name, what in VARIANTS.items():
        mine = [results[run] for run in runs(setup, name, setup.medium)]
        jct, wait, rate, waste = (
            metric(mine, "spot", key) for key in ("jct_mean", "jqt_mean", "eviction_rate", "wasted_gpu_hours")
        )
        assert wait is not None
        assert rate is not None
        assert waste is not None
        found[name] = (wait, rate, waste)
        row = [f"{name}: {what}", text_of(jct, seconds), *[seconds(theirs[name][0])] * beside]
        row += [wait.text(seconds), *[seconds(theirs[name][1])] * beside]
        row += [rate.text(points), *[f"{theirs[name][2]:.2f}"] * beside]
        rows.append([*row, waste.text(amount)])
    header = ["variant", "spot JCT [s]", *["paper"] * beside, "spot JQT [s]", *["paper"] * beside]
    header += ["evicted [%]", *["paper"] * beside, "wasted [GPU-h]"]
    return Section(SHOWS, [DataTable(header, rows)], _findings(found) if beside else ())


def _findings(found: dict[str, tuple[Mean, Mean, Mean]]) -> list[Finding]:
    """The paper: every variant waits longer and evicts more than the whole."""
    whole = found["gfs"]
    findings = []
    for name, mine in found.items():
        if name == "gfs":
            continue
        words, better = [], False
        for what, a, b in zip(("wait", "evictions", "wasted work"), mine, whole, strict=True):
            change = a.value / b.value - 1 if b.value else 0.0
            sure = "" if a.apart(b) else ", within noise"
            words.append(f"{what} {change:+.0%}{sure}" if change < 20 else f"{what} x{change + 1:,.0f}")
            better |= what != "wasted work" and a.value < b.value and a.apart(b)
        worse = mine[0].value > whole[0].value or mine[1].value > whole[1].value
        findings.append(Finding(f"{name} is worse than gfs", worse and not better, "; ".join(words) + "."))
    return findings


ABLATIONS = Experiment("ablations", "What each part brings", jobs, section)
