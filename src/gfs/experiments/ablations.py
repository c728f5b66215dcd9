"""What each part of gfs brings: the paper's variants with a part left out, medium load."""

from __future__ import annotations

from gfs.batch.job import Job, JobResults
from gfs.experiments.comparison import runs
from gfs.experiments.experiment import NO_SPOT, Experiment, Finding, Section, Setup, paper, without_spot
from gfs.experiments.quantities import EVICTED, SPOT_JCT, SPOT_JQT, WASTED, Mean, metric_table

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
    found = {name: [results[run] for run in runs(setup, name, setup.medium)] for name in VARIANTS}
    labels = {name: f"{name}: {what}" for name, what in VARIANTS.items()}
    rows, shown = {labels[name]: mine for name, mine in found.items()}, (SPOT_JCT, SPOT_JQT, EVICTED, WASTED)
    if setup.given is not None:
        return Section(SHOWS, [metric_table("variant", rows, shown)])
    keys = ("spot_jct", "spot_jqt", "evicted")
    theirs = {labels[name]: dict(zip(keys, values, strict=True)) for name, values in paper()["ablations"].items()}
    means = {name: [q.known(mine) for q in (SPOT_JQT, EVICTED, WASTED)] for name, mine in found.items()}
    return Section(SHOWS, [metric_table("variant", rows, shown, theirs)], _findings(means))


def _findings(found: dict[str, list[Mean]]) -> list[Finding]:
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
