"""`--check` finds every kind of broken book: each case breaks one and expects to be caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders import Stage, hp, spot
from gfs import InvariantError
from gfs.core.invariants import check_state


def scene() -> Stage:
    stage = Stage(4, 4)
    stage.holds("n0", hp("h", gpus=2))
    stage.gang = stage.spread(["n0", "n1"], spot("gang", gpus=1, pods=2))
    stage.holds("n1", spot("part", gpus=0.5))
    stage.holds("n1", hp("other", gpus=0.25))
    return stage


def test_a_sound_pool_passes() -> None:
    check_state(scene().state)


def overcommit(stage: Stage) -> None:
    stage.node("n1").shares[0][0] = 900_000


def lose_an_idle_card(stage: Stage) -> None:
    stage.node("n0").idle = 0


def miscount_levels(stage: Stage) -> None:
    stage.pool.idle_levels[0] += 1


def miscount_hp_levels(stage: Stage) -> None:
    stage.pool.hp_free_levels[4] += 1


def miscount_spot(stage: Stage) -> None:
    stage.node("n1").spot_cards -= 1


def miscount_hp_free(stage: Stage) -> None:
    stage.node("n0").hp_free += 1


def forget_quota(stage: Stage) -> None:
    stage.pool.spot_in_use[1.0] -= 1


def count_a_card_too_many(stage: Stage) -> None:
    stage.pool.capacity += 1


def let_a_task_run_and_wait(stage: Stage) -> None:
    stage.state.queue(stage.gang.task, 0.0)


def forget_a_run(stage: Stage) -> None:
    del stage.state.runs[stage.gang.task.index]


def leave_a_dead_run(stage: Stage) -> None:
    stage.gang.alive = False


def halve_a_gang(stage: Stage) -> None:
    stage.gang.places.pop()


def overdraw_cpus(stage: Stage) -> None:
    stage.node("n0").free["cpus"] = -1.0


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (overcommit, "node n1: GPU 0 holds 900000 [+] 500000"),
        (lose_an_idle_card, "node n0: HP-free GPUs 2"),
        (miscount_levels, "pool A100: idle levels are off"),
        (miscount_hp_levels, "pool A100: HP-free levels are off"),
        (miscount_spot, "node n1: spot GPUs 1"),
        (miscount_hp_free, "node n0: HP-free GPUs 3"),
        (forget_quota, "pool A100: spot in use .* runs say"),
        (count_a_card_too_many, r"pool A100: counts .* 9\), runs say .* 8\)"),
        (let_a_task_run_and_wait, "pool A100: a task runs and waits"),
        (forget_a_run, "pool A100: nodes do not hold what runs say"),
        (leave_a_dead_run, "spot run .* is over but still on a node"),
        (halve_a_gang, "spot run .* has 1 pods"),
        (overdraw_cpus, "node n0: more taken than there is"),
    ],
)
def test_a_broken_book_is_found(break_it: Callable[[Stage], None], said: str) -> None:
    stage = scene()
    break_it(stage)
    with pytest.raises(InvariantError, match=f"{said}.*a bug in GFS"):
        check_state(stage.state)
