"""The answers of many jobs: from the cache, or computed now and kept as soon as they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gfs.batch.cache import Cache
from gfs.batch.job import Answer, Job
from gfs.batch.workers import Workers

Progress = Callable[[Job], None]
"""Told of every job that is done."""
Failed = Callable[[Job, Exception], None]
"""Told of every job that failed."""


def answer_all(
    jobs: Iterable[Job],
    cache: Cache,
    workers: Callable[[int], Workers],
    started: Callable[[list[Job]], Progress],
    failed: Failed | None = None,
) -> dict[Job, Answer]:
    """Every job with its answer.

    `workers` are asked for when it is known how many jobs are to be computed. `started` is told which, the longest
    first, and gives whom to tell what is done. A job that fails is told to `failed`, and the others go on; without
    it the first failure ends everything.
    """
    answers: dict[Job, Answer] = {}
    missing: list[Job] = []
    for job in dict.fromkeys(jobs):
        known = cache.find(job)
        if known is None:
            missing.append(job)
        else:
            answers[job] = known
    missing.sort(key=lambda job: -job.weight)
    done = started(missing)
    for job, outcome in workers(len(missing)).run(missing):
        if not isinstance(outcome, Exception):
            answers[job] = cache.keep(job, outcome)
        elif failed is not None:
            failed(job, outcome)
        else:
            raise outcome
        done(job)
    return answers
