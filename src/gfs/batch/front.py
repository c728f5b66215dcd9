"""Schedulers over many quotas, and who is on the common front of times against what evictions cost.

Every scheduler can trade waits for evictions with a quota, so two of them are compared by all their points, not by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from gfs.assembly.definitions import SchedulerDefinition
from gfs.assembly.parameters import Parameters
from gfs.assembly.result import Window
from gfs.assembly.run import run_simulation
from gfs.assembly.schedulers import (
    check_fits_resources,
    find_scheduler,
    least_quota_share,
    quota_in_force,
    warn_of_idle_settings,
)
from gfs.batch.cache import Progress, ResultCache, run_jobs
from gfs.batch.comparison import PackedScheduler, pack_scheduler, pack_workload, unpack_scheduler, unpack_workload
from gfs.batch.executors import on_this_machine
from gfs.batch.job import Job, JobResult
from gfs.domain.errors import InputError, StuckError
from gfs.domain.workload import Workload

SHARES: Final = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35)
"""Of the fixed quotas."""
PROBABILITIES: Final = (0.8, 0.9, 0.95, 0.99)
"""p of the quotas that go by forecasts."""
VARIED: Final = ("quota", "quota_share", "p", "pools")
"""Parameters that the comparison sets itself."""
NOISE: Final = 0.05
"""Share by which a point must be better on both figures to count as better by more than noise."""
FORECAST_WEIGHT: Final = 4.0
"""About how many times as long a run takes if its quota goes by forecasts."""


class FrontAxes(NamedTuple):
    """Two figures of a run, both better when lower, that a quota trades for each other."""

    name: str
    time: str
    cost: str

    def place(self, figures: Mapping[str, Any]) -> tuple[float, float] | None:
        """Where a run stands; None where it lacks one of the figures."""
        time, cost = figures[self.time], figures[self.cost]
        return None if time is None or cost is None else (time, cost)


FRONTS: Final = (
    FrontAxes("spot wait and evictions", "spot_jqt_mean", "spot_eviction_rate"),
    FrontAxes("spot completion time and waste", "spot_jct_mean", "spot_wasted_gpu_hours"),
)


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `one` is as low as `other` everywhere, and lower somewhere."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


def clearly_better(one: Sequence[float], other: Sequence[float], noise: float) -> bool:
    """Whether `one` is lower than `other` everywhere, by more than this share of it."""
    return all(a < (1 - noise) * b for a, b in zip(one, other, strict=True))


class FrontPoint(NamedTuple):
    """A scheduler with a quota, and the figures of its run."""

    scheduler: str
    quota: str
    own: bool
    """The quota that the scheduler has unless another one is asked for."""
    figures: JobResult


class LeftOut(NamedTuple):
    """A scheduler with a quota that could not be run."""

    scheduler: str
    quota: str
    reason: str


class Standing(NamedTuple):
    """How one scheduler stands on one front."""

    scheduler: str
    points: int
    best: int
    """Points that no other quota of the same scheduler beats."""
    front: int
    """Points on the common front."""
    unbeaten: int
    """Of its best points those that no point of another scheduler beats by more than noise."""


@dataclass(frozen=True, slots=True)
class FrontComparison:
    """Schedulers on one workload, each with many quotas."""

    points: tuple[FrontPoint, ...]
    left_out: tuple[LeftOut, ...]
    noise: float
    trace: str

    def __repr__(self) -> str:
        fronts = ", ".join(f"{len(self.front(axes))} on the front of {axes.name}" for axes in FRONTS)
        return f"<FrontComparison of {', '.join(self.schedulers)}: {len(self.points)} points, {fronts}>"

    @property
    def schedulers(self) -> list[str]:
        """Those with at least one point, in order."""
        return list(dict.fromkeys(point.scheduler for point in self.points))

    def placed(self, axes: FrontAxes) -> list[tuple[FrontPoint, tuple[float, float]]]:
        """The points that have both figures, with them."""
        return [(point, place) for point in self.points if (place := axes.place(point.figures)) is not None]

    def front(self, axes: FrontAxes) -> list[FrontPoint]:
        """The points that no other is as good as on both figures and better on one, the shortest time first."""
        placed = self.placed(axes)
        found = [(place, point) for point, place in placed if not any(dominates(other, place) for _, other in placed)]
        return [point for _, point in sorted(found, key=lambda pair: pair[0])]

    def standings(self, axes: FrontAxes) -> list[Standing]:
        """Of every scheduler that has points there, those with most points on the front first."""
        placed, front = self.placed(axes), self.front(axes)
        found = []
        for name in dict.fromkeys(point.scheduler for point, _ in placed):
            mine = [place for point, place in placed if point.scheduler == name]
            others = [place for point, place in placed if point.scheduler != name]
            best = [place for place in mine if not any(dominates(other, place) for other in mine)]
            unbeaten = [p for p in best if not any(clearly_better(other, p, self.noise) for other in others)]
            on_front = sum(point.scheduler == name for point in front)
            found.append(Standing(name, len(mine), len(best), on_front, len(unbeaten)))
        return sorted(found, key=lambda standing: -standing.front)

    def summary(self) -> dict[str, Any]:
        """What `gfs compare --front --json` writes (docs/reference/files.md#front)."""
        fronts = {axes: self.front(axes) for axes in FRONTS}
        return {
            "trace": self.trace,
            "noise": self.noise,
            "fronts": [{**axes._asdict(), "standings": self.standings(axes)} for axes in FRONTS],
            "points": [
                {**point._asdict(), "on_front_of": [axes.name for axes in FRONTS if point in fronts[axes]]}
                for point in self.points
            ],
            "left_out": self.left_out,
        }


@dataclass(frozen=True, slots=True)
class FrontRun:
    """A scheduler with one quota on the workload that all runs share."""

    scheduler: PackedScheduler
    parameters: Parameters
    quota: str
    workload: str
    """Digest of the workload, which every process is given once."""
    window: Window
    seed: int
    check: bool

    @property
    def label(self) -> str:
        """Such as 'gfs, forecast p=0.9'."""
        return f"{self.scheduler.name}, {self.quota}"

    @property
    def weight(self) -> float:
        """Forecasts take longer than all else."""
        return 1.0 if self.parameters.quota in ("none", "fixed") else FORECAST_WEIGHT

    def identity(self) -> dict[str, Any]:
        """All that the run depends on."""
        code = self.scheduler.pickled
        return {
            "job": type(self).__name__,
            "trace": self.workload,
            "scheduler": [self.scheduler.name, code and hashlib.sha256(code).hexdigest()],
            "parameters": self.parameters.to_dict(),
            "window": self.window,
            "seed": self.seed,
            "check": self.check,
        }

    def run(self) -> JobResult:
        """Simulate it."""
        definition, workload = unpack_scheduler(self.scheduler), _workloads[self.workload]
        result = run_simulation(
            workload, definition, self.parameters, window=self.window, seed=self.seed, check=self.check
        )
        return result.metrics.figures()


_workloads: dict[str, Workload] = {}
"""By digest: sent once per worker, not once per run."""


def _receive(digest: str, packed: bytes) -> None:
    _workloads[digest] = unpack_workload(packed)


def _digest(workload: Workload) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(replace(workload, name=""))).hexdigest()


def quotas_of(definition: SchedulerDefinition) -> list[dict[str, Any]]:
    """The settings that a scheduler is run with, its own quota first; one that comes twice is there once."""
    usual, quota = Parameters(), definition.quota
    depends = {"none": {}, "fixed": {"quota_share": usual.quota_share}}.get(quota, {"p": usual.p})
    every: list[dict[str, Any]] = [{"quota": quota, **depends}, {"quota": "none"}]
    every += [{"quota": "fixed", "quota_share": share} for share in SHARES]
    forecasts = ("forecast", "adaptive") if quota == "adaptive" else ("forecast",)
    every += [{"quota": name, "p": p} for name in forecasts for p in PROBABILITIES]
    return list({tuple(settings.items()): settings for settings in every}.values())


def check_front_options(noise: float, named: frozenset[str]) -> None:
    """Raise InputError for a noise that is no share, and for parameters that vary themselves."""
    if not 0 <= noise < 1:
        raise InputError(f"noise = {noise:g}: must be at least 0 and below 1")
    if taken := [name for name in VARIED if name in named]:
        raise InputError(f"{', '.join(taken)}: a comparison of fronts goes over all quotas itself; leave it out")


def run_fronts(
    workload: Workload,
    schedulers: Sequence[str | SchedulerDefinition],
    parameters: Parameters,
    named: frozenset[str] = frozenset(),
    *,
    noise: float = NOISE,
    workers: Callable[[int], int] = lambda runs: 1,
    cache: ResultCache | None = None,
    started: Callable[[list[Job]], Progress] = lambda jobs: lambda job: None,
    window: Window = (None, None),
    seed: int = 0,
    check: bool = False,
) -> FrontComparison:
    """Run every scheduler with every quota; `named` are the parameters that the user has set.

    `workers` gets the number of runs and says how many go at a time. A quota under which the trace cannot be run is
    left out, with the reason.
    """
    check_front_options(noise, named)
    start, end = (-inf if window[0] is None else window[0]), (inf if window[1] is None else window[1])
    if not any(task.is_spot and start <= task.submit_time <= end for task in workload.tasks):
        raise InputError("no spot task is counted, so there is nothing that a quota could trade")
    definitions = [find_scheduler(scheduler) for scheduler in schedulers]
    check_fits_resources(workload, parameters)
    warn_of_idle_settings(definitions, workload.nodes, parameters.changed({"quota": "forecast"}), named)
    digest, least = _digest(workload), least_quota_share(workload)
    jobs: list[FrontRun] = []
    own: set[FrontRun] = set()
    left_out: list[LeftOut] = []
    for definition in definitions:
        packed = pack_scheduler(definition)
        for number, settings in enumerate(quotas_of(definition)):
            chosen = parameters.changed(settings)
            label = quota_in_force(definition, chosen) + (f" p={chosen.p:g}" if "p" in settings else "")
            if chosen.quota == "fixed" and chosen.quota_share < least:
                reason = f"a spot task is larger than the whole quota, which must be {least:.0%} at least"
                left_out.append(LeftOut(definition.name, label, reason))
                continue
            jobs.append(FrontRun(packed, chosen, label, digest, window, seed, check))
            own |= {jobs[-1]} if number == 0 else set()

    def executor(missing: list[Job]) -> Generator[tuple[Any, Any], None, None]:
        count = workers(len(missing))
        setup = (_receive, (digest, pack_workload(workload))) if min(count, len(missing)) > 1 else None
        return on_this_machine(count, missing, setup)

    def failed(job: Job, error: Exception) -> None:
        if not isinstance(error, StuckError | InputError):
            raise error
        assert isinstance(job, FrontRun)
        left_out.append(LeftOut(job.scheduler.name, job.quota, str(error)))

    _workloads[digest] = workload
    try:
        results = run_jobs(jobs, cache, executor, started, failed)
    finally:
        del _workloads[digest]
    if not results:
        first = left_out[0]
        raise InputError(f"no run could be made. The first: {first.scheduler}, {first.quota}: {first.reason}")
    points = [FrontPoint(job.scheduler.name, job.quota, job in own, results[job]) for job in jobs if job in results]
    order = {definition.name: place for place, definition in enumerate(definitions)}
    left_out.sort(key=lambda one: order[one.scheduler])
    return FrontComparison(tuple(points), tuple(left_out), noise, workload.name)
