"""Who runs jobs: this process, or several processes of this machine. The results are the same."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from loky import ProcessPoolExecutor
from loky.process_executor import BrokenProcessPool

from gfs.batch.job import Runnable
from gfs.domain.errors import GfsError

T = TypeVar("T")
J = TypeVar("J", bound=Runnable[Any])

PARENT_CHECK_SECONDS = 0.5
"""How often a worker looks whether its parent still runs."""


TOLD_TO_END: list[int] = []
"""Signals that told this process to end. Its exit may have been raised where Python passes over exceptions."""


def result_or_error(job: Runnable[T]) -> T | Exception:
    """Run a job; a failure is handed over as well."""
    try:
        return job.run()
    except Exception as error:
        return error


def on_this_machine(
    count: int,
    jobs: Sequence[J],
    setup: tuple[Callable[..., None], tuple[Any, ...]] | None = None,
    while_waiting: Callable[[], None] | None = None,
) -> Iterator[tuple[J, Any]]:
    """Every job with its result, an exception if it failed: one by one here, or `count` at a time in processes.

    `setup` and its arguments are called once in every process, before its first job. `while_waiting` is called in this
    one a few times a second. Leaving early, also by Ctrl-C, kills the processes.
    """
    if min(count, len(jobs)) <= 1:
        yield from ((job, result_or_error(job)) for job in jobs)
        return
    pool: ProcessPoolExecutor | None = None
    try:
        with ignore_sigint() as pressed:
            pool = ProcessPoolExecutor(
                min(count, len(jobs)), timeout=None, initializer=_start_worker, initargs=(os.getpid(), setup)
            )
            running: dict[Future[Any], J] = {pool.submit(result_or_error, job): job for job in jobs if not pressed}
        seconds = 0.1 if while_waiting else None
        while running:
            done = wait(running, timeout=seconds, return_when=FIRST_COMPLETED).done
            if TOLD_TO_END:
                sys.exit(128 + TOLD_TO_END[0])
            if while_waiting:
                while_waiting()
            for future in done:
                yield running.pop(future), _result_of(future)
    except BaseException:
        if pool is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a missing pgrep: loky kills the workers all the same
                pool.shutdown(kill_workers=True)
        raise
    pool.shutdown()


def _result_of(future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise GfsError(
            "a worker process ended unexpectedly, most likely because memory ran out; try fewer --workers"
        ) from error


@contextmanager
def ignore_sigint() -> Iterator[list[int]]:
    """Processes started herein never see Ctrl-C. This process answers it on leaving, when all is set up.

    Yields a list that is empty until it is pressed.
    """
    pressed: list[int] = []
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    # The mask is for the children, which inherit it; the handler for other threads, which have none.
    handler = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield pressed
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if pressed and callable(handler):
        handler(pressed[0], None)


def _start_worker(parent: int, setup: tuple[Callable[..., None], tuple[Any, ...]] | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    if setup is not None:
        setup[0](*setup[1])


def _end_with_parent(parent: int) -> None:
    """A parent that was killed cannot tell its workers to end."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
