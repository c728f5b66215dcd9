"""Executors of jobs: this process, or several processes of this machine. The results are the same."""

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
from typing import Any, Protocol, TypeVar

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


class Executor(Protocol):
    """Runs jobs and hands over each result as it comes; an exception if the job failed."""

    def run(self, jobs: Sequence[J]) -> Iterator[tuple[J, Any]]:
        """Every job once, in any order."""


def result_or_error(job: Runnable[T]) -> T | Exception:
    """Run a job; a failure is handed over as well."""
    try:
        return job.run()
    except Exception as error:
        return error


class ThisProcess:
    """One job after the other, in this process."""

    def run(self, jobs: Sequence[J]) -> Iterator[tuple[J, Any]]:
        """In the order given."""
        for job in jobs:
            yield job, result_or_error(job)


class ProcessPool:
    """Several jobs at a time, each in a process of its own.

    `setup` is called with `setup_arguments` once in every worker, before its first job. `while_waiting` is called
    in this process a few times a second.
    """

    def __init__(
        self,
        count: int,
        setup: Callable[..., None] | None = None,
        setup_arguments: tuple[Any, ...] = (),
        while_waiting: Callable[[], None] | None = None,
    ) -> None:
        self._count = count
        self._setup = setup
        self._setup_arguments = setup_arguments
        self._while_waiting = while_waiting

    def run(self, jobs: Sequence[J]) -> Iterator[tuple[J, Any]]:
        """As they are done. Leaving early, also by Ctrl-C, kills the workers."""
        if not jobs:
            return
        pool: ProcessPoolExecutor | None = None
        try:
            with ignore_sigint() as pressed:
                pool = ProcessPoolExecutor(
                    min(self._count, len(jobs)),
                    timeout=None,
                    initializer=_start_worker,
                    initargs=(os.getpid(), self._setup, self._setup_arguments),
                )
                running: dict[Future[Any], J] = {pool.submit(result_or_error, job): job for job in jobs if not pressed}
            seconds = 0.1 if self._while_waiting else None
            while running:
                done = wait(running, timeout=seconds, return_when=FIRST_COMPLETED).done
                if TOLD_TO_END:
                    sys.exit(128 + TOLD_TO_END[0])
                if self._while_waiting:
                    self._while_waiting()
                for future in done:
                    yield running.pop(future), _result_of(future)
        except BaseException:
            if pool is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of a missing pgrep: loky kills the workers all the same
                    pool.shutdown(kill_workers=True)
            raise
        pool.shutdown()


def on_this_machine(count: int, jobs: int) -> Executor:
    """An executor for so many jobs, `count` of them at a time."""
    return ProcessPool(count) if min(count, jobs) > 1 else ThisProcess()


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


def _start_worker(parent: int, setup: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    if setup is not None:
        setup(*arguments)


def _end_with_parent(parent: int) -> None:
    """A parent that was killed cannot tell its workers to end."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
