"""Card by card: what a pool says of itself after pods came and went."""

from __future__ import annotations

from math import inf

import pytest

from builders import Stage, hp, spot
from gfs import NodeSpec
from gfs.core.invariants import check_pool
from gfs.core.state import PoolState


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


def test_what_spot_pods_hold_of_cpus_memory_and_pods_is_free_without_them() -> None:
    # 96 CPUs, 512 GiB, 20 pods. HP: 2 pods of 8 CPUs and 64 GiB. Spot: 3 pods of 10 CPUs and 20 GiB.
    spec = NodeSpec(0, "n0", "A100", 8, cpus=96.0, memory=512.0, pods=20)
    state = PoolState("A100", [spec], resources=True)
    pool, (node,) = state.pool, state.pool.nodes
    assert node.free_resources == node.free_without_spot == (96.0, 512.0, 20)
    pool.occupy(node, hp("h", pods=2, cpus=8, memory=64).task(0), pods=2)
    task = spot("s", pods=3, cpus=10, memory=20).task(1)
    place = pool.occupy(node, task, pods=3)
    assert node.free_resources == (50.0, 324.0, 15)
    assert node.free_without_spot == (80.0, 384.0, 18)
    pool.release([place], task)
    assert node.free_resources == node.free_without_spot == (80.0, 384.0, 18)


def test_what_a_node_does_not_state_is_not_limited() -> None:
    state = PoolState("A100", [NodeSpec(0, "n0", "A100", 8)], resources=True)
    assert state.pool.nodes[0].free_resources == (inf, inf, inf)


@pytest.mark.parametrize(
    ("held", "asks", "said", "without_spot"),
    [
        ({"cpus": 82}, {"cpus": 24}, "14 of 96 CPUs free, pod asks 24", "96 of 96 CPUs free, pod asks 24"),
        (
            {"memory": 500},
            {"memory": 160},
            "12 of 512 GiB memory free, pod asks 160",
            "512 of 512 GiB memory free, pod asks 160",
        ),
        ({"pods": 5}, {}, "5 pods run there and it takes no more", "it takes 5 more pods of 5 at most"),
        ({"pods": 4}, {}, "it takes 1 more pods of 5 at most", "it takes 5 more pods of 5 at most"),
    ],
)
def test_what_a_node_is_short_of(held: dict[str, int], asks: dict[str, int], said: str, without_spot: str) -> None:
    # A spot task holds so much of 96 CPUs, 512 GiB and 5 pods.
    state = PoolState("A100", [NodeSpec(0, "n0", "A100", 8, cpus=96.0, memory=512.0, pods=5)], resources=True)
    pool, (node,) = state.pool, state.pool.nodes
    pool.occupy(node, spot("s", **held).task(0), pods=held.get("pods", 1))
    task = hp("h", pods=8, **asks).task(1)
    assert pool.short_of(node, task) == said
    assert pool.short_of(node, task, without_spot=True) == without_spot
