"""Processes of `gfs` for tests: started on a terminal or not, waited for until they are gone."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from waiting import LONGEST

GFS = (sys.executable, "-m", "gfs.cli.start")
TAKE = "import fcntl, os, sys, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""The terminal of standard error becomes that of the session, then the program runs."""

ENDLESS = """
import signal
from dataclasses import replace
from gfs import SCHEDULERS

STATIC = SCHEDULERS["static"]

def placer(context):
    found, left = STATIC.placer(context), {calls}
    choose = found.choose

    def choose_or_wait(task):
        nonlocal left
        left -= 1
        while left < 0:
            signal.alarm({seconds:.0f})  # nobody is there any more to end it
            signal.pause()
        return choose(task)

    found.choose = choose_or_wait
    return found

ENDLESS = replace(STATIC, name="endless", summary="never done", placer=placer)
"""


def add_endless_scheduler(folder: Path, monkeypatch: pytest.MonkeyPatch, calls: int = 0) -> None:
    """Put a scheduler `endless` on the path that places so many pods and then waits for ever."""
    metadata = folder / "gfs_endless-1.dist-info"
    metadata.mkdir(parents=True)
    (folder / "gfs_endless.py").write_text(ENDLESS.format(calls=calls, seconds=LONGEST))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: gfs-endless\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[gfs.schedulers]\nendless = gfs_endless:ENDLESS\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, ended with its whole group if the test leaves it running."""
    with subprocess.Popen(command, text=True, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            _kill_group(process)


def _kill_group(process: subprocess.Popen[Any]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class OnTerminal:
    """A process that leads the session of a terminal, as under a shell; its errors and bars go there."""

    def __init__(self, *words: str, stdout: int | None = subprocess.DEVNULL) -> None:
        pty = pytest.importorskip("pty")
        self._leader, follower = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE, *GFS, *words], stdout=stdout, stderr=follower, start_new_session=True
        )
        os.close(follower)
        self.seen = ""

    def wait_for(self, shown: str) -> None:
        """Until the terminal shows this pattern."""
        while not re.search(shown, self.seen):
            piece = self._read()
            assert piece, f"the terminal closed before it showed {shown!r}: {self.seen}"

    def press_ctrl_c(self) -> None:
        """As the terminal does it: to the whole group, so to the workers as well."""
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self) -> None:
        """Close the window."""
        os.close(self._leader)

    def rest(self) -> str:
        """All that is shown until nobody has the terminal open any more; closes it."""
        while self._read():
            pass
        self.close()
        return self.seen

    def _read(self) -> str:
        try:
            piece = os.read(self._leader, 4096).decode(errors="replace")
        except OSError:  # how Linux says that it is closed
            piece = ""
        self.seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", self.seen + piece)
        return piece

    def kill(self) -> None:
        """End what a failed test has left."""
        _kill_group(self.process)
        self.process.wait()

    def end(self) -> int:
        """The exit code, once the process and all of its group have ended."""
        code = self.process.wait(LONGEST)
        wait_until_ended(alive(self.process.pid))
        assert alive(self.process.pid) == []
        return code


def wait_until_ended(pids: Iterable[int]) -> None:
    """Until these processes have ended; the kernel tells when."""
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended, _, _ = select.select([process], [], [], LONGEST)
        os.close(process)
        assert ended, f"process {pid} goes on"


def alive(group: int) -> list[int]:
    """The processes of a group that run; one that only waits to be reaped does not."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def run(*words: str, code: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `gfs` with these words, or Python with this code, to its end."""
    command = [*GFS, *words] if code is None else [sys.executable, "-c", code, *words]
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=LONGEST, check=False, **options
    )
