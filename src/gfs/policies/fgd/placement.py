"""Where FGD puts a pod: on the node where F grows least, ties by node id.

For whole GPUs the growth depends only on how many GPUs of a node are idle, so nodes are kept by that. For a part of a
GPU it also depends on the divided GPUs of the node, so nodes that have any are looked at one by one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import merge
from math import inf

from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.ports import Placer
from gfs.core.state import PoolState
from gfs.domain.task import Role
from gfs.policies.fgd.fragmentation import ArrivalMix, free_on


class FgdPlacer(Listener, Placer):
    """Nodes by what is free on them, updated change by change."""

    fills_up = False  # where F grows least for the first pod, it may grow more for the second

    def __init__(self, state: PoolState, mix: ArrivalMix) -> None:
        super().__init__(state.pool)
        self._nodes = state.pool.nodes
        self._mix = mix
        self._idle = [0] * len(self._nodes)
        """Position of a node -> its idle GPUs."""
        self._with_idle: dict[int, list[int]] = {0: list(range(len(self._nodes)))}
        """Idle GPUs -> positions of the nodes that have so many, ascending."""
        self._divided: set[int] = set()
        """Positions of the nodes with divided GPUs."""
        for node in self._nodes:
            self.node_changed(node)
        state.listen(self)

    def node_changed(self, node: Node) -> None:
        """What is held on a node has changed."""
        i, before = node.index, self._idle[node.index]
        if before != node.idle:
            left = self._with_idle[before]
            del left[bisect_left(left, i)]
            insort(self._with_idle.setdefault(node.idle, []), i)
            self._idle[i] = node.idle
        if node.shares:
            self._divided.add(i)
        else:
            self._divided.discard(i)

    def choose(self, role: Role) -> Node | None:
        """The node where one more pod of the role makes F grow least, or None."""
        return next(self.ranked(role), None)

    def ranked(self, role: Role) -> Iterator[Node]:
        """The nodes with GPUs for one more pod of the role, least growth first."""
        by_growth: dict[int, list[Iterable[int]]] = {}
        divided = self._divided if role.share else ()
        for idle, positions in self._with_idle.items():
            growth = self._mix.growth(idle, (), role)
            if growth is not None:
                whole = (i for i in positions if i not in divided) if divided else positions
                by_growth.setdefault(growth, []).append(whole)
        for i in divided:
            growth = self._mix.growth(*free_on(self._nodes[i]), role)
            if growth is not None:
                by_growth.setdefault(growth, []).append((i,))
        for growth in sorted(by_growth):
            for i in merge(*by_growth[growth]):
                yield self._nodes[i]

    def best_of(self, role: Role, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod."""
        return min(nodes, key=lambda node: (self._growth(node, role), node.index), default=None)

    def _growth(self, node: Node, role: Role) -> float:
        growth = self._mix.growth(*free_on(node), role)
        return inf if growth is None else growth
