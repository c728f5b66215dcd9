"""The `gfs` command as a process of its own: what only shows outside of Python."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gfs
from e2e.processes import GFS, OnTerminal, add_endless_scheduler, run, started
from gfs.workloads import write_trace
from waiting import LONGEST

GFS_SCRIPT = Path(sys.executable).parent / "gfs"
TRACE = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    write_trace(gfs.generate("paper", nodes=8, days=2), ".")
    return folder


def files(folder: Path) -> list[str]:
    """What is there besides the trace."""
    return sorted(path.name for path in folder.iterdir() if path.name not in ("jobs.csv", "nodes.csv"))


def test_help_needs_no_heavy_module() -> None:
    code = (
        "import sys, gfs.cli.main\n"
        "heavy = {'numpy', 'scipy', 'pyarrow', 'plotly', 'multiprocessing'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = run(code=code)
    assert done.returncode == 0, done.stderr


def test_the_same_files_and_no_others_whatever_the_terminal_and_the_hash_seed(folder: Path) -> None:
    logs = []
    for seed, encoding in enumerate(("ascii", "latin-1", "utf-8")):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONIOENCODING": encoding}
        result = run("simulate", *TRACE, "--events", "e.csv", "--json", "s.json", env=environment)
        assert result.returncode == 0, result.stderr
        assert "tasks counted" in result.stdout
        assert "\x1b" not in result.stdout + result.stderr
        assert json.loads(Path("s.json").read_text())["runs"][0]["scheduler"] == "gfs"
        assert files(folder) == ["e.csv", "s.json"]
        logs.append(Path("e.csv").read_bytes())
    assert logs[0] == logs[1] == logs[2]


def test_an_error_is_one_sentence_and_exit_code_2() -> None:
    result = run("simulate", *TRACE, "--scheduler", "gfz")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "error: unknown scheduler 'gfz': did you mean gfs?\n"


# -- streams that nobody reads ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "errors", "files"),
    [
        (("simulate", *TRACE, "--events", "e.csv", "--json", "-"), subprocess.PIPE, ["e.csv"]),
        (("simulate", *TRACE, "--events", "e.csv", "--json", "s.json"), subprocess.STDOUT, ["e.csv", "s.json"]),
        (("compare", *TRACE, "--schedulers", "static,lyra", "--html", "r.html"), subprocess.PIPE, ["r.html"]),
        (("parameters",), subprocess.PIPE, []),
    ],
    ids=["simulate", "simulate, remarks too", "compare", "parameters"],
)
def test_a_reader_that_goes_away_costs_no_file_and_no_word(
    words: tuple[str, ...], errors: int, files: list[str]
) -> None:
    """As with `gfs ... | head` and `gfs ... 2>&1 | head`: nobody reads the output any more."""
    with subprocess.Popen([*GFS, *words], stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        said = process.stderr.read() if process.stderr else ""
        process.wait(LONGEST)
    assert process.returncode == 0
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "Broken pipe" not in said
    assert all(Path(file).stat().st_size for file in files)


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_nowhere(closed: str, folder: Path) -> None:
    """Also for workers; and no file gets the number of a stream, so no text of ours ends up in it."""
    words = ("compare", *TRACE, "--schedulers", "static,lyra", "--workers", "2", "--html", "r.html", "--json", "s.json")
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *GFS, *words]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert ("tasks" in done.stdout) == (closed == "2>&-")
    assert files(folder) == ["r.html", "s.json"]
    assert len(json.loads(Path("s.json").read_text())["runs"]) == 2
    assert Path("r.html").read_text().rstrip().endswith("</html>")


def test_closed_output_and_json_for_it() -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *GFS, "simulate", *TRACE, "--json", "-", "--events", "e.csv"]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert Path("e.csv").stat().st_size


def test_a_progress_bar_only_where_someone_watches() -> None:
    """On the screen from nothing to all; what comes in between goes by the clock: see TestProgress of the bars."""
    tasks = len(gfs.read_trace("jobs.csv", "nodes.csv").tasks)
    terminal = OnTerminal(
        "compare", *TRACE, "--schedulers", "gfs,static", "--workers", "2", "--json", "-", stdout=subprocess.PIPE
    )
    assert terminal.process.stdout is not None
    seen = terminal.rest()
    with terminal.process.stdout as output:
        assert len(json.load(output)["runs"]) == 2
    assert terminal.process.wait(LONGEST) == 0
    for name in ("gfs", "static"):
        counts = [int(count) for count in re.findall(rf"{name}\W+(\d+)/\d+ tasks", seen)]
        assert counts[0] == 0
        assert counts == sorted(counts)
        assert counts[-1] == tasks


# -- what ends a command ---------------------------------------------------------------------------

WITH_WORKERS = ("compare", "--schedulers", "endless,static", "--workers", "2")
MOMENTS = {
    "simulate": (("simulate", "--scheduler", "endless"), r"[1-9]\d*/\d+ tasks"),
    "workers starting": (WITH_WORKERS, r"0/\d+ tasks"),
    "workers running": (WITH_WORKERS, r"endless\W+[1-9]\d*/\d+ tasks"),
}


@pytest.fixture(params=MOMENTS)
def watched(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OnTerminal]:
    """A command that would never end, at a certain moment."""
    add_endless_scheduler(tmp_path / "site", monkeypatch, calls=60)  # of the 133 that `static` makes
    words, shown = MOMENTS[request.param]
    terminal = OnTerminal(*words, *TRACE, "--json", "s.json")
    try:
        terminal.wait_for(shown)
        yield terminal
    finally:
        terminal.kill()


@needs_proc
def test_ctrl_c_leaves_no_file_and_no_process(watched: OnTerminal, folder: Path) -> None:
    watched.press_ctrl_c()
    seen = watched.rest()
    assert watched.end() == 130, seen
    assert seen.endswith("\ninterrupted; nothing was written\n"), seen
    assert "Traceback" not in seen
    assert files(folder) == []


@needs_proc
def test_a_terminal_that_closes_leaves_no_file_and_no_process(watched: OnTerminal, folder: Path) -> None:
    watched.close()
    assert watched.end() == 129
    assert files(folder) == []


@pytest.mark.skipif(not GFS_SCRIPT.exists(), reason="the command gfs is not installed: make test")
def test_what_the_demo_recommends_works_where_the_environment_is_not_active() -> None:
    plain = {"PATH": os.defpath, "COLUMNS": "80"}
    demo = subprocess.run([GFS_SCRIPT, "demo"], capture_output=True, text=True, check=True, timeout=LONGEST, env=plain)
    steps = demo.stdout.partition("Try next")[2].splitlines()
    commands = [line for line in steps if line.startswith("    ") and "JOBS.csv" not in line]
    assert len(commands) == 4
    for command in commands:
        done = subprocess.run(
            command, shell=True, capture_output=True, text=True, check=False, timeout=LONGEST, env=plain
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"


RUN = "import sys; sys.argv = ['gfs', *sys.argv[1:]]; from gfs.cli.start import main; main()"
"""The command, after code that changes what it does."""
IN_THE_RUN = "import os, signal\nfrom gfs.simulator.engine import Engine\ndef run(_):\n{}\nEngine.run = run\n"


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_what_was_begun_is_undone(name: str, code: int, folder: Path) -> None:
    """Where Python drops the exception of a signal, as in a finalizer, the command ends all the same."""
    in_a_finalizer = f"""
    class Last:
        def __del__(self):
            os.kill(os.getpid(), signal.{name})
    Last()
    while True: signal.pause()
"""
    stopped = run("demo", "--out", "d", code=IN_THE_RUN.format(in_a_finalizer) + RUN)
    assert stopped.returncode == code, stopped.stderr
    assert stopped.stderr == ("interrupted; nothing was written\n" if name == "SIGINT" else "")
    assert files(folder) == []


def test_ctrl_c_while_the_program_is_loaded_says_nothing() -> None:
    code = """
import os, signal, sys
class Press:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
"""
    stopped = run("--version", code=code + RUN)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    ("owner", "name", "code", "said"),
    [
        ("typer.main", "get_command", -signal.SIGINT, ""),
        ("gfs.cli.command.CommandGroup", "main", 130, "interrupted; nothing was written\n"),
    ],
)
def test_ctrl_c_before_the_words_are_read(owner: str, name: str, code: int, said: str) -> None:
    press = f"""
import os, signal
import gfs.cli.command, typer.main
do = {owner}.{name}
def pressed(*words, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return do(*words, **options)
{owner}.{name} = pressed
"""
    stopped = run("schedulers", code=press + RUN)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (code, "", said)


def test_a_signal_while_a_plug_in_is_imported_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_endless_scheduler(tmp_path / "site", monkeypatch)
    module = tmp_path / "site" / "gfs_endless.py"
    module.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n" + module.read_text())
    stopped = run("simulate", *TRACE, "--scheduler", "endless")
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (143, "", "")


def test_ctrl_c_between_two_files_of_a_trace_names_the_first() -> None:
    code = """
import os, signal
do = os.replace
def pressed(path, target, **options):
    do(path, target, **options)
    if str(target).endswith("jobs.csv"):
        os.kill(os.getpid(), signal.SIGINT)
os.replace = pressed
"""
    stopped = run("trace", "generate", "--preset", "demo", "--out", "t", code=code + RUN)
    assert (stopped.returncode, stopped.stderr) == (130, "interrupted; complete before that: t/jobs.csv\n")
    assert Path("t/jobs.csv").exists()
    assert not Path("t/nodes.csv").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full: run the tests on Linux")
@pytest.mark.parametrize("words", [("--help",), ("--version",), ("simulate", "--help"), ("schedulers",)])
def test_a_full_disk_for_standard_output_is_one_sentence(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*GFS, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("call", "said", "left"),
    [
        ("open", "interrupted; nothing was written\n", []),
        ("replace", "interrupted; complete before that: s.json\n", ["s.json"]),
    ],
)
def test_ctrl_c_while_a_file_is_written(call: str, said: str, left: list[str], folder: Path) -> None:
    """Right after it was created, under the name that it has while it is written, and right after it got its own."""
    code = f"""
import os, signal
do = os.{call}
def pressed(path, *more, **options):
    result = do(path, *more, **options)
    if str(path).endswith(".part"):
        os.kill(os.getpid(), signal.SIGINT)
    return result
os.{call} = pressed
"""
    stopped = run("simulate", *TRACE, "--json", "s.json", code=code + RUN)
    assert (stopped.returncode, stopped.stderr) == (130, said)
    assert files(folder) == left


def test_ctrl_c_while_results_are_printed_names_what_is_written() -> None:
    """Somebody has stopped reading, such as `less`: the command waits for room, and Ctrl-C ends it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writing, True)
    words = [*GFS, "simulate", *TRACE, "--json", "s.json"]
    with started(words, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        assert process.stderr is not None
        assert process.stderr.readline() == "wrote s.json\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "interrupted; complete before that: s.json\n"
        assert process.wait(LONGEST) == 130
    os.close(reading)
