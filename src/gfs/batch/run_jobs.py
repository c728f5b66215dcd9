"""The results of many jobs: from the cache, or computed now and kept as soon as they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gfs.batch.cache import ResultCache
from gfs.batch.executors import Executor
from gfs.batch.job import Job, JobResult

Progress = Callable[[Job], None]
"""Told of every job that is done."""
Failed = Callable[[Job, Exception], None]
"""Told of every job that failed."""


def run_jobs(
    jobs: Iterable[Job],
    cache: ResultCache,
    executor: Callable[[int], Executor],
    started: Callable[[list[Job]], Progress],
    failed: Failed | None = None,
) -> dict[Job, JobResult]:
    """Every job with its result.

    `executor` is asked for when it is known how many jobs are to be computed. `started` gets them, the longest
    first, and returns what to call for each that is done. A job that fails is told to `failed`, and the others go
    on; without it the first failure ends everything.
    """
    results: dict[Job, JobResult] = {}
    missing: list[Job] = []
    for job in dict.fromkeys(jobs):
        known = cache.find(job)
        if known is None:
            missing.append(job)
        else:
            results[job] = known
    missing.sort(key=lambda job: -job.weight)
    done = started(missing)
    try:
        for job, result in executor(len(missing)).run(missing):
            if not isinstance(result, Exception):
                results[job] = cache.keep(job, result)
            elif failed is not None:
                failed(job, result)
            else:
                raise result
            done(job)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {cache.summary()}") from None
    return results
