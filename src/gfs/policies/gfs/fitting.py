"""For HP tasks that ask for more than cards: the nodes where evictions help, by how few could do, remembered.

Where CPUs are short, most nodes that have the cards cannot hold the pod, or only if several tasks go, and a search by
cards alone would look at them all. So for an ask (cards, CPUs, memory, node filter) that has met with this once, the
nodes that could hold a pod are kept, and only those that have changed since it came last are worked out again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from gfs.core.listeners import Listener
from gfs.core.node import SLACK, Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.policies.gfs.profiles import fewest_victims, profile_of
from gfs.policies.gfs.victims import WasteOrder
from gfs.policies.preemption import could_hold

MOST_ASKS = 32
"""Asks that are remembered; a new one takes the place of the one that came first."""


class FittingNodes(Listener):
    """The nodes for pods that ask for more than cards, by ask."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asks: dict[Hashable, Ask] = {}
        pool.listeners.add(self)

    def shrunk(self, run: Run, before: Task, now: float) -> None:
        """It would waste less."""
        for ask in self._asks.values():
            ask.reweigh(run)

    def known(self, task: Task) -> Ask | None:
        """All about pods that ask for the same, as it stands; None if it is not remembered."""
        ask = self._asks.get(_key(task))
        if ask is not None:
            ask.catch_up()
        return ask

    def remember(self, task: Task) -> Ask:
        """From now on the nodes for such pods are remembered."""
        last = self._asks.pop(next(iter(self._asks))) if len(self._asks) >= MOST_ASKS else None
        ask = self._asks[_key(task)] = Ask(self._pool, task, last)
        return ask


def _key(task: Task) -> Hashable:
    return task.gpus_per_pod, task.cpus_per_pod, task.memory_per_pod, task.node_filter


class Ask:
    """What is known about pods of one ask that need victims (as `profiles.PodSize` of pods of one size)."""

    def __init__(self, pool: Pool, task: Task, last: Ask | None) -> None:
        """`last`: an ask that is forgotten for this one; it hands on how it hears of changes."""
        self._pool = pool
        self._task = task
        self._changed: Callable[[], set[Node]] = pool.listeners.feed() if last is None else last._changed
        self._changed()
        self.group_of = [0] * len(pool.nodes)
        """By position of the node: the fewest victims that could do there; 0: it cannot hold the pod."""
        self.levels: dict[int, dict[Node, None]] = {}
        """The fewest victims that could do -> the nodes where it is so."""
        self.lone = WasteOrder()
        """The runs that make room for a pod by themselves; on nodes with divided cards, those that might."""
        self._runs: WasteOrder | None = None
        self._look_at(node for node in pool.nodes if node.spot)

    def few_nodes(self, victims: int, most: int) -> list[Node] | None:
        """The nodes where at least so many must go; None if they are more than `most`."""
        nodes = self.levels[victims]
        return list(nodes) if len(nodes) <= most else None

    def wanted(self, victims: int) -> tuple[int, ...]:
        """Which of `group_of` these nodes have."""
        return (victims,)

    def runs(self) -> WasteOrder:
        """All spot runs on nodes that could hold the pod."""
        if self._runs is None:
            self._runs = WasteOrder()
            for nodes in self.levels.values():
                for node in nodes:
                    self._runs.put(node, tuple(node.spot))
        return self._runs

    def reweigh(self, run: Run) -> None:
        """A run has fewer GPUs than before."""
        self.lone.reweigh(run)
        if self._runs is not None:
            self._runs.reweigh(run)

    def catch_up(self) -> None:
        """Look again at the nodes that have changed since the last time."""
        self._look_at(self._changed())

    def _look_at(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            lone, victims = self._fewest(node)
            before = self.group_of[node.index]
            if victims != before:
                self.group_of[node.index] = victims
                if before:
                    del self.levels[before][node]
                    if not self.levels[before]:
                        del self.levels[before]
                if victims:
                    self.levels.setdefault(victims, {})[node] = None
            self.lone.put(node, lone)
            if self._runs is not None:
                self._runs.put(node, tuple(node.spot) if victims else ())

    def _fewest(self, node: Node) -> tuple[tuple[Run, ...], int]:
        """The runs that would do as the only victim, and the fewest victims that could do."""
        pool, task = self._pool, self._task
        profile = profile_of(node)
        if profile is None or not could_hold(pool, node, task):
            return (), 0
        by_cards = fewest_victims(profile, task.cards or 1)
        if by_cards > 1:
            return (), max(by_cards, self._by_resources(node))
        missing = 0 if node.shares else (task.cards or 1) - node.idle + node.surplus
        lone = tuple([run for run, held in node.spot.items() if held >= missing and pool.could_fit(node, task, (run,))])
        return lone, 1 if lone else max(2, self._by_resources(node))

    def _by_resources(self, node: Node) -> int:
        """The fewest victims that free CPUs, memory and a pod's place, each looked at by itself."""
        if not self._pool.counts_resources:
            return 1
        task, held = self._task, [(run.pods_on(node), run.task) for run in node.spot]
        return max(
            _fewest_of(task.cpus_per_pod - node.free_cpus, [pods * each.cpus_per_pod for pods, each in held]),
            _fewest_of(task.memory_per_pod - node.free_memory, [pods * each.memory_per_pod for pods, each in held]),
            _fewest_of(1 - node.free_pods, [pods for pods, _ in held]),
        )


def _fewest_of(missing: float, held: list[float] | list[int]) -> int:
    """How many of these amounts, largest first, make up for what is missing; sums may differ by rounding."""
    missing -= 2 * SLACK
    victims = 0
    for amount in sorted(held, reverse=True):
        if missing <= 0:
            break
        missing -= amount
        victims += 1
    return victims
