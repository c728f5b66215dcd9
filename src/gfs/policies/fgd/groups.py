"""Nodes in groups of equals, the first node of each group at hand, updated change by change.

The sibling of `gfs.core.index` for schedulers whose ranking of groups changes from decision to decision, so that
no order of groups is kept: a decision looks at every group once and at no other node than the first ones.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K")


class Group:
    """Nodes that a scheduler cannot tell apart."""

    __slots__ = ("count", "heap")

    def __init__(self) -> None:
        self.count = 0
        self.heap: list[int] = []
        """Positions of its nodes, and of some that have left."""


class Groups(Generic[K]):
    """Which nodes have which key. A node has one key or none."""

    def __init__(self, nodes: int) -> None:
        self.groups: dict[K, Group] = {}
        """Only groups that have nodes."""
        self.keys: list[K | None] = [None] * nodes
        """Position of a node -> its key."""

    def file(self, node: int, key: K | None) -> None:
        """Give the node at this position another key."""
        keys, groups = self.keys, self.groups
        old = keys[node]
        if old == key:
            return
        keys[node] = key
        if old is not None:
            group = groups[old]
            group.count -= 1
            if not group.count:
                del groups[old]
        if key is not None:
            known = groups.get(key)
            if known is None:
                known = groups[key] = Group()
            known.count += 1
            heap = known.heap
            heappush(heap, node)
            if len(heap) > 4 * known.count + 64:
                # Drop nodes that have left and nodes entered twice.
                heap[:] = sorted({i for i in heap if keys[i] == key})

    def first(self, key: K) -> int:
        """The lowest position of a node with this key; there must be one."""
        keys, heap = self.keys, self.groups[key].heap
        node = heap[0]
        while keys[node] != key:
            heappop(heap)
            node = heap[0]
        return node
