"""One workload under several schedulers, several runs at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty
from typing import Any

from gfs.assembly.definitions import SchedulerDefinition
from gfs.assembly.parameters import Parameters
from gfs.assembly.result import RunResult, Window
from gfs.assembly.run import run_simulation
from gfs.assembly.schedulers import check_fits_quota, check_fits_resources, find_scheduler
from gfs.batch.transfer import PackedScheduler, pack_scheduler, pack_workload, unpack_scheduler, unpack_workload
from gfs.domain.workload import Workload

BarProgress = Callable[[str, int], None]
"""(scheduler, tasks finished)"""

REPORT_EVERY = 50
"""Ticks between two messages of a worker about its progress: about four hours of simulated time."""


def run_all(
    workload: Workload,
    schedulers: Sequence[str | SchedulerDefinition],
    parameters: Parameters,
    *,
    workers: int,
    progress: BarProgress | None = None,
    window: Window = (None, None),
    **options: Any,
) -> list[RunResult]:
    """Results in the order of `schedulers`, the same however many workers there are."""
    definitions = [find_scheduler(scheduler) for scheduler in schedulers]
    for definition in definitions:
        check_fits_quota(definition, workload, parameters)  # before the first run, not after the second
    check_fits_resources(workload, parameters)
    if workers <= 1 or len(definitions) == 1:
        return [
            run_simulation(
                workload,
                definition,
                parameters,
                window=window,
                progress=partial(progress, definition.name) if progress else None,
                **options,
            )
            for definition in definitions
        ]
    jobs = [ComparisonRun(pack_scheduler(definition)) for definition in definitions]
    shared = (pack_workload(workload), parameters, window, options)
    results = _run_in_processes(jobs, workers, progress, len(workload.tasks), shared)
    return [replace(results[job], workload=workload) for job in jobs]


@dataclass(frozen=True, slots=True)
class ComparisonRun:
    """A scheduler on the workload that all runs share."""

    scheduler: PackedScheduler

    def run(self) -> RunResult:
        """Simulate it; the caller has the workload already, so it is not sent back."""
        name, messages, workload = self.scheduler.name, _shared["messages"], _shared["workload"]
        calls = 0

        def report(finished: int) -> None:
            nonlocal calls
            calls += 1
            if calls % REPORT_EVERY == 0:
                messages.put((name, finished))

        result = run_simulation(
            workload,
            unpack_scheduler(self.scheduler),
            _shared["parameters"],
            window=_shared["window"],
            progress=report,
            **_shared["options"],
        )
        return replace(result, workload=Workload((), ()))


_shared: dict[str, Any] = {}
"""What every run of a worker needs: sent once per worker, not once per run."""


def _share(messages: Any, workload: bytes, parameters: Parameters, window: Window, options: dict[str, Any]) -> None:
    _shared.update(
        messages=messages, workload=unpack_workload(workload), parameters=parameters, window=window, options=options
    )


def _run_in_processes(
    jobs: Sequence[ComparisonRun], workers: int, progress: BarProgress | None, tasks: int, shared: tuple[Any, ...]
) -> dict[ComparisonRun, RunResult]:
    from loky.backend import get_context  # not needed, and not imported, where one process does it all

    from gfs.batch.executors import ProcessPool, ignore_sigint

    with ignore_sigint():  # the first queue starts a process that tidies up after all others
        messages = get_context().Queue()

    def pass_on() -> None:
        while True:
            try:
                name, finished = messages.get_nowait()
            except Empty:
                return
            if progress and name not in done:  # a result may be faster than the messages before it
                progress(name, finished)

    results: dict[ComparisonRun, RunResult] = {}
    done: set[str] = set()
    for job, result in ProcessPool(workers, _share, (messages, *shared), pass_on).run(jobs):
        if isinstance(result, Exception):
            raise result
        results[job] = result
        done.add(job.scheduler.name)
        if progress:
            progress(job.scheduler.name, tasks)
    return results
