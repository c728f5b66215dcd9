"""For HP tasks that ask for more than cards: what comes of displacing spot tasks, node by node, remembered.

Who must go on a node, and what is idle before and after, follow from the node and what the pod asks for; only the
worth of it changes with the mix of arrivals. So for each ask the nodes are kept by that outcome, each outcome is
weighed once, and only the nodes that have changed since the same ask came last are worked out again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from gfs.core.lazy_heap import NodeGroups
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.policies.fgd.fragmentation import ArrivalMix, free_parts
from gfs.policies.fgd.victims import DividedNode
from gfs.policies.preemption import could_hold, victims_on

MOST_ASKS = 32
"""Asks whose outcomes are remembered; a new one takes the place of the one that came first."""

Free = tuple[int, tuple[int, ...]]
"""Idle cards and the free parts of divided cards, ascending."""

Outcome = tuple[Free, Free, int]
"""What is free before, what is free with the victims gone and the pod in place, and the number of victims."""


class FittingNodes:
    """The nodes for pods that ask for more than cards, by ask and outcome."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asks: dict[Hashable, _Ask] = {}

    def best(self, task: Task, mix: ArrivalMix) -> tuple[int, int, int, list[Run]] | None:
        """Number of victims, growth of F, position and the victims: fewest, then least growth, then node id."""
        key = (task.gpus_per_pod, task.cpus_per_pod, task.memory_per_pod, task.node_filter)
        ask = self._asks.get(key)
        if ask is None:
            last = self._asks.pop(next(iter(self._asks))) if len(self._asks) >= MOST_ASKS else None
            ask = self._asks[key] = _Ask(self._pool, task, last)
        return ask.best(task, mix)


class _Ask:
    """What comes of a pod of one ask on every node."""

    def __init__(self, pool: Pool, task: Task, last: _Ask | None) -> None:
        """`last`: an ask that is forgotten for this one; it hands on how it hears of changes."""
        self._pool = pool
        self._changed: Callable[[], set[Node]] = pool.listeners.feed() if last is None else last._changed
        self._changed()
        self._outcomes: NodeGroups[Outcome] = NodeGroups(len(pool.nodes))
        self._file(pool.nodes, task)

    def best(self, task: Task, mix: ArrivalMix) -> tuple[int, int, int, list[Run]] | None:
        self._file(self._changed(), task)
        first = self._outcomes.first
        found = [
            (victims, mix.fragmentation(*after) - mix.fragmentation(*before), first((before, after, victims)))
            for before, after, victims in self._outcomes.groups
        ]
        if not found:
            return None
        victims, growth, i = min(found)
        return victims, growth, i, self._victims(self._pool.nodes[i], task)

    def _file(self, nodes: Iterable[Node], task: Task) -> None:
        for node in nodes:
            self._outcomes.file(node.index, self._outcome(node, task))

    def _outcome(self, node: Node, task: Task) -> Outcome | None:
        if not node.spot or not could_hold(self._pool, node, task):
            return None
        runs = self._victims(node, task)
        idle, parts = DividedNode(self._pool, node).left(task, runs)
        return (node.idle, tuple(sorted(free_parts(node)))), (idle, tuple(sorted(parts))), len(runs)

    def _victims(self, node: Node, task: Task) -> list[Run]:
        """Later tasks go first."""
        return victims_on(self._pool, node, task, sorted(node.spot, key=lambda run: run.task.index))
