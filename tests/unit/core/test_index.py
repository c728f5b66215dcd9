"""The index of nodes: their order (all histories: tests/property/test_node_index.py), and that it stays small."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable

import pytest

from builders import Stage, hp
from gfs.core import index as node_index
from gfs.core.index import MANY, MOST_BUCKETS, Bucket, NodeIndex
from gfs.core.pool import Pool
from gfs.policies.placement import FitPlacer, best_fit, first_fit


def buckets() -> int:
    gc.collect()
    return sum(isinstance(each, Bucket) for each in gc.get_objects())


def ever_new_ranks(stage: Stage) -> NodeIndex:
    """An index in which a node has, each time it is filed, a rank that no node had before."""
    index, rank = NodeIndex(stage.pool), itertools.count()
    index.follow(
        plain=lambda size, idle, hp: index.bucket(idle, 0, (0,)),
        special=lambda node: index.bucket(node.idle, node.room, (next(rank),)),
        marked=[1] * len(stage.pool.nodes),
    )
    return index


@pytest.mark.parametrize(
    ("placer", "order"),
    [
        (best_fit, ["n2", "n0", "n3", "n1"]),  # 1, 4, 4 and 8 cards are idle
        (first_fit, ["n0", "n1", "n2", "n3"]),
    ],
)
def test_each_node_is_ranked_once_in_the_order_of_the_placer(
    placer: Callable[[Pool], FitPlacer], order: list[str]
) -> None:
    stage = Stage(8, 8, 8, 8)
    placed = placer(stage.pool)
    for _ in range(3):  # nodes come back to where they were
        runs = [stage.holds(name, hp(name, gpus=cards)) for name, cards in (("n0", 4), ("n2", 7), ("n3", 4))]
        assert [node.name for node in placed.ranked(hp("x").task())] == order
        for run in runs:
            stage.state.finish(run, 0.0)
        assert [node.name for node in placed.ranked(hp("x").task())] == ["n0", "n1", "n2", "n3"]


def test_a_long_life_leaves_no_more_buckets_than_the_bound() -> None:
    # Each change of a node gives it a rank that no node had before: 3 x 4,096 buckets in all, of which two have nodes.
    before = buckets()
    stage = Stage(8, 8)
    index = ever_new_ranks(stage)
    first, second = stage.pool.nodes
    for _ in range(3 * MOST_BUCKETS // 2):
        index.file(first)
        index.file(second)
    assert buckets() - before < 1.5 * MOST_BUCKETS
    assert index.best(8) is first  # it was ranked before the second


def test_beyond_the_bound_buckets_without_nodes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    # Buckets for 1 to 8 idle cards are always kept, and one has the node: 20 + 2 x 9 may be there at the next look.
    monkeypatch.setattr(node_index, "MOST_BUCKETS", 20)
    stage = Stage(8)
    index = ever_new_ranks(stage)
    most = 0
    for _ in range(200):
        index.file(stage.pool.nodes[0])
        most = max(most, len(index._buckets))
    assert most <= 20 + 2 * 9 + 1


def test_a_level_forgets_its_empty_buckets() -> None:
    # One node, each time with a rank that it never had: of the buckets of its level only the last has a node.
    stage = Stage(8)
    index = ever_new_ranks(stage)
    for _ in range(20 * MANY):
        index.file(stage.pool.nodes[0])
        listed = [len(view) for level in index._levels for view in level.views]
        assert sum(listed) <= 2 * MANY + 2
