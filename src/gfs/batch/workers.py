"""Who computes jobs: this process, several on this machine, or a Ray cluster. The answers are the same."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Protocol

from gfs.batch.job import Answer, Job

Outcome = Answer | Exception
"""What came of a job; an exception if it failed."""


class Workers(Protocol):
    """Computes jobs and hands their outcomes over as they come."""

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Every job once, in any order."""
        ...


def outcome(job: Job) -> Outcome:
    """Compute a job; a failure is an outcome too."""
    try:
        return job.run()
    except Exception as error:
        return error


class OneAfterTheOther:
    """In this process."""

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """In the order given."""
        for job in jobs:
            yield job, outcome(job)


class Processes:
    """Several at the same time, each in a process of its own."""

    def __init__(self, count: int) -> None:
        self._count = count

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """As they are done."""
        # Fresh processes, not forks: a fork of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(self._count, max(len(jobs), 1)), mp_context=context)
        with pool:
            try:
                running: dict[Future[Outcome], Job] = {pool.submit(outcome, job): job for job in jobs}
                while running:
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        job = running.pop(future)
                        yield job, future.result()
            except BaseException:
                for process in list((pool._processes or {}).values()):
                    process.terminate()  # else leaving the pool would wait for the runs to end
                pool.shutdown(cancel_futures=True)
                raise


def on_this_machine(count: int, jobs: int) -> Workers:
    """So many at the same time, if there are so many jobs."""
    return Processes(count) if min(count, jobs) > 1 else OneAfterTheOther()
