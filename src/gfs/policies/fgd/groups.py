"""Nodes in groups of equals, the first node of each group at hand, updated change by change.

The sibling of `gfs.core.index` for schedulers whose ranking of groups changes from decision to decision, so that
no order of groups is kept: a decision looks at every group once and at no other node than the first ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from gfs.core.lazy_heap import LazyHeap

K = TypeVar("K")


class NodeGroups(Generic[K]):
    """Which nodes have which key. A node has one key or none."""

    def __init__(self, nodes: int) -> None:
        self.groups: dict[K, LazyHeap[int]] = {}
        """Key -> positions of the nodes that have it. Only groups that have nodes."""
        self._keys: list[K | None] = [None] * nodes
        """Position of a node -> its key."""
        self._home: list[LazyHeap[int] | None] = [None] * nodes

    def file(self, node: int, key: K | None) -> None:
        """Give the node at this position another key."""
        old = self._keys[node]
        if old == key:
            return
        self._keys[node] = key
        if old is not None:
            group = self.groups[old]
            group.count -= 1
            if not group.count:
                del self.groups[old]
        home = None
        if key is not None:
            home = self.groups.get(key)
            if home is None:
                home = self.groups[key] = LazyHeap()
        self._home[node] = home
        if home is not None:
            home.push(node, self._home)

    def first(self, key: K) -> int:
        """The lowest position of a node with this key; there must be one."""
        return self.groups[key].first(self._home)

    def rising(self, key: K) -> Iterator[int]:
        """The positions of all nodes with this key, lowest first."""
        return self.groups[key].rising(self._home)

    def key_of(self, node: int) -> K | None:
        """The key of the node at this position."""
        return self._keys[node]
