"""What a run keeps when it is evicted, as numbers (docs/concepts/time-model.md)."""

from __future__ import annotations

import pytest

from builders import spot
from gfs.domain.execution import ExecutionRules, since_checkpoint

RULES = ExecutionRules()


@pytest.mark.parametrize(
    ("run", "length", "saved"),
    [
        (1, 0, 0),
        (1, 99.9, 0),
        (1, 100, 100),
        (1, 250, 200),
        (2, 40, 0),  # overhead only
        (2, 139.9, 0),  # 99.9 s of progress
        (2, 140, 100),
        (2, 30, 0),  # not even the overhead is over
    ],
)
def test_saved_is_whole_intervals_after_the_overhead(run: int, length: float, saved: float) -> None:
    assert RULES.saved(spot("s", lasting=900, checkpoint=100).task(), run, length) == saved


def test_on_grace_all_progress_is_saved_but_never_the_overhead() -> None:
    rules = ExecutionRules(checkpoint_on_grace=True)
    task = spot("s", lasting=900, checkpoint=100).task()
    assert rules.saved(task, 1, 250) == 250
    assert rules.saved(task, 2, 250) == 210
    assert rules.saved(task, 2, 30) == 0


@pytest.mark.parametrize(
    ("gpus", "pods", "overhead"), [(8, 1, 40), (1, 8, 40), (1, 9, 60), (0.9, 9, 60), (0.5, 16, 40)]
)
def test_overhead_goes_by_the_gpus_of_the_whole_task(gpus: float, pods: int, overhead: float) -> None:
    task = spot("s", gpus=gpus, pods=pods).task()
    assert RULES.overhead(task, 1) == 0
    assert RULES.overhead(task, 2) == RULES.overhead(task, 7) == overhead


@pytest.mark.parametrize(
    ("now", "lost"),
    [(1000, 0), (1040, 0), (1041, 1), (1139, 99), (1140, 0), (1290, 50), (900, 0)],
)
def test_since_checkpoint_counts_from_where_progress_began(now: float, lost: float) -> None:
    # Run 2 starts at 1000, its progress at 1040, a checkpoint every 100 s of it.
    assert since_checkpoint(1040, 100, now) == lost


def test_a_checkpoint_that_rounding_puts_a_hair_late_still_counts() -> None:
    # 3 x 0.1 = 0.30000000000000004, 0.3 / 0.1 = 2.9999999999999996: three intervals all the same.
    assert RULES.saved(spot("s", checkpoint=0.1).task(), 1, 0.3) == pytest.approx(0.3)
