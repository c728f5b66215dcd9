"""Commands that are killed at any moment, run out of disk or share a folder: no file is ever half there, nothing piles
up, and the same command run again ends with the very bytes of a run that nobody disturbed.

Seeds are the numbers of the cases: `pytest tests/e2e/test_durability.py -k "killed-3"` kills at the same steps again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import gfs
from gfs.files import OURS, check_ours
from gfs.workloads import write_trace
from waiting import LONGEST

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

GFS = (sys.executable, "-c", "import sys; sys.argv[0] = 'gfs'; from gfs.cli.start import main; main()")
"""By the name that stands in reports, too."""
TRACE = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")
SWEEP = '[trace]\njobs = "jobs.csv"\nnodes = "nodes.csv"\n[vary]\nscheduler = ["static", "lyra"]\nseed = [{seeds}]\n'
STILL = "import time\ntime.process_time = time.perf_counter = lambda: 0.0\n"
"""As sitecustomize.py: what is measured does not differ between runs, in workers either."""

COMMANDS = {
    "simulate": ("simulate", *TRACE, "--events", "e.csv", "--quota-log", "q.parquet", "--json", "s.json"),
    "sweep": ("sweep", "sweep.toml", "--out", "out", "--workers", "1"),
    "plan": ("plan", *TRACE, "--quick", "--out", "out", "--workers", "1"),
    "reproduce": ("reproduce", *TRACE, "--only", "statistics,guarantees", "--quick", "--out", "out", "--workers", "1"),
}
RESULTS = {
    "simulate": ("e.csv", "q.parquet", "s.json"),
    "sweep": ("out/results.parquet",),
    "plan": ("out/plan.html", "out/gfs.toml", "out/settings.parquet"),
    "reproduce": ("out/report.html", "out/results.md"),
}


Run = Callable[..., tuple[int, int, str]]
"""Runs a command in a folder: exit status, steps taken, what it said."""


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs commands up to a step; see killable.py."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("killable.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        reads, writes = process.stdout, process.stdin

        def order(
            folder: Path, name: str, steps: int | None = None, limit: int | None = None, warm_up: bool = False
        ) -> tuple[int, int, str]:
            asked = {"folder": str(folder), "words": COMMANDS[name], "steps": steps, "limit": limit, "warm_up": warm_up}
            writes.write(json.dumps(asked) + "\n")
            writes.flush()
            status, taken, said = json.loads(reads.readline())
            return status, taken, said

        yield order
        writes.close()


def prepare(folder: Path, seeds: str = "0, 1") -> Path:
    """A folder with a trace and what varies in a sweep of it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_trace(gfs.generate("paper", nodes=2, days=1), folder)
    (folder / "sweep.toml").write_text(SWEEP.format(seeds=seeds))
    return folder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Callable[[str], tuple[dict[str, bytes], int]]:
    """What a command writes if nobody disturbs it, and in how many steps."""

    @cache
    def of(name: str) -> tuple[dict[str, bytes], int]:
        assert run(prepare(tmp_path_factory.mktemp(name)), name, warm_up=True)[0] == 0
        folder = prepare(tmp_path_factory.mktemp(name))
        status, steps, said = run(folder, name)
        assert status == 0, said
        return files_of(folder), steps

    return of


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything that is there, but for what is being written."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(".part")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".part")]


def check_whole(folder: Path, expected: dict[str, bytes]) -> None:
    """Every file that is there is as it should be, to the last byte; the list of ours may be shorter."""
    for name, content in files_of(folder).items():
        if Path(name).name != OURS:
            assert content == expected.get(name), f"{name} is half there, or was not asked for"


def check_done(folder: Path, expected: dict[str, bytes]) -> None:
    found = files_of(folder)
    lists = [name for name in expected if Path(name).name == OURS]
    assert {k: v for k, v in found.items() if k not in lists} == {k: v for k, v in expected.items() if k not in lists}
    assert leftovers(folder) == []
    for name in lists:  # nothing would have to be forced
        beside = [Path(each).name for each in expected if Path(each).parent == Path(name).parent and each != name]
        check_ours((folder / name).parent, beside)


def kill_at(run: Run, folder: Path, name: str, expected: dict[str, bytes], steps: Iterable[int]) -> int:
    """Kill a command again and again, at these steps, and let it run at last; how often it was killed."""
    killed = 0
    for step in steps:
        status, _, said = run(folder, name, step)
        assert status in (-signal.SIGKILL, 0), said
        killed += status != 0
        check_whole(folder, expected)
        assert len(leftovers(folder)) <= 3, "of a result, of the list, of a result in the cache"
    status, _, said = run(folder, name)
    assert status == 0, said
    check_done(folder, expected)
    return killed


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_before_steps_of_writing(name: str, tmp_path: Path, run: Run, undisturbed: Any) -> None:
    """Each attempt goes on where the last one was killed, so it gets further with as many steps."""
    expected, steps = undisturbed(name)
    prepare(tmp_path)
    chance = random.Random(name)
    if name == "simulate":
        assert kill_at(run, tmp_path, name, expected, range(steps)) == steps
        return
    assert kill_at(run, tmp_path, name, expected, [chance.randrange(15) for _ in range(5)]) == 5
    _, last, _ = run(tmp_path, name)  # by now all is computed: the results alone are written again
    assert kill_at(run, tmp_path, name, expected, range(last - 6, last)) == 6


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12), ids=lambda seed: f"killed-{seed}")
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_many_steps(name: str, seed: int, tmp_path: Path, run: Run, undisturbed: Any) -> None:
    expected, steps = undisturbed(name)
    chance = random.Random(seed)
    assert kill_at(run, prepare(tmp_path), name, expected, [chance.randrange(steps) for _ in range(10)]) >= 1


def start(folder: Path, name: str, *more: str, **options: Any) -> subprocess.Popen[str]:
    """A command as a process of its own, all of it as users have it but for the clocks."""
    (folder / "sitecustomize.py").write_text(STILL)
    (folder / "tmp").mkdir(exist_ok=True)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [*GFS, *COMMANDS[name], *more],
        cwd=folder,
        stdout=options.pop("stdout", subprocess.DEVNULL),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder / "tmp"), "COLUMNS": "80"},
        start_new_session=True,
        **options,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = process.communicate(timeout=LONGEST)
    return process.returncode, said


def own(folder: Path) -> dict[str, bytes]:
    """The files of a folder without what `start` put there."""
    ours = ("sitecustomize.py", "tmp/", "__pycache__/")
    return {name: content for name, content in files_of(folder).items() if not name.startswith(ours)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3), ids=lambda seed: f"killed-{seed}")
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_moment_with_its_workers(name: str, seed: int, tmp_path: Path, undisturbed: Any) -> None:
    """The moments are drawn from the time that the command needs; the workers of a killed command end by themselves."""
    expected, _ = undisturbed(name)
    prepare(tmp_path)
    prepare(tmp_path / "first")
    began = time.monotonic()
    more = () if name == "simulate" else ("--workers", "2")
    assert finish(start(tmp_path / "first", name, *more))[0] == 0
    length, chance = time.monotonic() - began, random.Random(seed)
    for _ in range(4):
        process = start(tmp_path, name, *more)
        try:
            process.wait(chance.uniform(0.0, length))
        except subprocess.TimeoutExpired:
            process.kill()
        finish(process)  # its pipe is closed when the last worker has gone
    code, said = finish(start(tmp_path, name, *more))
    assert code == 0, said
    found = {k: v for k, v in own(tmp_path).items() if not k.startswith("first/") and Path(k).name != OURS}
    assert found == {k: v for k, v in expected.items() if Path(k).name != OURS} or name == "reproduce"
    if name == "reproduce":  # its page names the command, which has other workers
        assert found.keys() == {k for k in expected if Path(k).name != OURS}
        cached = [k for k in found if "cache" in k]
        assert {k: found[k] for k in cached} == {k: expected[k] for k in cached}
    assert leftovers(tmp_path) == []
    assert [*(tmp_path / "tmp").iterdir()] == [], "killed workers leave nothing"


# -- disks that are full ---------------------------------------------------------------------------


NO_SMALL_DISK = "a small disk cannot be mounted: run the tests as root, with the right to mount"


@contextmanager
def tiny_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system of that size; skipped where we may not mount one."""
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(NO_SMALL_DISK)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason=NO_SMALL_DISK)
@pytest.mark.parametrize("name", ["simulate", "sweep"])
def test_a_full_disk(name: str, tmp_path: Path, run: Run, undisturbed: Any) -> None:
    """Two pages are left: the file that does not fit is named, nothing of it stays, with room again all ends well."""
    expected, _ = undisturbed(name)
    with tiny_disk(tmp_path / "disk", "1m") as disk:
        prepare(disk)
        filler = disk / "filler"
        filler.write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - 8192))
        code, _, said = run(disk, name)
        check_refused(code, said, "No space left on device", expected)
        assert leftovers(disk) == []
        filler.unlink()
        check_whole(disk, expected)
        code, _, said = run(disk, name)
        assert code == 0, said
        check_done(disk, expected)


@pytest.mark.parametrize("name", ["simulate", "sweep", "plan"])
def test_a_file_that_may_not_grow(name: str, tmp_path: Path, run: Run, undisturbed: Any) -> None:
    """As `ulimit -f` has it: the kernel refuses what goes beyond half of the largest result."""
    expected, _ = undisturbed(name)
    prepare(tmp_path)
    code, _, said = run(tmp_path, name, limit=max(len(expected[each]) for each in RESULTS[name]) // 2)
    check_refused(code, said, "File too large", expected)
    assert leftovers(tmp_path) == []
    check_whole(tmp_path, expected)
    code, _, said = run(tmp_path, name)
    assert code == 0, said
    check_done(tmp_path, expected)


def check_refused(code: int, said: str, why: str, expected: dict[str, bytes]) -> None:
    """One sentence, with the file that could not be written."""
    assert code == 2, said
    last = said.splitlines()[-1]
    assert last in [f"error: {each}: cannot be written: {why}; nothing was left behind" for each in expected], said
    assert "Traceback" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_screen_that_cannot_be_written(tmp_path: Path) -> None:
    """As with `gfs ... > result.txt` on a full disk."""
    prepare(tmp_path)
    with Path("/dev/full").open("w") as full:
        code, said = finish(start(tmp_path, "simulate", stdout=full))
    assert code == 2, said
    assert said.splitlines()[-1] == "error: standard output: No space left on device"
    assert "Traceback" not in said
    assert "Exception ignored" not in said


# -- two at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sweep", pytest.param("reproduce", marks=pytest.mark.slow)])
def test_two_processes_in_one_folder(name: str, tmp_path: Path, undisturbed: Any) -> None:
    expected, _ = undisturbed(name)
    prepare(tmp_path)
    both = [start(tmp_path, name) for _ in range(2)]
    for process in both:
        code, said = finish(process)
        assert code == 0, said
    found = {k: v for k, v in own(tmp_path).items() if Path(k).name != OURS}
    assert found == {k: v for k, v in expected.items() if Path(k).name != OURS}
    assert leftovers(tmp_path) == []
    assert finish(start(tmp_path, name))[0] == 0, "both know what they wrote"
