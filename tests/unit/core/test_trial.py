"""Try, then commit or roll back (STYLE habit 4)."""

from __future__ import annotations

from builders import Stage, hp, spot
from gfs.core.node import WHOLE
from gfs.core.trial import Trial


def test_a_gang_victim_frees_its_cards_on_every_node() -> None:
    stage = Stage(4, 4)
    gang = stage.spread(["n0", "n1"], spot("gang", gpus=4, pods=2))
    trial = Trial(stage.pool)
    trial.evict(gang)
    assert [node.idle for node in stage.pool.nodes] == [4, 4]
    assert stage.pool.spot_held(1) == 0


def test_rollback_puts_the_victims_back_where_they_were() -> None:
    stage = Stage(4, 4)
    stage.holds("n0", hp("low", gpus=1))
    gang = stage.spread(["n0", "n1"], spot("gang", gpus=2, pods=2))
    places = list(gang.places)
    trial, task = Trial(stage.pool), hp("h", gpus=3, pods=2).task(9)
    trial.evict(gang)
    trial.place(stage.node("n0"), task)
    trial.place(stage.node("n1"), task)
    assert [node.idle for node in stage.pool.nodes] == [0, 1]
    trial.rollback()
    assert [node.idle for node in stage.pool.nodes] == [1, 2]
    assert gang.places == places
    assert [list(node.spot) for node in stage.pool.nodes] == [[gang], [gang]]


def test_commit_hands_over_the_pods_and_the_next_trial_starts_clean() -> None:
    stage = Stage(4)
    trial, task = Trial(stage.pool), hp("h", gpus=2, pods=2).task()
    assert trial.fill(task, lambda _: stage.node("n0"))
    pods = trial.commit()
    assert pods == [(stage.node("n0"), task, 1, WHOLE)] * 2
    trial.rollback()
    assert stage.pool.idle == 0, "what was committed stays"


def test_fill_stops_where_no_node_is_found_and_places_only_what_is_missing() -> None:
    stage = Stage(4)
    trial, task = Trial(stage.pool), hp("h", gpus=1, pods=3).task()
    answers = iter([stage.node("n0"), None, stage.node("n0"), stage.node("n0"), stage.node("n0")])
    assert not trial.fill(task, lambda _: next(answers))
    assert trial.fill(task, lambda _: next(answers))
    assert trial.pods == 3


def test_a_node_is_filled_up_before_the_next_one_is_asked_for() -> None:
    stage = Stage(5, 4)
    trial, task = Trial(stage.pool), hp("h", gpus=2, pods=3).task()
    answers = iter([stage.node("n0"), stage.node("n1")])
    assert trial.fill(task, lambda _: next(answers), up=True)
    assert [(node.name, pods) for node, _, pods, _ in trial.commit()] == [("n0", 2), ("n1", 1)]
