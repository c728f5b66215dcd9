"""Programs that never outlive who started them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gfs.domain.errors import InputError

_PR_SET_PDEATHSIG = 1


class Processes:
    """Programs of the bench: each with a log of its own, all killed together.

    They keep nothing that is worth a slow end. On Linux the kernel kills them, too, when the thread that started them
    dies for whatever reason, so start them in the main thread.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started: dict[str, tuple[Sequence[str | Path], Mapping[str, str]]] = {}

    def start(self, name: str, words: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """Start a program; what it prints goes to NAME.log."""
        self._started[name] = words, environment or {}
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | dict(environment or {}),
                start_new_session=True,  # Ctrl-C is ours to handle
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    def start_again(self, name: str) -> None:
        """Start a program that was stopped, as it was."""
        self.start(name, *self._started[name])

    def names(self) -> tuple[str, ...]:
        """The programs that were started and not stopped."""
        return tuple(self._running)

    def pid(self, name: str) -> int:
        """The process number of a program."""
        return self._running[name].pid

    def pause(self, name: str) -> None:
        """Let a program stand still (SIGSTOP) until it is resumed."""
        self._running[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a program that was paused go on."""
        self._running[name].send_signal(signal.SIGCONT)

    def check(self) -> None:
        """Raise InputError if a program has ended by itself, with the last line of its log."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise InputError(f"{name} ended with status {process.returncode}: {self.last_line(name)}")

    def last_line(self, name: str) -> str:
        """The last line that a program printed."""
        lines = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"

    def wait(self, name: str, seconds: float) -> int:
        """Wait until a program ends by itself, at most so long; its exit status."""
        status = self._running[name].wait(seconds)
        del self._running[name]
        return status

    def end(self, name: str, seconds: float) -> int:
        """Tell a program to end (SIGTERM) and wait for it, at most so long; its exit status."""
        process = self._running.pop(name)
        process.terminate()
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def stop(self, *names: str) -> None:
        """Kill these programs, by default all, and wait until they are gone."""
        ended = [self._running.pop(name) for name in reversed(names or tuple(self._running))]
        for process in ended:
            process.kill()
        for process in ended:
            process.wait()


def _die_with_parent() -> None:
    """In the child: be killed when the parent dies."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died in between
        os._exit(1)
