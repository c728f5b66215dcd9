"""Whom GFS evicts for an HP pod: the node with the lowest cost (Alg. 1-2 of the paper, SPEC 3).

On every node that could hold the pod, spot tasks are spared by waste, highest first; the rest are victims V:
    cost = (F + |V|) / (G + F + |V|) + beta * waste(V) / (pool cards * T)
ties by fewer victims, then node id. The search is exact but does not look at every node: nodes are grouped
by their *profile* (idle cards and the cards of each spot task there), which says how few victims
could do; groups are taken in that order and, inside, nodes by a lower bound of their waste, until
no node left can be cheaper than the best one found.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from gfs.core.ledger import GuaranteeLedger
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Victims
from gfs.core.run import Run
from gfs.domain.execution import ExecutionRules
from gfs.domain.task import Task
from gfs.policies.displace import could_hold, victims_on
from gfs.policies.gfs.victims import WasteOrder

Profile = tuple[int, ...]
"""Whether cards are divided, idle cards, then the cards of each spot task (also if only in part), most first."""

COST_DIGITS = 12
"""Costs are compared to so many digits: rounding must not decide between costs that are equal on paper."""

FEW_NODES = 24
"""Up to so many nodes it is cheaper to look at each than to walk the spot runs by waste."""


@cache
def fewest_victims(profile: Profile, cards: int) -> int:
    """The least number of spot tasks that must go to free `cards` cards; 0 if it cannot be done.

    On a node with divided cards it may take more: a card that several hold is free when the last one goes.
    """
    free = profile[1]
    for victims, held in enumerate(profile[2:], start=1):
        free += held
        if free >= cards:
            return victims
    return 0


class GfsPreemptor:
    """The cheapest node for one HP pod."""

    def __init__(
        self, pool: Pool, ledger: GuaranteeLedger, *, rules: ExecutionRules, beta: float = 0.5, period: float
    ) -> None:
        self._pool = pool
        self._ledger = ledger
        self._waste_weight = beta / (pool.capacity * period)
        self._order = WasteOrder(max(rules.restart_overhead, rules.restart_overhead_large))
        self._profile: list[Profile | None] = [None] * len(pool.nodes)
        self._groups: dict[Profile, dict[int, Node]] = {}

    def started(self, run: Run) -> None:
        """A spot run now holds its cards."""
        self._order.add(run)

    def ended(self, run: Run) -> None:
        """A spot run no longer holds its cards."""
        self._order.remove(run)

    def choose(self, task: Task, now: float) -> Victims | None:
        """The cheapest node and its victims, or None if no eviction helps."""
        self._refresh()
        evicted, completed = self._ledger.evicted, self._ledger.completed(now)
        search = _Search(task, now, evicted, completed, self._waste_weight)
        need = task.cards or 1
        levels: dict[tuple[int, int], list[Profile]] = {}
        for profile in self._groups:
            victims = fewest_victims(profile, need)
            if victims:
                levels.setdefault((victims, profile[0]), []).append(profile)
        for victims, divided in sorted(levels):
            if search.hopeless(victims, 0.0):
                break
            profiles = levels[victims, divided]
            # A lone victim holds all cards that are missing, so its task has at least that many GPUs.
            missing = 0 if divided or not task.cards else need - max(profile[1] for profile in profiles)
            self._search_level(search, victims, profiles, missing)
        if search.best is None:
            return None
        node, runs = search.best
        if task.cards:
            count = self._pool.hp_candidates(task.cards)
            choice = f"cheapest of {count} nodes" if count > 1 else "only node that suffices"
        else:
            choice = "cheapest node"
        return Victims(node, runs, choice)

    def _search_level(self, search: _Search, victims: int, profiles: list[Profile], missing: int) -> None:
        """Look among the nodes where at least `victims` tasks must go."""
        if sum(len(self._groups[p]) for p in profiles) <= FEW_NODES:
            for profile in profiles:
                search.look_at(self._groups[profile].values())
            return
        wanted, seen = set(profiles), set[int]()
        if victims == 1:
            # Nearly always the best is a lone victim: look at the tasks that are large enough first.
            self._walk(search, 1, wanted, seen, missing)
            victims = 2
        self._walk(search, victims, wanted, seen, 0)

    def _walk(self, search: _Search, victims: int, wanted: set[Profile], seen: set[int], least_gpus: int) -> None:
        """Meet nodes by rising waste of a victim until those left, with `victims` or more, cannot be cheaper."""
        if search.hopeless(victims, 0.0):
            return
        profiles = self._profile
        for bound, runs in self._order.rising(search.now, least_gpus):
            # All victims on a node not yet seen waste at least `bound` each.
            if search.hopeless(victims, victims * bound):
                return
            for run in runs:
                for node, _, _ in run.places:
                    i = node.index
                    if i not in seen and profiles[i] in wanted:
                        seen.add(i)
                        search.look_at((node,))

    def _refresh(self) -> None:
        """Bring the profiles of the nodes that changed since the last search up to date."""
        groups, profiles = self._groups, self._profile
        for node in self._pool.changed:
            i = node.index
            old, new = profiles[i], _profile(node)
            if old != new:
                if old is not None:
                    group = groups[old]
                    del group[i]
                    if not group:
                        del groups[old]
                if new is not None:
                    groups.setdefault(new, {})[i] = node
                profiles[i] = new
        self._pool.changed.clear()


def _profile(node: Node) -> Profile | None:
    if not node.spot:
        return None
    if node.shares:
        held = [whole + _divided_cards(run, node) for run, whole in node.spot.items()]
        return (1, node.idle, *sorted(held, reverse=True))
    return (0, node.idle, *sorted(node.spot.values(), reverse=True))


def _divided_cards(run: Run, node: Node) -> int:
    return len({mask for where, mask, whole in run.places if not whole and where is node})


class _Search:
    """The best node found so far, and when to stop."""

    __slots__ = ("_cost", "_evicted", "_periods", "_task", "_weight", "best", "now")

    def __init__(self, task: Task, now: float, evicted: int, completed: int, weight: float) -> None:
        self.now = now
        self.best: tuple[Node, list[Run]] | None = None
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

    def look_at(self, nodes: Iterable[Node]) -> None:
        """Work out the victims on each node and keep the cheapest."""
        task, now = self._task, self.now
        for node in nodes:
            if not could_hold(node, task):
                continue
            if len(node.spot) == 1:
                runs = list(node.spot)
                waste = runs[0].waste(now)
            else:
                by_waste = sorted((-run.waste(now), run.task.index, run) for run in node.spot)
                runs = victims_on(node, task, [entry[2] for entry in by_waste])
                gone = set(runs)
                waste = -sum(entry[0] for entry in by_waste if entry[2] in gone)
            cost = (self.cost(len(runs), waste), len(runs), node.index)
            if cost < self._cost:
                self._cost = cost
                self.best = (node, runs)
