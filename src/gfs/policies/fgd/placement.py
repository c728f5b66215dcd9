"""Where FGD puts a pod on idle cards: on the node where F grows least, ties by node id.

The growth depends on little: for whole cards only on how many cards of the node are idle; for a fraction on the
free part it goes to (the smallest that fits, as the pool chooses), or on the idle cards if it has to open one.
So nodes are kept by idle cards, and for fractions also by their free parts; each kind is looked at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from heapq import heappop, heappush

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.domain.task import Task
from gfs.domain.units import MICRO
from gfs.policies.fgd.fragmentation import RequestMix, free_parts
from gfs.policies.fgd.groups import Groups

Free = tuple[int, tuple[int, ...]]
"""Idle cards, and the different free parts that the divided cards have, ascending."""


class FgdPlacer:
    """Nodes by what is free on them, updated change by change."""

    fills_up = False  # where F grows least for the first pod, it may grow more for the second
    next_change = float("inf")

    def __init__(self, pool: Pool, mix: RequestMix) -> None:
        self._nodes = pool.nodes
        self._mix = mix
        self._free: Groups[Free] = Groups(len(pool.nodes))
        """All nodes with something free: what a fraction asks for."""
        self._changed: set[Node] = set(pool.nodes)
        """Nodes that changed since a fraction last asked."""
        self._idle_of = [-1] * len(pool.nodes)
        """Position of a node -> its idle cards."""
        self._by_idle: list[list[int]] = [[] for _ in pool.idle_levels]
        """Idle cards -> heap of the positions of such nodes, and of some that have left."""
        pool.on_change = self._filer(pool.idle_levels)
        for node in pool.nodes:
            pool.on_change(node)
        self.choose = self._chooser(pool.idle_levels)
        """The node where one more pod of the task makes F grow least, or None."""

    def _filer(self, levels: list[int]) -> Callable[[Node], None]:
        """The function that notes a change of a node. It runs at every one, so all it needs is bound to it."""
        changed, idle_of, by_idle = self._changed, self._idle_of, self._by_idle

        def file(node: Node) -> None:
            changed.add(node)
            i, idle = node.index, node.idle
            if idle_of[i] != idle:
                idle_of[i] = idle
                heap = by_idle[idle]
                heappush(heap, i)
                if len(heap) > 4 * levels[idle] + 64:
                    # Drop nodes that have left and nodes entered twice.
                    heap[:] = sorted({other for other in heap if idle_of[other] == idle})

        return file

    def _chooser(self, levels: list[int]) -> Callable[[Task], Node | None]:
        """The function that chooses. It runs for every pod."""
        nodes, idle_of, by_idle, of_idle = self._nodes, self._idle_of, self._by_idle, self._mix.of_idle
        end = len(levels)

        def first_with(idle: int) -> int:
            heap = by_idle[idle]
            i = heap[0]
            while idle_of[i] != idle:
                heappop(heap)
                i = heap[0]
            return i

        def choose(task: Task) -> Node | None:
            cards = task.cards
            if not cards:
                return self._choose_for_share(task.share)
            best, least, ties = 0, 0, False
            for idle in range(cards, end):
                if levels[idle]:
                    growth = of_idle[idle - cards] - of_idle[idle]
                    if not best or growth < least:
                        best, least, ties = idle, growth, False
                    elif growth == least:
                        ties = True
            if not ties:
                return nodes[first_with(best)] if best else None
            equals = [i for i in range(best, end) if levels[i] and of_idle[i - cards] - of_idle[i] == least]
            return nodes[min(map(first_with, equals))]

        return choose

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

    def evicted(self, node: Node, now: float) -> None:
        """Eviction history does not matter here."""

    def advance(self, now: float) -> bool:
        """Time alone changes nothing."""
        return False

    def closed(self, task: Task) -> int:
        """Every node is open."""
        return 0
