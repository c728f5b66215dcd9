"""A worker: a process that runs jobs for another one, its parent, and ends with it.

Parent and worker share one connection and nothing else: no locks, no files, no third process. When the parent ends,
however it ends, the system closes its side, and the worker ends at once. So neither has to tidy up after the other.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from enum import Enum
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from typing import Any

import cloudpickle

from gfs.batch.job import result_or_error
from gfs.domain.errors import GfsError

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that a terminal or an operator sends to parent and workers alike: the parent decides."""
FIRST_FREE = 3
"""The lowest descriptor that is no standard stream."""
START = "import sys; sys.path[:] = sys.argv[2:]; from gfs.batch.worker import serve; serve(int(sys.argv[1]))"


class Kind(Enum):
    """What a worker sends."""

    MESSAGE = "message"
    RESULT = "result"


class Worker:
    """A worker as its parent sees it."""

    def __init__(self) -> None:
        """Start it. `kill` ends it; so does the end of this process, or of the last reference to this object."""
        self.connection, theirs = map(_above_streams, Pipe())
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
            raise self._ended_unexpectedly() from error

    def receive(self) -> tuple[Kind, Any]:
        """Returns the next message, or the result of the job."""
        try:
            packed = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._ended_unexpectedly() from error
        return pickle.loads(packed)  # type: ignore[no-any-return]

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()
        self._process.wait()
        self.connection.close()

    def _ended_unexpectedly(self) -> GfsError:
        """Returns what to tell of a worker that has closed its connection."""
        status = self._process.wait()
        if status == -signal.SIGKILL:
            return GfsError("a worker process was killed, most likely because memory ran out; try fewer --workers")
        return GfsError(f"a worker process ended with exit code {status} in the midst of a simulation")


def _above_streams(connection: Connection) -> Connection:
    """Returns a connection whose descriptor is none of the standard streams, which a caller may have closed."""
    if connection.fileno() >= FIRST_FREE:
        return connection
    moved = Connection(fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_FREE))
    connection.close()
    return moved


# -- in the worker ---------------------------------------------------------------------------------

_to_parent: list[Connection] = []
"""The connection, in a worker."""


def tell_parent(message: Any) -> None:
    """Send a message to the parent, which gets it before the result of the job."""
    _send(cloudpickle.dumps((Kind.MESSAGE, message)))


def _send(packed: bytes) -> None:
    try:
        _to_parent[0].send_bytes(packed)
    except OSError:  # the parent is gone
        os._exit(1)


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
        packed = received.get()
        result = _run(packed) if failure is None else failure
        if sys.stdout is not None:  # the caller may have closed it
            with suppress(OSError):  # it is full, or its reader has left: the result goes on all the same
                sys.stdout.flush()  # what a scheduler prints, in order
        _send(_pack_result(result))


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
    """Returns a result as bytes, or an error in its place where it cannot be packed and unpacked."""
    try:
        packed: bytes = cloudpickle.dumps((Kind.RESULT, result))
        if isinstance(result, Exception):
            pickle.loads(packed)
    except Exception as error:
        failed = result if isinstance(result, Exception) else error
        packed = cloudpickle.dumps((Kind.RESULT, RuntimeError(f"{type(failed).__name__}: {failed}")))
    return packed
