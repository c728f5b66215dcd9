"""Whom GFS evicts for an HP pod: the node with the lowest cost (Alg. 2 of the paper, docs/concepts/how-gfs-decides.md).

On every node that could hold the pod, spot tasks are spared by waste, highest first; the rest are victims V:
    cost = (F + |V|) / (G + F + |V|) + beta * waste(V) / (pool cards * T)
ties by fewer victims, then node id. The search is exact but does not look at every node: nodes are grouped
by their *profile* (idle cards and the cards of each spot task there), which says how few victims
could do; groups are taken in that order and, inside, nodes by a lower bound of their waste, until
no node left can be cheaper than the best one found.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import inf
from typing import Any

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Victims
from gfs.core.reasons import Alternative
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.task import Task
from gfs.policies.gfs.fitting import Ask, FittingNodes
from gfs.policies.gfs.profiles import NodeProfiles, PodSize
from gfs.policies.gfs.victims import WasteOrder
from gfs.policies.preemption import could_hold, victims_on

COST_DIGITS = 12
"""Costs are compared to so many digits: rounding must not decide between costs that are equal on paper."""

MOST_LOOKS = 256
"""For a task that asks for more than cards so many nodes are looked at by cards alone. Mostly few are enough: then to
remember the nodes that could hold such a pod would only cost time."""

MOST_ALTERNATIVES = 8
"""So many of the nodes that were weighed are told."""

FEW_NODES = 24
"""Up to so many nodes it is cheaper to look at each than to walk the spot runs by waste."""


class GfsPreemptor:
    """The cheapest node for one HP pod."""

    def __init__(self, state: PoolState, *, beta: float = 0.5, period: float, tell: bool = False) -> None:
        """`tell`: its choices say what else was weighed."""
        self._pool = state.pool
        self._make_search = _ToldSearch if tell else _Search
        self._ledger = state.ledger
        self._waste_weight = beta / (max(state.pool.capacity, 1) * period)
        self._profiles = NodeProfiles(state.pool)
        self._fitting = FittingNodes(state.pool)
        """For tasks that ask for more than cards."""

    def choose(self, task: Task, now: float) -> Victims | None:
        """The cheapest node and its victims, or None if no eviction helps."""
        search = self._cheapest(task, now)
        if search.best is None:
            return None
        node, runs = search.best
        if task.cards:
            count = self._pool.hp_candidates(task.cards)
            choice = f"cheapest of {count} nodes" if count > 1 else "only node that suffices"
        else:
            choice = "cheapest node"
        return Victims(node, runs, choice, search.alternatives())

    def _cheapest(self, task: Task, now: float) -> _Search:
        """By cards alone, or, where that means to look at many nodes in vain, among those that could hold the pod."""
        ask = None if self._pool.plain(task) else self._fitting.known(task)
        if ask is None:
            most = inf if self._pool.plain(task) else MOST_LOOKS
            search = self._search(task, now, self._profiles.of_size(task.cards or 1), most)
            if search.looks <= most:
                return search
            ask = self._fitting.remember(task)
        return self._search(task, now, ask, inf)

    def _search(self, task: Task, now: float, size: PodSize | Ask, most: float) -> _Search:
        search = self._make_search(self._pool, task, now, *self._ledger.totals(now), self._waste_weight)
        for victims in sorted(size.levels):
            if search.hopeless(victims, 0.0) or search.looks > most:
                break
            _search_level(search, victims, size, most)
        return search


def _search_level(search: _Search, victims: int, size: PodSize | Ask, most: float) -> None:
    """Look among the nodes where at least `victims` tasks must go, at `most` nodes in all."""
    nodes = size.few_nodes(victims, FEW_NODES)
    if nodes is not None:
        for node in nodes:
            search.look_at(node)
        return
    met = _Met(size.group_of, size.wanted(victims), most)
    if victims == 1:
        # Nearly always the best is a lone victim: look at the tasks that would do as such first.
        met.walk(search, 1, size.lone)
        victims = 2
    if not search.hopeless(victims, 0.0):
        met.walk(search, victims, size.runs())


class _Met:
    """The nodes of one level, each looked at when it is met for the first time."""

    def __init__(self, group_of: Sequence[Any], wanted: Container[Any], most: float) -> None:
        self._group_of = group_of
        self._wanted = wanted
        self._most = most
        self._seen = set[Node]()

    def walk(self, search: _Search, victims: int, order: WasteOrder) -> None:
        """Meet nodes by rising waste of a victim until those left, with `victims` or more, cannot be cheaper."""
        group_of, wanted, seen = self._group_of, self._wanted, self._seen
        for bound, node in order.rising(search.now):
            # All victims on a node not yet seen waste at least `bound` each.
            if search.hopeless(victims, victims * bound):
                return
            if group_of[node.index] in wanted and node not in seen:
                seen.add(node)
                search.look_at(node)
                if search.looks > self._most:
                    return


class _Search:
    """The best node found so far, and when to stop."""

    __slots__ = ("_cost", "_evicted", "_periods", "_pool", "_task", "_weight", "best", "looks", "now")

    def __init__(self, pool: Pool, task: Task, now: float, evicted: int, completed: int, weight: float) -> None:
        self.now = now
        self.looks = 0
        """Nodes looked at so far."""
        self.best: tuple[Node, list[Run]] | None = None
        self._pool = pool
        self._task = task
        self._evicted = evicted
        self._periods = evicted + completed
        self._weight = weight
        self._cost: tuple[float, int, int] = (float("inf"), 0, 0)

    def cost(self, victims: int, waste: float) -> float:
        """The paper's cost of evicting so many tasks with so much waste."""
        cost = (self._evicted + victims) / (self._periods + victims) + self._weight * waste
        return round(cost, COST_DIGITS)

    def hopeless(self, victims: int, waste: float) -> bool:
        """Whether nothing with at least so many victims and so much waste can beat or tie the best."""
        return self.cost(victims, waste) > self._cost[0]

    def alternatives(self) -> tuple[Alternative, ...]:
        """What was weighed, if that is kept."""
        return ()

    def look_at(self, node: Node) -> None:
        """Work out the victims on the node and keep it if it is the cheapest so far."""
        self.looks += 1
        if not could_hold(self._pool, node, self._task):
            return
        runs, waste = self._victims(node)
        cost = (self.cost(len(runs), waste), len(runs), node.index)
        if cost < self._cost:
            self._cost = cost
            self.best = (node, runs)

    def _victims(self, node: Node) -> tuple[list[Run], float]:
        """Who would have to go from the node, and what they waste together."""
        task, now = self._task, self.now
        if len(node.spot) == 1:
            runs = list(node.spot)
            waste = runs[0].waste(now)
        else:
            by_waste = sorted((-run.waste(now), run.task.index, run) for run in node.spot)
            runs = victims_on(self._pool, node, task, [entry[2] for entry in by_waste])
            gone = set(runs)
            waste = -sum(entry[0] for entry in by_waste if entry[2] in gone)
        return runs, waste


class _ToldSearch(_Search):
    """A search that remembers all that it weighed."""

    __slots__ = ("_weighed",)

    def __init__(self, pool: Pool, task: Task, now: float, evicted: int, completed: int, weight: float) -> None:
        super().__init__(pool, task, now, evicted, completed, weight)
        self._weighed: dict[int, tuple[float, int, int, Alternative]] = {}
        """Node -> cost, number of victims, node, and all of it in words."""

    def look_at(self, node: Node) -> None:
        """Weigh the node, and remember it."""
        super().look_at(node)
        if could_hold(self._pool, node, self._task):
            runs, waste = self._victims(node)
            cost, at = self.cost(len(runs), waste), node.index
            told = Alternative(node.name, tuple(run.task for run in runs), cost, waste)
            self._weighed[at] = (cost, len(runs), at, told)

    def alternatives(self) -> tuple[Alternative, ...]:
        """The cheapest of the nodes that were looked at: the first was taken."""
        ranked = sorted(self._weighed.values(), key=lambda each: each[:3])[:MOST_ALTERNATIVES]
        return tuple(told._replace(chosen=i == 0) for i, (*_, told) in enumerate(ranked))
