"""Several simulations of one workload at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing.queues import Queue
from queue import Empty
from typing import Any

from gfs.assembly.definitions import SchedulerDefinition
from gfs.assembly.parameters import Parameters
from gfs.assembly.parcels import (
    PackedScheduler,
    pack_scheduler,
    pack_workload,
    unpack_scheduler,
    unpack_workload,
)
from gfs.assembly.result import RunResult, Window
from gfs.assembly.run import run_simulation
from gfs.assembly.schedulers import check_fits_quota, find_scheduler
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
    recipes = [find_scheduler(scheduler) for scheduler in schedulers]
    for recipe in recipes:
        check_fits_quota(recipe, workload, parameters)  # before the first run, not after the second
    if workers <= 1 or len(recipes) == 1:
        return [
            run_simulation(
                workload,
                recipe,
                parameters,
                window=window,
                progress=partial(progress, recipe.name) if progress else None,
                **options,
            )
            for recipe in recipes
        ]
    packed = [pack_scheduler(recipe) for recipe in recipes]
    # Fresh processes, not forks: a fork of a process with threads (progress bars, Arrow) may hang.
    context = multiprocessing.get_context("spawn")
    with _deaf_children():
        messages: Queue[tuple[str, int]] = context.Queue()
        pool = ProcessPoolExecutor(
            workers,
            mp_context=context,
            initializer=_set_up,
            initargs=(pack_workload(workload), parameters, window, options, messages),
        )
    with pool:
        try:
            with _deaf_children() as pressed:
                futures = [pool.submit(_run_one, scheduler) for scheduler in packed if not pressed]
            _pass_on(messages, futures, progress)
            return [replace(future.result(), workload=workload) for future in futures]
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()  # else leaving the pool would wait for the runs to end
            pool.shutdown(cancel_futures=True)  # waits: at exit Python would race with its thread
            raise


@contextmanager
def _deaf_children() -> Iterator[list[int]]:
    """Processes started herein never see Ctrl-C: only their parent answers it, on leaving, when all is set up.

    Yields a list that is empty until it is pressed.
    """
    pressed: list[int] = []
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    # The mask is for the children, which inherit it; the handler for other threads, which have none.
    answer = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield pressed
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, answer)
    if pressed and callable(answer):
        answer(pressed[0], None)


_shared: dict[str, Any] = {}
"""What every run of a worker needs: sent once per worker, not once per run."""


def _set_up(workload: bytes, parameters: Parameters, window: Window, options: dict[str, Any], messages: Any) -> None:
    _shared.update(
        workload=unpack_workload(workload),
        parameters=parameters,
        window=window,
        options=options,
        messages=messages,
    )


def _run_one(scheduler: PackedScheduler) -> RunResult:
    name, calls = scheduler.name, 0

    def report(finished: int) -> None:
        nonlocal calls
        calls += 1
        if calls % REPORT_EVERY == 0:
            _shared["messages"].put((name, finished))

    result = run_simulation(
        _shared["workload"],
        unpack_scheduler(scheduler),
        _shared["parameters"],
        window=_shared["window"],
        progress=report,
        **_shared["options"],
    )
    _shared["messages"].put((name, len(_shared["workload"].tasks)))
    # The caller has the workload already: do not send it back.
    return replace(result, workload=Workload((), ()))


def _pass_on(messages: Any, futures: Sequence[Future[RunResult]], progress: BarProgress | None) -> None:
    """Hand the workers' progress on until all are done or one has failed."""
    while not all(future.done() for future in futures):
        if any(future.done() and future.exception() for future in futures):
            return
        try:
            name, finished = messages.get(timeout=0.1)
        except Empty:
            continue
        if progress:
            progress(name, finished)
