"""A worker: a process that runs jobs for another one, its parent, and ends with it.

Parent and worker share one connection and nothing else: no locks, no files, no third process. When the parent ends, by
whatever, the system closes its side, and the worker ends at once. So neither has to tidy up after the other.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from enum import Enum
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from typing import Any

import cloudpickle

from gfs.batch.job import result_or_error
from gfs.domain.errors import GfsError

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that a terminal or an operator sends to parent and workers alike: the parent decides."""
START = "import sys; sys.path[:] = sys.argv[2:]; from gfs.batch.worker import serve; serve(int(sys.argv[1]))"


class Kind(Enum):
    """What a worker sends."""

    MESSAGE = "message"
    RESULT = "result"


class Worker:
    """A worker as its parent sees it."""

    def __init__(self) -> None:
        """Start it. `kill` ends it; so does the end of this process, or of the last reference to this object."""
        self.connection, theirs = Pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # inherited: the worker never sees them
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def send(self, packed: bytes) -> None:
        """Send what was packed: what to set up, then a job at a time."""
        try:
            self.connection.send_bytes(packed)
        except OSError as error:
            raise _ended_unexpectedly() from error

    def receive(self) -> tuple[Kind, Any]:
        """The next message, or the result of the job."""
        try:
            packed = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise _ended_unexpectedly() from error
        return pickle.loads(packed)  # type: ignore[no-any-return]

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self.connection.close()
        self._process.kill()
        self._process.wait()


def _ended_unexpectedly() -> GfsError:
    return GfsError("a worker process ended unexpectedly, most likely because memory ran out; try fewer --workers")


# -- in the worker ---------------------------------------------------------------------------------

_to_parent: list[Connection] = []
"""The connection, in a worker."""


def tell_parent(message: Any) -> None:
    """Send a message to the parent, which gets it before the result of the job."""
    _to_parent[0].send_bytes(cloudpickle.dumps((Kind.MESSAGE, message)))


def serve(descriptor: int) -> None:
    """Run jobs until the parent ends."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    connection = Connection(descriptor)
    _to_parent.append(connection)
    received: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, received), daemon=True).start()
    failure = None
    try:
        setup = pickle.loads(received.get())
        if setup is not None:
            setup[0](*setup[1])
    except Exception as error:
        failure = error
    while True:
        result = failure or _run(received.get())
        sys.stdout.flush()  # what a scheduler prints, in order
        connection.send_bytes(_pack_result(result))


def _receive(connection: Connection, received: SimpleQueue[bytes]) -> None:
    """Take what the parent sends also while a job runs: this is how its end shows."""
    try:
        while True:
            received.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)


def _run(packed: bytes) -> Any:
    try:
        job = pickle.loads(packed)
    except Exception as error:  # such as a module that only the parent can import
        return error
    return result_or_error(job)


def _pack_result(result: Any) -> bytes:
    """The result as bytes; an error in its place where it, or an exception, cannot be packed and unpacked."""
    try:
        packed: bytes = cloudpickle.dumps((Kind.RESULT, result))
        if isinstance(result, Exception):
            pickle.loads(packed)
    except Exception as error:
        failed = result if isinstance(result, Exception) else error
        packed = cloudpickle.dumps((Kind.RESULT, RuntimeError(f"{type(failed).__name__}: {failed}")))
    return packed
