"""Jobs on a Ray cluster, one started here or one that runs already (`pip install 'gfs-scheduler[ray]'`)."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

from gfs.batch.executors import J, result_or_error
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


class RayCluster:
    """Runs each job as a task of Ray; its workers load a trace once and keep it."""

    def __init__(self, address: str, count: int | None = None) -> None:
        self._ray = load_ray()
        self._address = address
        self._count = count

    def run(self, jobs: Sequence[J]) -> Iterator[tuple[J, Any]]:
        """As they are done."""
        if not jobs:
            return
        ray = self._ray
        self._connect()
        try:
            compute = ray.remote(result_or_error)
            running = {compute.remote(job): job for job in jobs}
            while running:
                done, _ = ray.wait(list(running), num_returns=1)
                for reference in done:
                    yield running.pop(reference), _fetched(ray, reference)
        finally:
            ray.shutdown()

    def _connect(self) -> None:
        options = {"log_to_driver": False, "configure_logging": False}
        try:
            if self._address == LOCAL:
                self._ray.init(num_cpus=self._count, include_dashboard=False, **options)
            else:
                check_reachable(self._address)
                self._ray.init(address=self._address, **options)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(f"no Ray cluster answers at {self._address}: {error}") from error


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
