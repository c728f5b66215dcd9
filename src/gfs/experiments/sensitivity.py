"""Who is ahead under other gang sizes and loads: the paper's cluster with one thing changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gfs.batch.front import NOISE, clearly_better
from gfs.batch.job import Job, JobResults
from gfs.batch.simulation import GeneratedTrace
from gfs.experiments.comparison import SCHEDULERS
from gfs.experiments.experiment import Experiment, Finding, Section, Setup
from gfs.experiments.jobs import Simulation, month
from gfs.report.columns import percent, short_seconds
from gfs.report.table import DataTable

PLUS, PAPERS = "gfs-plus", "gfs"
COMPARED = (*(name for name in SCHEDULERS if name != "chronus"), PLUS)
CASES: Mapping[str, Mapping[str, Any]] = {
    "as published": {},
    "gangs up to 3% of the pool": {"largest_gang": 1 / 32},
    "gangs up to half the pool": {"largest_gang": 0.5},
    "HP work x0.8": {"hp_scale": 0.8},
    "HP work x1.15": {"hp_scale": 1.15},
    "spot work x1": {"spot_scale": 1.0},
    "spot work x4": {"spot_scale": 4.0},
    "spot work x8": {"spot_scale": 8.0},
}
"""What is changed: the tail of the gang sizes (tasks as large on average as before), or the load of a class."""
QUICK = ("as published", "gangs up to 3% of the pool", "spot work x1", "spot work x4")
SHOWS = (
    "Spot wait and share of evicted runs, each scheduler with its own quota, when the tail of the gang sizes or the"
    " load is another. All else is the medium load: spot work x2, gangs up to 18.5% of the pool; 28 days, one seed."
)

Place = tuple[float, float]
"""Seconds of spot wait, share of evicted runs."""


def _runs(setup: Setup) -> dict[str, dict[str, Simulation]]:
    seed = setup.seeds[0]
    base = month(setup.trace(setup.medium, seed))
    if not isinstance(base, GeneratedTrace):
        return {}
    return {
        case: {name: Simulation(base._replace(**changes), name, seed) for name in COMPARED}
        for case, changes in CASES.items()
        if not setup.quick or case in QUICK
    }


def jobs(setup: Setup) -> list[Job]:
    """Every scheduler in every case; none on a user's trace, which is what it is."""
    return [run for runs in _runs(setup).values() for run in runs.values()]


def section(setup: Setup, results: JobResults) -> Section:
    """A row per case with who is best in it, and where somebody is ahead of gfs and of gfs-plus on both figures."""
    cases = {case: {name: _place(results, run) for name, run in runs.items()} for case, runs in _runs(setup).items()}
    if not cases:
        return Section(SHOWS, missing=["Gang sizes and load of a given trace are what they are."])
    rows = [
        [
            case,
            *(f"{short_seconds(wait)}, {percent(rate)}" for wait, rate in places.values()),
            min(places, key=lambda name: (places[name][0], name)),
            min(places, key=lambda name: (places[name][1], name)),
        ]
        for case, places in cases.items()
    ]
    header = ["case", *COMPARED, "shortest wait", "fewest evictions"]
    note = "Spot wait, share of evicted runs."
    return Section(SHOWS, [DataTable(header, rows, note=note)], [_finding(name, cases) for name in (PAPERS, PLUS)])


def _place(results: JobResults, run: Simulation) -> Place:
    spot = results[run]["metrics"]["spot"]
    return spot["jqt_mean"], spot["eviction_rate"]


def ahead(places: Mapping[str, Place], name: str) -> list[str]:
    """Who waits less and evicts less than this one, both by more than noise."""
    return [other for other, at in places.items() if clearly_better(at, places[name], NOISE)]


def _finding(name: str, cases: Mapping[str, Mapping[str, Place]]) -> Finding:
    lost = {case: better for case, places in cases.items() if (better := ahead(places, name))}
    found = "; ".join(f"{case}: {', '.join(better)}" for case, better in lost.items())
    return Finding(
        f"{name}: nobody is better on both figures, whatever the gangs and the load",
        not lost,
        f"better on both: {found}." if lost else f"nobody is in any of {len(cases)} cases.",
    )


SENSITIVITY = Experiment("sensitivity", "Other gang sizes and loads", jobs, section)
