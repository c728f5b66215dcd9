"""The `gfs` command as a process of its own: what only shows outside of Python."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gfs
from gfs.workloads import write_trace

GFS = (sys.executable, "-m", "gfs.cli.main")
GFS_SCRIPT = Path(sys.executable).parent / "gfs"
TRACE = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    write_trace(gfs.generate("paper", nodes=8, days=2), ".")
    return tmp_path


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*GFS, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
        errors="replace",
    )


def test_help_needs_no_heavy_module() -> None:
    code = (
        "import sys, gfs.cli.main\n"
        "heavy = {'numpy', 'scipy', 'pyarrow', 'plotly', 'multiprocessing'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_run_writes_only_what_was_asked_for() -> None:
    result = run("simulate", *TRACE, "--events", "e.csv", "--json", "s.json")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    assert json.loads(Path("s.json").read_text())["runs"][0]["scheduler"] == "gfs"
    assert sorted(path.name for path in Path().iterdir()) == ["e.csv", "jobs.csv", "nodes.csv", "s.json"]


def test_the_same_bytes_whatever_the_hash_seed() -> None:
    for seed in ("1", "2"):
        assert run("simulate", *TRACE, "--events", f"{seed}.csv", PYTHONHASHSEED=seed).returncode == 0
    assert Path("1.csv").read_bytes() == Path("2.csv").read_bytes()


def test_an_error_is_one_sentence_and_exit_code_2() -> None:
    result = run("simulate", *TRACE, "--scheduler", "gfz")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "error: unknown scheduler 'gfz': did you mean gfs?\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_terminal_encoding(encoding: str) -> None:
    result = run("simulate", *TRACE, PYTHONIOENCODING=encoding)
    assert result.returncode == 0, result.stderr
    assert "tasks counted" in result.stdout


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (("simulate", *TRACE, "--events", "e.csv", "--json", "s.json"), ["e.csv", "s.json"]),
        (("simulate", *TRACE, "--events", "e.csv", "--json", "-"), ["e.csv"]),
        (("compare", *TRACE, "--schedulers", "static,lyra", "--html", "r.html"), ["r.html"]),
        (("trace", "inspect", *TRACE, "--html", "t.html"), ["t.html"]),
        (("demo", "--out", "d"), ["d/report.html", "d/summary.json", "d/events.csv", "d/jobs.csv"]),
        (("parameters",), []),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_a_reader_that_goes_away_costs_no_file_and_no_word(words: tuple[str, ...], files: list[str]) -> None:
    """As with `gfs ... | head`: nobody reads the output any more."""
    with subprocess.Popen([*GFS, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "Broken pipe" not in said
    assert all(Path(file).stat().st_size for file in files)


def test_nobody_reads_remarks_either() -> None:
    """As with `gfs ... 2>&1 | head`."""
    words = ("simulate", *TRACE, "--events", "e.csv", "--json", "s.json")
    with subprocess.Popen([*GFS, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=60)
    assert process.returncode == 0
    assert all(Path(file).stat().st_size for file in ("e.csv", "s.json"))


@pytest.mark.skipif(not GFS_SCRIPT.exists(), reason="the command is not installed")
def test_what_the_demo_recommends_works_where_the_environment_is_not_active() -> None:
    plain = {"PATH": os.defpath, "COLUMNS": "80"}
    demo = subprocess.run([GFS_SCRIPT, "demo"], capture_output=True, text=True, check=True, timeout=300, env=plain)
    steps = demo.stdout.partition("Try next")[2].splitlines()
    commands = [line for line in steps if line.startswith("    ") and "JOBS.csv" not in line]
    assert len(commands) == 4
    for command in commands:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=300, env=plain)
        assert done.returncode == 0, f"{command}: {done.stderr}"


def test_ctrl_c_in_the_demo_leaves_no_empty_folder(folder: Path) -> None:
    code = (
        "import sys\n"
        "from gfs.cli import main\n"
        "from gfs.simulator.engine import Engine\n"
        "def press(_): raise KeyboardInterrupt\n"
        "Engine.run = press\n"
        "sys.argv = ['gfs', 'demo', '--out', 'd']\n"
        "main.main()\n"
    )
    stopped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert stopped.returncode == 130, stopped.stderr
    assert stopped.stderr == "interrupted; nothing was written\n"
    assert not (folder / "d").exists()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("simulate",), rb"[1-9]\d*/\d+ tasks"),
        (("compare", "--workers", "2"), rb"0/\d+ tasks"),
        (("compare", "--workers", "2"), rb"[1-9]\d*/\d+ tasks"),
    ],
    ids=["simulate", "workers starting", "workers running"],
)
def test_ctrl_c_leaves_no_file_and_no_process(words: tuple[str, ...], shown: bytes, folder: Path) -> None:
    """The terminal sends Ctrl-C to the whole group, so to the workers as well; pressed when a bar shows this."""
    write_trace(gfs.generate("paper", nodes=120, days=7), ".")
    leader, process = _start_watched(*words, *TRACE, "--check", "--json", "s.json")  # --check: takes a while
    with process:
        seen = b""
        while not re.search(shown, re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen)):
            seen += os.read(leader, 4096)
        os.killpg(process.pid, signal.SIGINT)
        seen += _rest(leader)
        process.wait(timeout=60)
    assert process.returncode == 130, seen
    assert seen.replace(b"\r", b"").endswith(b"interrupted; nothing was written\n"), seen
    assert b"Traceback" not in seen
    assert sorted(path.name for path in folder.iterdir()) == ["jobs.csv", "nodes.csv"]
    assert _all_end(process.pid)


def test_a_progress_bar_only_where_someone_watches() -> None:
    leader, process = _start_watched("simulate", *TRACE)
    with process:
        seen = _rest(leader)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"tasks" in seen
    assert b"tasks counted" in output


def test_every_run_of_a_comparison_has_a_bar_that_moves() -> None:
    """On the screen from nothing to all; what comes in between goes by the clock: see TestProgress of the bars."""
    tasks = len(gfs.read_trace("jobs.csv", "nodes.csv").tasks)
    words = ("--schedulers", "gfs,static", "--workers", "2")
    leader, process = _start_watched("compare", *TRACE, *words)
    with process:
        seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", _rest(leader).decode())
        process.communicate(timeout=60)
    assert process.returncode == 0
    for name in ("gfs", "static"):
        counts = [int(count) for count in re.findall(rf"{name}\W+(\d+)/\d+ tasks", seen)]
        assert counts[0] == 0
        assert counts == sorted(counts)
        assert counts[-1] == tasks


def _start_watched(*words: str) -> tuple[int, subprocess.Popen[bytes]]:
    """A process whose errors and bars go to a terminal, and our end of that terminal."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    process = subprocess.Popen([*GFS, *words], stdout=subprocess.PIPE, stderr=follower, start_new_session=True)
    os.close(follower)
    return leader, process


def _rest(leader: int) -> bytes:
    """Everything until the other side closes the terminal."""
    seen = b""
    try:
        while piece := os.read(leader, 4096):
            seen += piece
    except OSError:  # how Linux says that it is closed
        pass
    finally:
        os.close(leader)
    return seen


def _all_end(group: int) -> bool:
    """Whether no process of a group is left: the kernel tells when each ends, which may be a moment from now."""
    if not hasattr(os, "pidfd_open"):  # then it must do that none of them has the terminal open any more
        return True
    for number in _alive(group):
        try:
            process = os.pidfd_open(number)
        except ProcessLookupError:
            continue
        ended, _, _ = select.select([process], [], [], 60)
        os.close(process)
        if not ended:
            return False
    return not _alive(group)


def _alive(group: int) -> list[int]:
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
