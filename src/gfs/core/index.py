"""Nodes in order of preference, updated change by change: the best node for a pod without looking at the others.

A node's *shape* is (idle cards, cards in all). Each shape has heaps of integer keys, smallest is best, whose
low bits are the node's position. A change pushes a new key; an outdated one is dropped when it surfaces. So a
choice costs a few heap tops, one per shape, in a pool of 30 nodes and of 30,000.

There are two views, for classes that prefer different nodes: the same shapes, another key in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

NODE_BITS = 24
NODE_MASK = (1 << NODE_BITS) - 1
ABSENT = -1

Rank = Callable[[int, int], Any]
"""(idle cards, cards in all) -> sort value: shapes of lower rank come first, of equal rank compare by key."""


class NodeIndex:
    """The best node with at least so many idle cards, or with room for a fraction on a divided card."""

    def __init__(self, nodes: int, sizes: Sequence[int], rank: Rank) -> None:
        offsets: list[int] = []
        shapes: list[tuple[int, int]] = []
        for size in sizes:
            offsets.append(len(shapes))
            shapes.extend((idle, size) for idle in range(size + 1))
        self.offsets = offsets
        """Shape number of a node = offsets[its size rank] + its idle cards."""
        self._shape = [ABSENT] * nodes
        self._live = [0] * (len(shapes) + 1)
        """Nodes of each shape; the last entry, reached as [ABSENT], counts those not yet put."""
        self._live[ABSENT] = nodes
        self._room = [0] * nodes
        self._keys = ([ABSENT] * nodes, [ABSENT] * nodes)
        self._heaps: tuple[list[list[int]], list[list[int]]] = ([[] for _ in shapes], [[] for _ in shapes])
        self._room_heaps: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
        self._order = [_grouped(shapes, rank, need) for need in range(max(sizes) + 1)]
        # Where no two shapes tie in rank, as in a pool of equal nodes, the order is a plain line.
        self._line: list[list[int]] = [[] for _ in self._order]
        if all(len(group) == 1 for groups in self._order for group in groups):
            self._line = [[shape for (shape,) in groups] for groups in self._order]
            self._order = [[] for _ in self._order]
        self._full_first = all(rank(0, size) < rank(1, other) for size in sizes for other in sizes)

    def put(self, node: int, shape: int, idle: int, room: int, key: int, other_key: int = ABSENT) -> None:
        """Say where a node stands now. Keys carry the node's position in their low bits; ABSENT hides it."""
        shapes, live = self._shape, self._live
        keys, other_keys = self._keys
        old = shapes[node]
        if old != shape:
            live[old] -= 1
            live[shape] += 1
            shapes[node] = shape
        elif keys[node] == key and other_keys[node] == other_key and self._room[node] == room:
            return
        keys[node] = key
        other_keys[node] = other_key
        if idle:
            heaps, other_heaps = self._heaps
            heap, other_heap = heaps[shape], other_heaps[shape]
            heappush(heap, key)
            if other_key >= 0:
                heappush(other_heap, other_key)
            if len(heap) + len(other_heap) > 128 + 8 * live[shape]:
                self._compact(shape)
        if room or self._room[node]:
            self._put_room(node, 0 if idle else room)

    def best(self, need: int, view: int = 0) -> int:
        """The best node with at least `need` idle cards, or ABSENT."""
        live, heaps, keys, shapes = self._live, self._heaps[view], self._keys[view], self._shape
        for shape in self._line[need]:
            if live[shape]:
                heap = heaps[shape]
                while heap:
                    key = heap[0]
                    node = key & NODE_MASK
                    if keys[node] == key and shapes[node] == shape:
                        return node
                    heappop(heap)
        for group in self._order[need]:
            found = ABSENT
            for shape in group:
                if live[shape]:
                    heap = heaps[shape]
                    while heap:
                        key = heap[0]
                        node = key & NODE_MASK
                        if keys[node] == key and shapes[node] == shape:
                            if found < 0 or key < found:
                                found = key
                            break
                        heappop(heap)
            if found >= 0:
                return found & NODE_MASK
        return ABSENT

    def best_for_share(self, share: int, view: int = 0) -> int:
        """The best node with an idle card, or with a divided card that has room for `share` micro-cards."""
        divided = self._best_room(share, view)
        if divided >= 0 and self._full_first:
            return divided & NODE_MASK
        whole = self.best(1, view)
        if divided >= 0 and (whole < 0 or divided < self._keys[view][whole]):
            return divided & NODE_MASK
        return whole

    # -- divided cards, which only matter on nodes without an idle card ------------------------------

    def _put_room(self, node: int, room: int) -> None:
        self._room[node] = room
        if room:
            for keys, heaps in zip(self._keys, self._room_heaps, strict=True):
                if keys[node] >= 0:
                    heappush(heaps.setdefault(room, []), keys[node])

    def _best_room(self, share: int, view: int) -> int:
        found, keys, rooms, heaps = ABSENT, self._keys[view], self._room, self._room_heaps[view]
        for room in [room for room in heaps if room >= share]:
            heap = heaps[room]
            while heap:
                key = heap[0]
                node = key & NODE_MASK
                if keys[node] == key and rooms[node] == room:
                    if found < 0 or key < found:
                        found = key
                    break
                heappop(heap)
            else:
                del heaps[room]
        return found

    def _compact(self, shape: int) -> None:
        """Drop outdated keys and keys pushed twice."""
        shapes = self._shape
        for keys, heaps in zip(self._keys, self._heaps, strict=True):
            current = {
                key for key in heaps[shape] if keys[key & NODE_MASK] == key and shapes[key & NODE_MASK] == shape
            }
            heaps[shape][:] = sorted(current)  # a sorted list is a heap


def _grouped(shapes: list[tuple[int, int]], rank: Rank, need: int) -> list[tuple[int, ...]]:
    """Shapes with at least `need` idle cards, those of equal rank together, best rank first."""
    by_rank: dict[Any, list[int]] = {}
    for number, (idle, size) in enumerate(shapes):
        if idle >= max(need, 1):
            by_rank.setdefault(rank(idle, size), []).append(number)
    return [tuple(by_rank[value]) for value in sorted(by_rank)]
