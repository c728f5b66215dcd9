"""The simulations of experiments, as jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gfs.batch.cache import Progress, ResultCache, run_jobs
from gfs.batch.executors import on_this_machine
from gfs.batch.job import Job, JobResult
from gfs.batch.simulation import GeneratedTrace, SimulationJob, Trace, Value
from gfs.experiments.views import VIEWS

PACE = {"chronus": 8.0, "gfs-plus": 5.0, "gfs": 2.0, "gfs-s": 2.0, "gfs-p": 2.0, "gfs-sp": 2.0, "gfs-d": 2.0}
"""Schedulers that take longer than a plain one: how many times as long, about."""
SECONDS_A_TASK = 5e-5

Settings = tuple[tuple[str, Value], ...]
"""Parameters that are not as usual, by name."""


@dataclass(frozen=True, slots=True)
class Simulation(SimulationJob):
    """A scheduler on a trace."""

    views: frozenset[str] = frozenset()
    """What is wanted besides the metrics: names in `VIEWS`."""

    @property
    def label(self) -> str:
        """Such as 'gfs on paper x2, seed 1, guarantee_hours=4'."""
        return ", ".join([f"{self.scheduler} on {self.trace.label}", *(f"{k}={v}" for k, v in self.settings)])

    @property
    def weight(self) -> float:
        """By the tasks of the largest traces: good enough to guess the time that is left."""
        scale = getattr(self.trace, "spot_scale", 1.0)
        pace = PACE.get(self.scheduler, 1.0) * (scale if self.scheduler == "chronus" else 1.0)
        return SECONDS_A_TASK * 150_000 * pace * (1 + scale / 4)

    def identity(self) -> dict[str, Any]:
        """All that the run depends on."""
        return SimulationJob.identity(self) | {"views": sorted(self.views)}

    def run(self) -> JobResult:
        """Simulate it."""
        workload = self.workload()
        result = self.simulate(workload, record_quota="quota" in self.views)
        return {
            **result.summary(by=()),
            "tasks": len(workload.tasks),
            "capacity": workload.capacity(),
            "views": {name: VIEWS[name](result) for name in sorted(self.views)},
        }

    def alike(self) -> Simulation:
        """The run without what is wanted of it."""
        return replace(self, views=frozenset())


def month(trace: Trace) -> Trace:
    """Four weeks of a synthetic trace, for what is tried in many variants; a shorter one or the user's as it is."""
    return trace._replace(days=28.0) if isinstance(trace, GeneratedTrace) and trace.days is None else trace


def merged(jobs: Iterable[Job]) -> dict[Job, Job]:
    """Every job with the one to run in its place: the same run is made once, with all that is wanted of it."""
    wanted = list(dict.fromkeys(jobs))
    views: dict[Simulation, frozenset[str]] = {}
    for job in wanted:
        if isinstance(job, Simulation):
            views[job.alike()] = views.get(job.alike(), frozenset()) | job.views
    return {job: replace(job, views=views[job.alike()]) if isinstance(job, Simulation) else job for job in wanted}


def run_simulations(
    jobs: Iterable[Job], cache: ResultCache, workers: int, started: Callable[[list[Job]], Progress]
) -> dict[Job, JobResult]:
    """Every job with its result, so many computed at the same time."""
    stands_for = merged(jobs)
    results = run_jobs(stands_for.values(), cache, partial(on_this_machine, workers), started)
    return {job: results[other] for job, other in stands_for.items()}
