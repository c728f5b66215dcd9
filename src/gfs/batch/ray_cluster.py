"""Jobs on a Ray cluster, one started here or one that runs already (`pip install 'gfs-scheduler[ray]'`)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Sequence
from typing import Any

from gfs.batch.executors import J
from gfs.batch.job import result_or_error
from gfs.domain.errors import InputError

LOCAL = "local"
"""In place of an address: start Ray on this machine, for as long as it takes."""
CONNECT_SECONDS = 10.0


def load_ray() -> Any:
    """Ray; raises InputError that says how to install it."""
    try:
        import ray
    except ImportError:
        raise InputError("Ray is not installed: pip install 'gfs-scheduler[ray]'") from None
    return ray


def on_ray(address: str, count: int | None = None) -> Callable[[Sequence[J]], Generator[tuple[J, Any], None, None]]:
    """Runs each job as a task of Ray; its workers load a trace once and keep it."""
    ray = load_ray()

    def run(jobs: Sequence[J]) -> Generator[tuple[J, Any], None, None]:
        if not jobs:
            return
        _connect(ray, address, count)
        try:
            compute = ray.remote(result_or_error)
            running = {compute.remote(job): job for job in jobs}
            while running:
                done, _ = ray.wait(list(running), num_returns=1)
                for reference in done:
                    yield running.pop(reference), _fetched(ray, reference)
        finally:
            ray.shutdown()

    return run


def _connect(ray: Any, address: str, count: int | None) -> None:
    options = {"log_to_driver": False, "configure_logging": False}
    try:
        if address == LOCAL:
            ray.init(num_cpus=count, include_dashboard=False, **options)
        else:
            check_reachable(address)
            ray.init(address=address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"no Ray cluster answers at {address}: {error}") from error


def check_reachable(address: str) -> None:
    """Raise OSError at once where nothing listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()


def _fetched(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:  # a worker that died, not a job that failed
        return RuntimeError(str(error))
