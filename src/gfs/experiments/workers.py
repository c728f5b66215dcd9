"""Jobs at the same time, each in a process; every answer is kept as soon as it is there."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

from gfs.experiments.cache import Cache
from gfs.experiments.jobs import Answer, Job, merged

Progress = Callable[[Job], None]
"""Told of every job that is done."""


def answer_all(
    jobs: Iterable[Job], cache: Cache, workers: int, started: Callable[[list[Job]], Progress]
) -> dict[Job, Answer]:
    """The answers of all jobs: from the cache, or computed now.

    `started` is told what has to be computed, the longest first, and gives whom to tell what is done.
    """
    stands_for = merged(jobs)
    answers: dict[Job, Answer] = {}
    missing: list[Job] = []
    for job in dict.fromkeys(stands_for.values()):
        known = cache.find(job)
        if known is None:
            missing.append(job)
        else:
            answers[job] = known
    missing.sort(key=lambda job: -job.weight)
    done = started(missing)
    if workers <= 1 or len(missing) <= 1:
        for job in missing:
            answers[job] = cache.keep(job, job.run())
            done(job)
    else:
        _at_once(missing, cache, workers, done, answers)
    return {job: answers[other] for job, other in stands_for.items()}


def _at_once(jobs: list[Job], cache: Cache, workers: int, done: Progress, answers: dict[Job, Answer]) -> None:
    # Fresh processes, not forks: a fork of a process with threads may hang.
    pool = ProcessPoolExecutor(min(workers, len(jobs)), mp_context=multiprocessing.get_context("spawn"))
    with pool:
        try:
            running = {pool.submit(_run, job): job for job in jobs}
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    answers[job] = cache.keep(job, future.result())
                    done(job)
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()  # else leaving the pool would wait for the runs to end
            pool.shutdown(cancel_futures=True)
            raise


def _run(job: Job) -> Answer:
    return job.run()
