"""Card by card: what a pool says of itself after pods came and went."""

from __future__ import annotations

from builders import Stage, hp, spot
from gfs.core.invariants import check_pool


def test_whole_cards_are_taken_lowest_first_and_come_back() -> None:
    stage = Stage(8)
    first = stage.holds("n0", hp("a", gpus=3))
    second = stage.holds("n0", hp("b", gpus=2))
    assert [run.places[0][1] for run in (first, second)] == [0b00111, 0b11000]
    stage.pool.release(first.places[:1], first.task)
    assert stage.node("n0").idle == 6
    # Cards 0 to 2 and 5 to 7 are idle: the lowest four are 0, 1, 2 and 5.
    assert stage.holds("n0", hp("c", gpus=4)).places[0][1] == 0b100111
    check_pool(stage.pool)


def test_a_gap_is_filled_from_below() -> None:
    stage = Stage(8)
    first = stage.holds("n0", hp("a", gpus=2))
    stage.holds("n0", hp("b", gpus=2))
    stage.pool.release(first.places[:1], first.task)
    # Cards 0, 1 and 4 to 7 are idle: three cards are 0, 1 and 4.
    assert stage.holds("n0", hp("c", gpus=3)).places[0][1] == 0b10011


def test_hp_and_spot_cards_are_counted_apart() -> None:
    stage = Stage(8)
    stage.holds("n0", hp("h", gpus=2))
    stage.holds("n0", spot("s", gpus=3))
    node = stage.node("n0")
    assert (node.idle, node.hp_cards, node.spot_cards, node.hp_free) == (3, 2, 3, 6)
    assert stage.pool.largest_gap() == 3
    assert (stage.pool.idle_slots(1), stage.pool.hp_slots(3)) == (3, 2)


def test_a_card_that_both_classes_share_counts_for_both() -> None:
    stage = Stage(2)
    stage.holds("n0", hp("h", gpus=0.25))
    run = stage.holds("n0", spot("s", gpus=0.5))
    node = stage.node("n0")
    assert (node.idle, node.hp_cards, node.spot_cards, node.hp_free) == (1, 1, 1, 1)
    assert (node.room, node.hp_room) == (250_000, 750_000)
    stage.pool.forget_spot(run)
    stage.pool.release(run.places[:1], run.task)
    assert (node.idle, node.hp_cards, node.spot_cards, node.room) == (1, 1, 0, 750_000)
    check_pool(stage.pool)


def test_a_divided_card_is_idle_again_only_when_its_last_pod_goes() -> None:
    stage = Stage(1)
    a, b = (stage.holds("n0", hp(name, gpus=0.5)) for name in "ab")
    assert stage.pool.idle == 0
    stage.pool.release(a.places[:1], a.task)
    assert stage.pool.idle == 0
    stage.pool.release(b.places[:1], b.task)
    assert stage.pool.idle == 1
    check_pool(stage.pool)


def test_candidates_for_hp_are_counted_over_mixed_sizes() -> None:
    stage = Stage(1, 4, 8)
    stage.holds("n2", hp("h", gpus=5))
    stage.holds("n1", spot("s", gpus=4))
    assert stage.pool.hp_candidates(1) == 3
    assert stage.pool.hp_candidates(3) == 2  # n1: 4 beside HP, n2: 3
    assert stage.pool.hp_candidates(4) == 1
    assert stage.pool.hp_slots(2) == 2 + 1


def test_slots_for_fractions_count_divided_cards() -> None:
    # Two nodes of one card: 0.6 of HP on n0, 0.3 of spot on n1. Pods of 0.4: n0 holds one (0.4 free), n1
    # one (0.7 free); without the spot task n1 would hold two.
    stage = Stage(1, 1)
    stage.holds("n0", hp("a", gpus=0.6))
    stage.holds("n1", spot("b", gpus=0.3))
    task = hp("c", gpus=0.4).task()
    assert stage.pool.card_slots(task) == 2
    assert stage.pool.card_slots(task, without_spot=True) == 3
