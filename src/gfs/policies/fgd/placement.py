"""Where FGD puts a pod on idle cards: on the node where F grows least, ties by node id.

The growth depends on little: for whole cards only on how many cards of the node are idle; for a fraction on the
free part it goes to (the smallest that fits, as the pool chooses), or on the idle cards if it has to open one.
So nodes are kept by idle cards, and for fractions also by their free parts; each kind is looked at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import merge
from math import inf

from gfs.core.lazy_heap import NodeGroups
from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.state import PoolState
from gfs.domain.task import Task
from gfs.domain.units import MICRO
from gfs.policies.fgd.fragmentation import ArrivalMix, free_parts

Free = tuple[int, tuple[int, ...]]
"""Idle cards, and the different free parts that the divided cards have, ascending."""

NOTHING_FREE: Free = (0, ())


class FgdPlacer(Listener):
    """Nodes by what is free on them, updated change by change."""

    fills_up = False  # where F grows least for the first pod, it may grow more for the second

    def __init__(self, state: PoolState, mix: ArrivalMix) -> None:
        pool = state.pool
        self._nodes = pool.nodes
        self._mix = mix
        self._free: NodeGroups[Free] = NodeGroups(len(pool.nodes))
        """All nodes with something free: what a fraction asks for."""
        self._changed: set[Node] = set(pool.nodes)
        """Nodes that changed since a fraction last asked."""
        self._by_idle: NodeGroups[int] = NodeGroups(len(pool.nodes))
        """All nodes by their idle cards: what whole cards ask for."""
        for node in pool.nodes:
            self.node_changed(node)
        state.listen(self)

    def node_changed(self, node: Node) -> None:
        """What is held on a node has changed."""
        self._changed.add(node)
        self._by_idle.file(node.index, node.idle)

    def choose(self, task: Task) -> Node | None:
        """The node where one more pod of the task makes F grow least, or None."""
        cards, of_idle, by_idle = task.cards, self._mix.of_idle, self._by_idle
        if not cards:
            return self._choose_for_share(task.share)
        growth = {idle: of_idle[idle - cards] - of_idle[idle] for idle in by_idle.groups if idle >= cards}
        if not growth:
            return None
        least = min(growth.values())
        return self._nodes[min(by_idle.first(idle) for idle, grows in growth.items() if grows == least)]

    def ranked(self, task: Task) -> Iterator[Node]:
        """The nodes with cards for one more pod of the task, best first."""
        by_growth: dict[int, list[Iterator[int]]] = {}
        if task.cards:
            for idle in self._by_idle.groups:
                if idle >= task.cards:
                    growth = self._growth_on_idle(idle, task.cards)
                    by_growth.setdefault(growth, []).append(self._by_idle.rising(idle))
        else:
            self._refresh()
            for free in self._free.groups:
                grows = self._growth_of_share(free, task.share)
                if grows is not None:
                    by_growth.setdefault(grows, []).append(self._free.rising(free))
        for growth in sorted(by_growth):
            for position in merge(*by_growth[growth]):
                yield self._nodes[position]

    def best_of(self, task: Task, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod."""
        return min(nodes, key=lambda node: (self._growth(node, task), node.index), default=None)

    def _growth(self, node: Node, task: Task) -> float:
        if task.cards:
            return self._growth_on_idle(node.idle, task.cards)
        growth = self._growth_of_share(_free_on(node), task.share)
        return inf if growth is None else growth

    def _growth_on_idle(self, idle: int, cards: int) -> int:
        """How F of a node with so many idle cards grows by a pod of whole cards."""
        of_idle = self._mix.of_idle
        return of_idle[idle - cards] - of_idle[idle]

    def _growth_of_share(self, free: Free, share: int) -> int | None:
        """How F of a node with so much free grows by a fraction; None if it has no room for it."""
        of_idle, of_part = self._mix.of_idle, self._mix.of_part
        idle, parts = free
        fitting = bisect_left(parts, share)
        if fitting < len(parts):
            part = parts[fitting]
            return of_part(part - share) - of_part(part)
        return of_idle[idle - 1] + of_part(MICRO - share) - of_idle[idle] if idle else None

    def _choose_for_share(self, share: int) -> Node | None:
        self._refresh()
        best: tuple[int, int] | None = None
        for free in self._free.groups:
            growth = self._growth_of_share(free, share)
            if growth is not None and (best is None or growth <= best[0]):
                candidate = (growth, self._free.first(free))
                best = candidate if best is None else min(best, candidate)
        return None if best is None else self._nodes[best[1]]

    def _refresh(self) -> None:
        """Bring the groups that fractions look at up to date."""
        for node in self._changed:
            free = _free_on(node)
            self._free.file(node.index, free if free != NOTHING_FREE else None)
        self._changed.clear()


def _free_on(node: Node) -> Free:
    return node.idle, tuple(sorted({part for part in free_parts(node) if part})) if node.shares else ()
