"""The runs of a plan, computed or found in the cache. One that cannot be simulated is told, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gfs.batch.cache import ResultCache, run_jobs
from gfs.batch.executors import on_this_machine
from gfs.batch.job import Job, JobResult
from gfs.domain.errors import GfsError
from gfs.plans.plan import Compute
from gfs.plans.runs import PlanRun


def computing(
    cache: ResultCache | None,
    workers: int,
    started: Callable[[list[Job]], Callable[[Job], None]] = lambda missing: lambda job: None,
    tell: Callable[[str], None] = lambda message: None,
) -> Compute:
    """Computes runs, or finds them in the cache. `started` as for `run_jobs`; `tell` hears of runs that failed."""

    def compute(runs: Sequence[PlanRun]) -> tuple[Mapping[PlanRun, JobResult], Mapping[PlanRun, str]]:
        errors: dict[Any, str] = {}

        def failed(job: Job, error: Exception) -> None:
            if not isinstance(error, GfsError):
                raise error
            errors[job] = str(error)
            tell(f"failed: {job.label}: {error}")

        found: Mapping[Any, JobResult] = run_jobs(runs, cache, partial(on_this_machine, workers), started, failed)
        return found, errors

    return compute
