"""Run jobs in this process, or in several processes of this machine. The results are the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from gfs.batch.job import Runnable, result_or_error

J = TypeVar("J", bound=Runnable[Any])

CAN_START = os.name == "posix"
"""Whether this system can start workers: elsewhere jobs run one by one."""


def on_this_machine(
    count: int,
    jobs: Sequence[J],
    setup: tuple[Callable[..., None], tuple[Any, ...]] | None = None,
    message: Callable[[Any], None] = lambda ignored: None,
) -> Generator[tuple[J, Any], None, None]:
    """Every job with its result, an exception if it failed: one by one here, or `count` at a time in processes.

    Each process calls `setup` with its arguments once, before its first job. `message` gets what jobs send with
    `tell_parent`. Leaving early, also by Ctrl-C, kills the processes.
    """
    count = min(count, len(jobs)) if CAN_START else 1
    if count <= 1:
        yield from ((job, result_or_error(job)) for job in jobs)
        return
    from multiprocessing.connection import wait  # not needed, and not imported, where one process does it all

    import cloudpickle

    from gfs.batch.worker import Kind, Worker

    workers: list[Worker] = []
    try:
        workers.extend(Worker() for _ in range(count))
        shared = cloudpickle.dumps(setup)
        waiting = iter(jobs)
        running: dict[Any, tuple[Worker, J]] = {}
        for worker, job in zip(workers, waiting, strict=False):
            worker.send(shared)
            worker.send(cloudpickle.dumps(job))
            running[worker.connection] = worker, job
        while running:
            for connection in wait(list(running)):
                worker, job = running[connection]
                kind, value = worker.receive()
                if kind is Kind.MESSAGE:
                    message(value)
                    continue
                del running[connection]
                following = next(waiting, None)
                if following is not None:
                    worker.send(cloudpickle.dumps(following))
                    running[connection] = worker, following
                yield job, value
    finally:
        for worker in workers:
            worker.kill()
