"""Worker processes: they end with their parent, whatever ends it, and Ctrl-C says what is kept."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gfs.batch.executors import on_this_machine

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")

SWEEP = """
[trace]
preset = "paper"
nodes = 24
days = 10

[vary]
scheduler = ["static", "gfs-plus"]
seed = [0, 1, 2, 3, 4, 5, 6, 7]
"""

WAITING = """
import os, signal
from gfs.batch.executors import on_this_machine

class Wait:
    def run(self):
        os.write(2, f"{os.getpid()}\\n".encode())
        signal.pause()

list(on_this_machine(2, [Wait(), Wait()]))
"""


class Seven:
    """A job."""

    def run(self) -> int:
        return 7


def pids(process: subprocess.Popen[str], count: int) -> list[int]:
    """The workers, each of which writes its number when it is at work."""
    assert process.stderr is not None
    return [int(process.stderr.readline()) for _ in range(count)]


def wait_until_gone(process: subprocess.Popen[str]) -> str:
    """Everything still written; it ends when the last process that holds the pipe has gone."""
    assert process.stderr is not None
    rescue = threading.Timer(120, process.kill)  # a test that would hang fails
    rescue.start()
    try:
        return process.stderr.read()
    finally:
        rescue.cancel()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


DYING = WAITING.replace("signal.pause()", "os._exit(9)")


def test_a_worker_that_dies_is_named_with_what_to_do() -> None:
    ended = subprocess.run([sys.executable, "-c", DYING], capture_output=True, text=True, check=False)
    assert "GfsError: a worker process ended unexpectedly, most likely because memory ran out" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_workers_end_when_their_parent_is_killed(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITING], stderr=subprocess.PIPE, text=True) as process:
        workers = pids(process, 2)
        assert all(map(alive, workers))
        process.send_signal(number)
        wait_until_gone(process)
        assert process.wait() != 0
    assert not any(map(alive, workers))


def test_an_exit_that_was_passed_over_comes_with_the_next_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gfs.batch.executors.TOLD_TO_END", [signal.SIGTERM])
    with pytest.raises(SystemExit, match="143"):
        list(on_this_machine(2, [Seven(), Seven()]))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_sweep_takes_its_workers_with_it_and_goes_on_later(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    words = (sys.executable, "-m", "gfs.cli.main", "sweep", "sweep.toml", "--out", "out", "--workers", "2")
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("1 of 16: ")
        # The terminal sends Ctrl-C to the whole group, so to the workers as well.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        said = wait_until_gone(process)
        code = process.wait()
    assert "Traceback" not in said
    kept = len(list((tmp_path / "out/cache").glob("*.json")))
    assert 1 <= kept < 16
    if number == signal.SIGINT:
        assert code == 130
        found = re.search(r"interrupted; (\d+) results? (is|are) kept in out/cache; the same command again", said)
        assert found, said
        assert int(found[1]) == kept
