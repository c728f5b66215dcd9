"""The index of nodes against looking at every node, after any history of updates."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from gfs.core.index import ABSENT, NODE_BITS, NodeIndex, Rank
from hypothesis import given, settings
from hypothesis import strategies as st

RANKS: dict[str, Rank] = {
    "share of idle cards (gfs)": Fraction,
    "idle cards (best fit)": lambda idle, total: idle,
    "none (first fit)": lambda idle, total: 0,
}


class Obvious:
    """The same questions, answered by a scan."""

    def __init__(self, sizes: list[int], rank: Rank) -> None:
        self.sizes, self.rank = sizes, rank
        self.state: dict[int, tuple[int, int, tuple[int, int]]] = {}
        """node -> idle cards, room on a divided card, key in each view"""

    def best(self, need: int, view: int) -> int:
        return self._first(view, lambda idle, room: idle >= max(need, 1))

    def best_for_share(self, share: int, view: int) -> int:
        return self._first(view, lambda idle, room: idle >= 1 or room >= share)

    def _first(self, view: int, fits: Any) -> int:
        found = [
            (self.rank(idle, self.sizes[node]), keys[view], node)
            for node, (idle, room, keys) in self.state.items()
            if fits(idle, room) and keys[view] != ABSENT
        ]
        return min(found)[2] if found else ABSENT


@pytest.mark.parametrize("rank", RANKS.values(), ids=RANKS.keys())
@settings(max_examples=120)
@given(data=st.data())
def test_the_index_answers_like_a_scan(rank: Rank, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=7))
    distinct = sorted(set(sizes))
    index, obvious = NodeIndex(len(sizes), distinct, rank), Obvious(sizes, rank)

    def update(node: int) -> None:
        idle = data.draw(st.integers(0, sizes[node]))
        room = data.draw(st.sampled_from([0, 0, 100_000, 300_000, 900_000]))
        own = (data.draw(st.integers(0, 3)) << NODE_BITS) | node
        other = (data.draw(st.integers(0, 3)) << NODE_BITS) | node if data.draw(st.integers(0, 3)) else ABSENT
        shape = index.offsets[distinct.index(sizes[node])] + idle
        index.put(node, shape, idle, room, own, other)
        obvious.state[node] = (idle, room, (own, other))

    for node in range(len(sizes)):
        update(node)
    for _ in range(data.draw(st.integers(1, 25))):
        update(data.draw(st.integers(0, len(sizes) - 1)))
        view = data.draw(st.integers(0, 1))
        need = data.draw(st.integers(1, max(sizes)))
        share = data.draw(st.sampled_from([100_000, 250_000, 300_000, 900_001]))
        assert index.best(need, view) == obvious.best(need, view)
        assert index.best_for_share(share, view) == obvious.best_for_share(share, view)


def test_outdated_keys_are_thrown_away_so_the_index_stays_small() -> None:
    # One node of 8 that is filled and emptied 10,000 times: without cleaning up, 20,000 keys would pile up.
    index = NodeIndex(1, [8], Fraction)
    for _ in range(10_000):
        for idle, key in ((8, 1 << NODE_BITS), (4, 2 << NODE_BITS), (8, 3 << NODE_BITS)):
            index.put(0, index.offsets[0] + idle, idle, 0, key, key)
    held = sum(len(heap) for heaps in index._heaps for heap in heaps)
    # The index cleans a shape when it holds more than 128 keys + 8 per live node, in both views together.
    assert held <= 9 * (128 + 8 + 2)
    assert index.best(8) == 0
