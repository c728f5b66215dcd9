"""One workload under several schedulers, several runs at a time.

A worker gets the workload by column, and a scheduler by its name where that is enough.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

from gfs.assembly.definitions import SchedulerDefinition
from gfs.assembly.parameters import Parameters
from gfs.assembly.result import RunResult, Window
from gfs.assembly.run import run_simulation
from gfs.assembly.schedulers import check_fits_quota, check_fits_resources, find_scheduler, is_registered
from gfs.batch.executors import CAN_START, on_this_machine
from gfs.domain.errors import InputError
from gfs.domain.task import Task
from gfs.domain.text import one_line
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
    if len(definitions) > 1 and (own := [pool.gpu_model for pool in parameters.pools if pool.scheduler]):
        raise InputError(
            f"[pools.{own[0]}] names a scheduler: schedulers are compared in all pools alike; leave that line out"
        )
    for definition in definitions:
        check_fits_quota(definition, workload, parameters)  # before the first run, not after the second
    check_fits_resources(workload, parameters)
    if workers <= 1 or len(definitions) == 1 or not CAN_START:
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
        from gfs.batch.worker import tell_parent

        calls = 0

        def report(finished: int) -> None:
            nonlocal calls
            calls += 1
            if calls % REPORT_EVERY == 0:
                tell_parent((self.scheduler.name, finished))

        result = run_simulation(
            _shared["workload"],
            unpack_scheduler(self.scheduler),
            _shared["parameters"],
            window=_shared["window"],
            progress=report,
            **_shared["options"],
        )
        return replace(result, workload=Workload((), ()))


_shared: dict[str, Any] = {}
"""What every run of a worker needs: sent once per worker, not once per run."""


def _share(workload: bytes, parameters: Parameters, window: Window, options: dict[str, Any]) -> None:
    _shared.update(workload=unpack_workload(workload), parameters=parameters, window=window, options=options)


def _run_in_processes(
    jobs: Sequence[ComparisonRun], workers: int, progress: BarProgress | None, tasks: int, shared: tuple[Any, ...]
) -> dict[ComparisonRun, RunResult]:
    def report(message: tuple[str, int]) -> None:
        if progress:
            progress(*message)

    results: dict[ComparisonRun, RunResult] = {}
    with closing(on_this_machine(workers, jobs, (_share, shared), report)) as done:
        for job, result in done:
            if isinstance(result, Exception):
                raise result
            results[job] = result
            if progress:
                progress(job.scheduler.name, tasks)
    return results


TASK_COLUMNS = tuple(field.name for field in fields(Task) if field.init)
OTHER_FIELDS = tuple(field.name for field in fields(Workload) if field.name != "tasks")
"""All else that a workload has: plain columns already."""


def pack_workload(workload: Workload) -> bytes:
    """A workload by column: packed task by task it would take ten times as long, and longer to unpack."""
    columns = [[getattr(task, name) for task in workload.tasks] for name in TASK_COLUMNS]
    rest = {name: getattr(workload, name) for name in OTHER_FIELDS}
    return pickle.dumps((columns, rest))


def unpack_workload(packed: bytes) -> Workload:
    """The workload that was packed."""
    columns, rest = pickle.loads(packed)
    return Workload(tuple(map(Task, *columns)), **rest)


class PackedScheduler(NamedTuple):
    """A scheduler on its way to a worker."""

    name: str
    pickled: bytes | None
    """None where the worker finds it by its name, as it does ours and those of plug-ins."""


def pack_scheduler(definition: SchedulerDefinition) -> PackedScheduler:
    """What a worker needs to have this scheduler; an error if it cannot be handed over."""
    if is_registered(definition):
        return PackedScheduler(definition.name, None)
    import cloudpickle  # takes a while to load, and few need it

    try:
        return PackedScheduler(definition.name, cloudpickle.dumps(definition))
    except Exception as error:  # pickling fails in many ways
        raise _not_portable(definition.name, error) from error


def unpack_scheduler(packed: PackedScheduler) -> SchedulerDefinition:
    """The scheduler that was packed; an error if this process does not know what it is made of."""
    if packed.pickled is None:
        return find_scheduler(packed.name)
    try:
        definition: SchedulerDefinition = pickle.loads(packed.pickled)
    except Exception as error:  # such as a module that only the parent can import
        raise _not_portable(packed.name, error) from error
    return definition


def _not_portable(name: str, error: Exception) -> InputError:
    return InputError(
        f"scheduler {name!r} cannot be handed to a process of its own ({one_line(error)}):"
        " put it into an installed module, without open files or locks in it, or set workers to 1"
    )
