"""Runs that say when they last saved their progress: who is evicted follows."""

from __future__ import annotations

import pytest
from test_state import Live

from builders import hp, spot
from gfs.core.events import CheckpointsSaved, Submitted


def evicted(plan) -> list[str]:
    return [eviction.run.task.name for eviction in plan.evictions]


@pytest.mark.parametrize("scheduler", ["gfs", "gfs-plus"])
def test_whoever_saved_last_goes_and_the_other_is_spared(scheduler: str) -> None:
    live = Live(8, 8, scheduler=scheduler, quota="none")
    live.submit(0, spot("first", gpus=8))
    live.submit(600, spot("second", gpus=8))
    live.tell(1000, CheckpointsSaved([(live.run("first"), 990.0)]))
    plan = live.submit(1200, hp("urgent", gpus=8))
    assert evicted(plan) == ["first"], "it loses 210 s x 8, second 600 s x 8"


def test_without_a_word_the_one_that_began_last_goes() -> None:
    live = Live(8, 8, quota="none")
    live.submit(0, spot("first", gpus=8))
    live.submit(600, spot("second", gpus=8))
    assert evicted(live.submit(1200, hp("urgent", gpus=8))) == ["second"]


def test_a_checkpoint_in_the_future_or_of_an_unknown_run_says_nothing() -> None:
    live = Live(8, quota="none")
    live.submit(0, spot("one", gpus=8))
    run = live.run("one")
    live.tell(100, CheckpointsSaved([(run, 5000.0), (run, -5.0)]))
    assert run.progress_from == 0.0
    live.tell(200, Submitted(live.task(hp("urgent", gpus=8))))
    live.tell(210, CheckpointsSaved([(run, 205.0)]))
    assert run.progress_from == 0.0, "it was evicted before"
