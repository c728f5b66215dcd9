"""How much the guarantee matters: spot waits and evictions under gfs for H = 1, 2 and 4 hours, medium load."""

from __future__ import annotations

from gfs.batch.job import Job, JobResults
from gfs.experiments.experiment import NO_SPOT, Experiment, Finding, Section, Setup, paper, without_spot
from gfs.experiments.jobs import Simulation
from gfs.experiments.quantities import BROKEN, EVICTED, HIT_RATE, SPOT_JQT, Mean, metric_table

HOURS = (1, 2, 4)
SHOWS = (
    "Spot tasks under gfs with guarantees of 1, 2 and 4 hours at the medium load. A longer guarantee asks for"
    " GPUs that stay free for longer. At most 10% of the guarantees may be broken (p = 0.9): a hit rate of 90%."
)


def _runs(setup: Setup, hours: int) -> list[Simulation]:
    settings = (("guarantee_hours", str(hours)),) if hours > 1 else ()
    return [Simulation(setup.trace(setup.medium, seed), "gfs", seed, settings) for seed in setup.runs()]


def jobs(setup: Setup) -> list[Job]:
    """A run per length and seed."""
    return [run for hours in HOURS for run in _runs(setup, hours)]


def section(setup: Setup, results: JobResults) -> Section:
    """Three rows beside the paper's."""
    if without_spot(results[_runs(setup, HOURS[0])[0]]):
        return Section(SHOWS, missing=[NO_SPOT])
    found = {f"{hours} h": [results[run] for run in _runs(setup, hours)] for hours in HOURS}
    shown = (SPOT_JQT, EVICTED, BROKEN, HIT_RATE)
    if setup.given is not None:
        return Section(SHOWS, [metric_table("guarantee", found, shown)])
    theirs = {f"{h} h": {q.key: paper()["guarantees"][q.key][i] for q in shown[:2]} for i, h in enumerate(HOURS)}
    waits, rates = ([q.known(runs) for runs in found.values()] for q in shown[:2])
    return Section(SHOWS, [metric_table("guarantee", found, shown, theirs)], _findings(waits, rates))


def _findings(waits: list[Mean], rates: list[Mean]) -> list[Finding]:
    longest = waits[2].value / max(waits[0].value, 1e-9)
    spread = max(rate.value for rate in rates) - min(rate.value for rate in rates)
    return [
        Finding(
            "Four hours cost the most waiting",
            waits[2].value > max(waits[0].value, waits[1].value),
            f"here {longest:.1f} times the wait of one hour, in the paper 5.5 times.",
        ),
        Finding(
            "Evictions hardly depend on H",
            spread <= 0.25 * rates[0].value,
            f"here they differ by {100 * spread:.2f} points, in the paper by 0.13.",
        ),
    ]


GUARANTEES = Experiment("guarantees", "Length of the guarantee", jobs, section)
