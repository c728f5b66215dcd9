"""Worker processes: they end with their parent, whatever ends it, and Ctrl-C says what is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from e2e.processes import GFS, add_endless_scheduler, alive, run, started, wait_until_ended
from gfs.batch.executors import on_this_machine
from gfs.batch.worker import tell_parent
from waiting import LONGEST

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")

SWEEP = """
[trace]
preset = "paper"
nodes = 2
days = 1

[vary]
scheduler = ["endless", "static"]
"""

WAITING = """
import os, signal
from gfs.batch.executors import on_this_machine

class Wait:
    def run(self):
        os.write(2, f"{os.getpid()}\\n".encode())
        signal.alarm(600)  # nobody is there any more to end it
        signal.pause()

list(on_this_machine(2, [Wait(), Wait()]))
"""


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed, most likely because memory ran out; try fewer --workers"),
        ("os._exit(9)", "ended with exit code 9 in the midst of a simulation"),
    ],
)
def test_a_worker_that_dies_is_named_with_what_to_do(end: str, said: str) -> None:
    ended = run(code=WAITING.replace("signal.pause()", end))
    assert f"GfsError: a worker process {said}" in ended.stderr


PRINTING = """
from gfs.batch.executors import on_this_machine

class Print:
    def __init__(self, number):
        self.number = number

    def run(self):
        print("what a job prints")
        return self.number

numbers = sorted(result for _, result in on_this_machine(2, [Print(number) for number in range(4)]))
open("results", "w").write(str(numbers))
"""


@pytest.mark.parametrize("streams", [">&-", "<&- >&-", "<&- >&- 2>&-", ">/dev/full", "| true"])
def test_results_come_whatever_became_of_the_streams(streams: str, tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    shell = ["bash", "-c", f'set -o pipefail; "$0" -c "$1" {streams}', sys.executable, PRINTING]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=LONGEST, check=False, env=plain, cwd=tmp_path)
    assert (tmp_path / "results").read_text() == "[0, 1, 2, 3]"
    assert done.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(number: signal.Signals) -> None:
    with started([sys.executable, "-c", WAITING], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        workers = [int(process.stderr.readline()) for _ in range(2)]
        process.send_signal(number)
        assert process.wait(LONGEST) != 0
        wait_until_ended(workers)


def test_no_worker_is_left_when_its_results_are_not_wanted_any_more() -> None:
    before = _children()  # of other tests
    results = on_this_machine(2, [Tells(1), Tells(2), Tells(3)])
    next(results)
    assert len(_children() - before) == 2
    results.close()
    assert _children() == before


def _children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


class Tells:
    """A job that tells its number before it is done."""

    def __init__(self, number: int) -> None:
        self.number = number

    def run(self) -> int:
        tell_parent(self.number)
        print("what a job prints does not get in the way")
        return self.number


def test_messages_come_before_the_result_of_their_job() -> None:
    told: list[int] = []
    done = []
    for job, result in on_this_machine(2, [Tells(number) for number in range(5)], None, told.append):
        assert job.number == result
        assert result in told
        done.append(result)
    assert sorted(done) == sorted(told) == [0, 1, 2, 3, 4]


class OddError(Exception):
    """Cannot be unpacked: it wants two values and hands over one."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


class Gives:
    """A job that gives something odd."""

    def __init__(self, what: str) -> None:
        self.what = what

    def run(self) -> Any:
        if self.what == "error":
            raise OddError("a", "b")
        return threading.Lock() if self.what == "lock" else 7


def test_what_cannot_be_sent_is_an_error_of_its_job() -> None:
    results = {job.what: result for job, result in on_this_machine(2, [Gives("error"), Gives("lock"), Gives("seven")])}
    assert str(results["error"]) == "OddError: ab"
    assert "pickle" in str(results["lock"])
    assert results["seven"] == 7


def fail(reason: str) -> None:
    raise ValueError(reason)


def test_a_worker_that_cannot_be_set_up_says_why() -> None:
    results = [result for _, result in on_this_machine(2, [Gives("seven"), Gives("seven")], (fail, ("no room",)))]
    assert [str(result) for result in results] == ["no room", "no room"]


PASSES_OVER = """
import signal
from gfs.cli.start import SIGNALS

SIGNALS.listen()
signal.alarm(600)  # nobody is there any more to end it
state = "listens"
while True:
    try:
        print(state, flush=True)
        while True:
            signal.pause()
    except BaseException:
        state = "passed over"
"""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_again_and_again_ends_what_passes_it_over(number: signal.Signals) -> None:
    with started([sys.executable, "-c", PASSES_OVER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listens\n"
        process.send_signal(number)
        assert process.stdout.readline() == "passed over\n"
        while process.poll() is None:
            process.send_signal(number)
        assert process.stdout.read() == ""
    assert process.returncode == 128 + number


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_sweep_takes_its_workers_with_it(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run is done, the other never ends. The signal comes twice, as from a terminal and from a shell."""
    add_endless_scheduler(tmp_path / "site", monkeypatch)
    (tmp_path / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    with started(
        [*GFS, "sweep", "sweep.toml", "--out", "out", "--workers", "2"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("1 of 2: ")
        group = alive(process.pid)
        assert len(group) == 3, "the command and two workers, nothing else"
        os.killpg(process.pid, number)
        os.killpg(process.pid, number)
        said = process.stderr.read()
        wait_until_ended(group)
    cached = [path.name for path in (tmp_path / "out/cache").iterdir()]
    assert len(cached) == 1
    assert cached[0].endswith(".json")
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 128 + number
    kept = "interrupted; 1 result is kept in out/cache; the same command again goes on from there\n"
    assert said == (kept if number == signal.SIGINT else "")
