"""A task that ran before the scheduler came to know it goes on counting its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import Draft, hp, nodes, spot
from gfs import SCHEDULERS, Parameters
from gfs.assembly.schedulers import build_scheduler
from gfs.assembly.snapshot import load_state, save_state
from gfs.core.events import Adopted, FoundRun, Lost, Submitted, Tick
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))


def scheduler_of(name: str = "gfs", *sizes: int) -> Scheduler:
    return build_scheduler(name, nodes(*(sizes or (8,))), Parameters(quota="none"), period=7200.0, check=True)


def run_of(scheduler: Scheduler, index: int = 0) -> Run:
    return scheduler.pools["A100"].state.runs[index]


@every_scheduler
@pytest.mark.parametrize(("gpus", "overhead"), [(4, 40), (8, 40), (16, 60)])
def test_the_next_run_is_numbered_on_and_pays_the_restart(scheduler: str, gpus: int, overhead: float) -> None:
    live = scheduler_of(scheduler, 16)
    live.handle(300.0, [Submitted(spot("s", gpus=gpus, earlier=2).task()), Tick()])
    run = run_of(live)
    assert (run.number, run.start, run.progress_from) == (3, 300, 300 + overhead)
    live.handle(360.0, [Lost(run)])
    live.handle(600.0, [Tick()])
    assert run_of(live).number == 4


@every_scheduler
def test_a_task_that_waits_first_is_numbered_alike(scheduler: str) -> None:
    live = scheduler_of(scheduler)
    live.handle(0.0, [Submitted(hp("h", gpus=8).task()), Submitted(hp("later", gpus=8, earlier=1).task(1))])
    live.handle(300.0, [Tick()])
    state = live.pools["A100"].state
    (waiting,) = state.waiting.values()
    assert waiting.number == 1 + waiting.task.earlier_runs


def test_a_start_that_waits_for_its_victims_has_its_number_and_so_has_a_failed_one() -> None:
    live = scheduler_of()
    live.handle(0.0, [Submitted(spot("s", gpus=8).task())])
    (run,) = live.handle(10.0, [Submitted(hp("h", gpus=8, earlier=3).task(1))]).starts
    assert (run.number, run.start, run.progress_from) == (4, 40, 80)
    state = live.pools["A100"].state
    state.fail_start(run, 20.0)
    assert state.waiting[1].number == 4


@pytest.mark.parametrize(("said", "earlier", "number"), [(1, 0, 1), (1, 2, 3), (5, 2, 5)])
def test_a_run_that_is_found_is_not_numbered_below_what_its_task_says(said: int, earlier: int, number: int) -> None:
    live = scheduler_of()
    task = spot("s", gpus=2, earlier=earlier).task()
    live.handle(100.0, [Adopted([FoundRun(task, [("n0", 1)], 50.0, said)])])
    assert run_of(live).number == number


@pytest.mark.parametrize("draft", [spot("s", earlier=2, hours=2), hp("h", gpus=0.5, earlier=1, cpus=3)])
def test_it_is_saved_with_its_task(draft: Draft, tmp_path: Path) -> None:
    live = scheduler_of()
    live.handle(0.0, [Submitted(draft.task())])
    save_state(live, tmp_path / "state", now=1.0)
    fresh = scheduler_of()
    load_state(fresh, tmp_path / "state")
    task, known = run_of(fresh).task, draft.task()
    assert (task.earlier_runs, task.micro, task.cards) == (known.earlier_runs, known.micro, known.cards)
