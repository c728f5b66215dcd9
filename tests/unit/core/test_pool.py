"""Card by card: what a pool says of itself after pods came and went."""

from __future__ import annotations

import pytest

from builders import Stage, hp, spot
from gfs import NodeSpec
from gfs.core.invariants import check_pool
from gfs.core.node import WHOLE
from gfs.core.state import PoolState


def test_whole_gpus_are_taken_and_come_back() -> None:
    stage = Stage(8)
    node = stage.node("n0")
    first = stage.holds("n0", hp("a", gpus=3))
    second = stage.holds("n0", hp("b", gpus=2))
    assert [run.places for run in (first, second)] == [[(node, first.task, 1, WHOLE)], [(node, second.task, 1, WHOLE)]]
    assert node.idle == 3
    stage.pool.release(first.places)
    assert node.idle == 6
    stage.holds("n0", hp("c", gpus=4))
    assert node.idle == 2
    check_pool(stage.pool)


def test_a_place_holds_several_pods() -> None:
    stage = Stage(8)
    node, task = stage.node("n0"), spot("s", gpus=2, pods=3).task()
    place = stage.pool.occupy(node, task, 3)
    assert place == (node, task, 3, WHOLE)
    assert (node.idle, node.spot_cards, node.hp_free) == (2, 6, 8)
    stage.pool.release([place])
    assert (node.idle, node.spot_cards, node.hp_free) == (8, 0, 8)


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
    stage.pool.release(run.places)
    assert (node.idle, node.hp_cards, node.spot_cards, node.room) == (1, 1, 0, 750_000)
    check_pool(stage.pool)


def test_a_divided_card_is_idle_again_only_when_its_last_pod_goes() -> None:
    stage = Stage(1)
    a, b = (stage.holds("n0", hp(name, gpus=0.5)) for name in "ab")
    assert stage.pool.idle == 0
    stage.pool.release(a.places)
    assert stage.pool.idle == 0
    stage.pool.release(b.places)
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
    assert stage.pool.gpu_slots(task) == 2
    assert stage.pool.gpu_slots(task, without_spot=True) == 3


def test_what_spot_pods_hold_of_cpus_memory_and_pods_is_free_without_them() -> None:
    # 96 CPUs, 512 GiB, 20 pods. HP: 2 pods of 8 CPUs and 64 GiB. Spot: 3 pods of 10 CPUs and 20 GiB.
    spec = NodeSpec(0, "n0", "A100", 8, cpus=96.0, memory=512.0, pods=20)
    state = PoolState("A100", [spec])
    pool, (node,) = state.pool, state.pool.nodes
    assert node.free == node.free_without_spot == {"cpus": 96.0, "memory": 512.0, "pods": 20.0}
    pool.occupy(node, hp("h", pods=2, cpus=8, memory=64).task(0), pods=2)
    task = spot("s", pods=3, cpus=10, memory=20).task(1)
    place = pool.occupy(node, task, pods=3)
    assert node.free == {"cpus": 50.0, "memory": 324.0, "pods": 15.0}
    assert node.free_without_spot == {"cpus": 80.0, "memory": 384.0, "pods": 18.0}
    pool.release([place])
    assert node.free == node.free_without_spot == {"cpus": 80.0, "memory": 384.0, "pods": 18.0}


def test_what_a_node_does_not_state_is_not_limited() -> None:
    pool = PoolState("A100", [NodeSpec(0, "n0", "A100", 8)]).pool
    (node,) = pool.nodes
    assert node.free == {}
    assert pool.slots(hp("h", cpus=1e6, memory=1e6).task()) == 8


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
    state = PoolState("A100", [NodeSpec(0, "n0", "A100", 8, cpus=96.0, memory=512.0, pods=5)])
    pool, (node,) = state.pool, state.pool.nodes
    pool.occupy(node, spot("s", **held).task(0), pods=held.get("pods", 1))
    task = hp("h", pods=8, **asks).task(1)
    assert pool.short_of(node, task) == said
    assert pool.short_of(node, task, without_spot=True) == without_spot
