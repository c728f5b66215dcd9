"""Where FGD puts a pod on idle cards: on the node where F grows least, ties by node id.

The growth depends on little: for whole cards only on how many cards of the node are idle; for a fraction on the
free part it goes to (the smallest that fits, as the pool chooses), or on the idle cards if it has to open one.
So nodes are kept by idle cards, and for fractions also by their free parts; each kind is looked at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from gfs.core.lazy_heap import LazyHeap
from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.state import PoolState
from gfs.domain.task import Task
from gfs.domain.units import MICRO
from gfs.policies.fgd.fragmentation import RequestMix, free_parts
from gfs.policies.fgd.groups import Groups

Free = tuple[int, tuple[int, ...]]
"""Idle cards, and the different free parts that the divided cards have, ascending."""


class FgdPlacer(Listener):
    """Nodes by what is free on them, updated change by change."""

    fills_up = False  # where F grows least for the first pod, it may grow more for the second

    def __init__(self, state: PoolState, mix: RequestMix) -> None:
        pool = state.pool
        self._nodes = pool.nodes
        self._mix = mix
        self._free: Groups[Free] = Groups(len(pool.nodes))
        """All nodes with something free: what a fraction asks for."""
        self._changed: set[Node] = set(pool.nodes)
        """Nodes that changed since a fraction last asked."""
        self._by_idle: list[LazyHeap[int]] = [LazyHeap() for _ in pool.idle_levels]
        """Idle cards -> positions of the nodes that have so many."""
        self._home: list[LazyHeap[int] | None] = [None] * len(pool.nodes)
        """Position of a node -> where it stands."""
        for node in pool.nodes:
            self.node_changed(node)
        state.listen(self)

    def node_changed(self, node: Node) -> None:
        """What is held on a node has changed."""
        self._changed.add(node)
        home, i = self._home, node.index
        old, new = home[i], self._by_idle[node.idle]
        if old is not new:
            home[i] = new
            if old is not None:
                old.count -= 1
            new.push(i, home)

    def choose(self, task: Task) -> Node | None:
        """The node where one more pod of the task makes F grow least, or None."""
        cards, by_idle, of_idle, home = task.cards, self._by_idle, self._mix.of_idle, self._home
        if not cards:
            return self._choose_for_share(task.share)
        best, least, ties = 0, 0, False
        for idle in range(cards, len(by_idle)):
            if by_idle[idle].count:
                growth = of_idle[idle - cards] - of_idle[idle]
                if not best or growth < least:
                    best, least, ties = idle, growth, False
                elif growth == least:
                    ties = True
        if not ties:
            return self._nodes[by_idle[best].first(home)] if best else None
        equals = [i for i in range(best, len(by_idle)) if by_idle[i].count and of_idle[i - cards] - of_idle[i] == least]
        return self._nodes[min(by_idle[i].first(home) for i in equals)]

    def ranked(self, task: Task) -> Iterator[Node]:
        """The nodes with cards for one more pod of the task, best first."""
        cards, share, of_idle, of_part = task.cards, task.share, self._mix.of_idle, self._mix.of_part
        found: list[tuple[int, int]] = []
        for node in self._nodes:
            fitting = [part for part in free_parts(node) if share and part >= share]
            if fitting:
                growth = of_part(min(fitting) - share) - of_part(min(fitting))
            elif node.idle >= max(cards, 1):
                growth = of_idle[node.idle - max(cards, 1)] - of_idle[node.idle]
                growth += of_part(MICRO - share) if share else 0
            else:
                continue
            found.append((growth, node.index))
        return (self._nodes[i] for _, i in sorted(found))

    def _choose_for_share(self, share: int) -> Node | None:
        self._refresh()
        of_idle, of_part = self._mix.of_idle, self._mix.of_part
        rest = of_part(MICRO - share)  # of a card that the fraction opens
        best: tuple[int, int] | None = None
        for free in self._free.groups:
            idle, parts = free
            fitting = bisect_left(parts, share)
            if fitting < len(parts):
                part = parts[fitting]
                growth = of_part(part - share) - of_part(part)
            elif idle:
                growth = of_idle[idle - 1] + rest - of_idle[idle]
            else:
                continue
            if best is None or growth <= best[0]:
                candidate = (growth, self._free.first(free))
                best = candidate if best is None else min(best, candidate)
        return None if best is None else self._nodes[best[1]]

    def _refresh(self) -> None:
        """Bring the groups that fractions look at up to date."""
        for node in self._changed:
            parts = tuple(sorted({part for part in free_parts(node) if part})) if node.shares else ()
            self._free.file(node.index, (node.idle, parts) if node.idle or parts else None)
        self._changed.clear()
