"""What a controller finds when it starts again: half a snapshot, one of another version, a full disk, another hour."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cells import Cell, cells_of
from world import Begin, wait_for

HOUR = 3600


def half(cell: Cell) -> None:
    file = cell.home / "state" / "state.gfs"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def another_version(cell: Cell) -> None:
    file = cell.home / "state" / "state.gfs"
    header, _, rest = file.read_bytes().partition(b"\n")
    file.write_bytes(json.dumps({**json.loads(header), "version": 1}).encode() + b"\n" + rest)


def rubbish(cell: Cell) -> None:
    (cell.home / "state" / "state.gfs").write_bytes(os.urandom(1000))


def step(hours: int) -> Callable[[Cell], None]:
    return lambda cell: _clock(cell).write_text(str(hours * HOUR))


DAMAGE: dict[str, Callable[[Cell], None]] = {
    "snapshot truncated": half,
    "snapshot of another version": another_version,
    "snapshot of rubbish": rubbish,
    "clock an hour ahead at a restart": step(1),
    "clock an hour back at a restart": step(-1),
}
STEPS = {"clock an hour ahead": step(1), "clock an hour back": step(-1)}


def _clock(cell: Cell) -> Path:
    return cell.home / "clock"


def _run(cell: Cell) -> None:
    cell.home.mkdir(exist_ok=True)
    if not _clock(cell).exists():
        _clock(cell).write_text("0")
    cell.run(GFS_TEST_CLOCK=str(_clock(cell)))


def test_damaged_state_and_stepped_clocks(begin: Begin) -> None:
    with begin() as world:
        cells = cells_of(world, [(case,) for case in (*DAMAGE, *STEPS)])
        for cell in cells:
            _run(cell)
            cell.gang("spot", "gfs-spot")
        for cell in cells:
            cell.wait_running("spot")
            wait_for((cell.home / "state" / "state.gfs").exists, 60, "no snapshot")
            if cell.case in DAMAGE:
                world.replicas.stop(cell.name)
                DAMAGE[cell.case](cell)
                _run(cell)
            else:
                STEPS[cell.case](cell)
            world.injections.note(cell.case, cell.name)
        for cell in cells:
            cell.gang("hp", "gfs-hp", run_for=2.0)
        for cell in cells:
            cell.wait_done("hp")
            cell.wait_running("spot")
            cell.withdraw("spot")
        world.drain(60)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of 64 KiB."""
    folder.mkdir(parents=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("a small disk cannot be mounted: run the tests as root, with the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    """A file that leaves no room."""
    filler = folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


def test_a_full_disk(begin: Begin) -> None:
    """Nothing can be saved or recorded: pods are placed all the same, and the log is whole when there is room again."""
    with begin() as world:
        (cell,) = cells_of(world, [("disk full",)])
        with small_disk(cell.home):
            cell.run()
            cell.gang("spot", "gfs-spot")
            cell.wait_running("spot")
            wait_for((cell.home / "state" / "state.gfs").exists, 60, "no snapshot")
            filler = fill(cell.home)
            world.injections.note("disk full", str(cell.home))
            cell.gang("hp", "gfs-hp", run_for=2.0)
            cell.wait_done("hp")
            cell.wait_running("spot")
            world.check()
            filler.unlink()
            cell.withdraw("spot")
            world.drain(60)
            world.end()
            shutil.copytree(cell.home / "log", world.folder / "kept" / "log")
        world.homes[cell.name] = world.folder / "kept"
        assert "finish" in (world.folder / "kept" / "log" / "events.csv").read_text()
