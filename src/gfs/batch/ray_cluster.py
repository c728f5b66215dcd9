"""Jobs on a Ray cluster, one started here or one that runs already (`pip install 'gfs-scheduler[ray]'`)."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

from gfs.batch.job import Job
from gfs.batch.workers import Outcome, outcome
from gfs.domain.errors import InputError

LOCAL = "local"
"""In place of an address: start Ray on this machine, for as long as it takes."""
SECONDS_TO_ANSWER = 10.0


def load_ray() -> Any:
    """Ray; raises InputError that says how to install it."""
    try:
        import ray
    except ImportError:
        raise InputError("Ray is not installed: pip install 'gfs-scheduler[ray]'") from None
    return ray


class RayCluster:
    """Each job a task of Ray; its workers load a trace once and keep it."""

    def __init__(self, address: str, count: int | None = None) -> None:
        self._ray = load_ray()
        self._address = address
        self._count = count

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """As they are done."""
        if not jobs:
            return
        ray = self._ray
        self._connect()
        try:
            compute = ray.remote(outcome)
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
                _knock(self._address)
                self._ray.init(address=self._address, **options)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(f"no Ray cluster answers at {self._address}: {error}") from error


def _knock(address: str) -> None:
    """Fail at once where nobody is: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()


def _fetched(ray: Any, reference: Any) -> Outcome:
    try:
        found: Outcome = ray.get(reference)
    except ray.exceptions.RayError as error:  # a worker that died, not a job that failed
        return RuntimeError(str(error))
    return found
