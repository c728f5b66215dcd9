"""Progress of several runs at once: what workers tell, and the bars that show it."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest
from rich.progress import Progress

from gfs import Parameters, generate
from gfs.assembly.schedulers import find_scheduler
from gfs.batch import comparison, worker
from gfs.batch.comparison import run_all
from gfs.cli.progress import bars, job_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    def test_a_worker_tells_how_far_it_is_again_and_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        work, told = generate("demo", nodes=6, days=1, seed=1), list[tuple[str, int]]()
        given = {"workload": work, "parameters": Parameters(), "window": (None, None), "options": {}}
        monkeypatch.setattr(comparison, "_shared", given)
        monkeypatch.setattr(worker, "tell_parent", told.append)
        comparison.ComparisonRun(comparison.pack_scheduler(find_scheduler("gfs"))).run()
        counts = [count for _, count in told]
        assert {name for name, _ in told} == {"gfs"}
        assert len(set(counts)) > 2, counts
        assert counts == sorted(counts)
        assert counts[-1] <= len(work.tasks)

    def test_what_workers_tell_is_passed_on_and_ends_with_all_tasks(self) -> None:
        work = generate("demo", nodes=6, days=1, seed=1)
        told: dict[str, list[int]] = {"gfs": [], "static": []}
        run_all(work, list(told), Parameters(), workers=2, progress=lambda name, count: told[name].append(count))
        for counts in told.values():
            assert len(set(counts)) > 2, counts
            assert counts == sorted(counts)
            assert counts[-1] == len(work.tasks)

    @pytest.mark.parametrize("in_turn", [True, False])
    def test_every_bar_moves(self, in_turn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "80")
        update = Progress.update
        monkeypatch.setattr(Progress, "update", lambda *bar, **to: update(*bar, refresh=True, **to))
        with bars(["gfs", "static"], 90, in_turn=in_turn) as running:
            for name, finished in [("gfs", 10), ("static", 20), ("static", 30), ("gfs", 90), ("static", 90)]:
                running(name, finished)
        seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
        shown = {name: re.findall(rf"{name}\W+(\d+)/90 tasks", seen) for name in ("gfs", "static")}
        # by turns the first run is over when the second has begun
        assert list(dict.fromkeys(shown["gfs"])) == ["0", "10", "90"]
        assert list(dict.fromkeys(shown["static"])) == ["0", "20", "30", "90"]

    def test_control_characters_in_names_are_written_out(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        evil = "\x1b[31mred\x07"

        class Odd:
            label, weight = evil, 1.0

        odd: Any = Odd()
        with job_progress() as started:
            started([odd])(odd)
        assert capsys.readouterr().err == "1 of 1: \\x1b[31mred\\x07\n"
        monkeypatch.setattr(sys, "stderr", screen := Terminal())
        monkeypatch.setenv("TERM", "xterm")
        with bars([evil], 90) as running:
            running(evil, 10)
        with job_progress() as started:
            started([odd])(odd)
        assert "\x1b[31mred" not in screen.getvalue()
        assert "\x07" not in screen.getvalue()

    def test_nothing_where_nobody_watches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
        with bars(["gfs"], 90) as running:
            running("gfs", 10)
        assert screen.getvalue() == ""
