"""The anchor of the latencies: a scheduler that places and preempts by the rules of `gfs` and looks at every card.

It knows no index, no groups and no order: for each pod it goes over all nodes and all their cards. It shares no
code with `gfs.core` and `gfs.policies`. It takes over a cluster as it stands, decides for one HP task, and says
where its pods go and who is evicted. The rules are those of docs/concepts: place by (packing, co-location,
eviction history, node), else evict on the node of least cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gfs import Task

CARD = 1_000_000
GAMMA, M, BETA = 0.8, 3.0, 0.5


@dataclass(frozen=True, eq=False)
class Holder:
    """A running task."""

    task: Task
    progress_from: float


class Decision(NamedTuple):
    """Where each pod goes, in order, and who is evicted for them."""

    pods: tuple[tuple[int, float], ...]
    """(node, GPUs)"""
    victims: frozenset[int]
    """Indexes of tasks."""


Card = list[tuple[Holder, int]]
"""Who holds how many micro-cards of it."""


class NaiveCluster:
    """All cards of all nodes, and what a decision must know of the past."""

    def __init__(self, sizes: Iterable[int], *, evicted: int, kept: int, period: float) -> None:
        self.nodes: list[list[Card]] = [[[] for _ in range(size)] for size in sizes]
        self.evictions: list[tuple[float, int]] = []
        """(time, node)"""
        self._evicted, self._kept = evicted, kept
        self._capacity_time = sum(len(node) for node in self.nodes) * period

    def hold(self, holder: Holder, node: int, cards: Iterable[int]) -> None:
        """A running task has these cards, or its share of one."""
        for card in cards:
            self.nodes[node][card].append((holder, holder.task.share or CARD))

    def idle(self, node: int) -> list[int]:
        """The cards of a node that nobody holds."""
        return [i for i, card in enumerate(self.nodes[node]) if not card]

    # -- one decision ------------------------------------------------------------------------------

    def decide(self, task: Task, now: float) -> Decision | None:
        """Place all pods of an HP task; nothing if that cannot be."""
        mine, pods, victims = Holder(task, now), [], set[int]()
        pressures = self._pressures(now)
        for _ in range(task.pods):
            node = self._best_node(task, pressures)
            if node is None:
                cheapest = self._cheapest_node(task, now)
                if cheapest is None:
                    return None
                node, gone = cheapest
                victims |= {holder.task.index for holder in gone}
                self._remove(gone)
            cards = self._cards_for(self.nodes[node], task)
            self.hold(mine, node, cards)
            pods.append((node, task.gpus_per_pod))
        return Decision(tuple(pods), frozenset(victims))

    def _best_node(self, task: Task, pressures: dict[int, float]) -> int | None:
        best, best_score = None, (0.0, 0.0, 0.0)
        for i, node in enumerate(self.nodes):
            if _fits(node, task):
                idle = sum(not card for card in node)
                own = sum(any(not holder.task.is_spot for holder, _ in card) for card in node)
                heat = min(0.01 * M ** pressures.get(i, 0.0), 1.0)
                score = (1 - idle / len(node), own / len(node), round(heat, 9))
                if best is None or score > best_score:
                    best, best_score = i, score
        return best

    def _pressures(self, now: float) -> dict[int, float]:
        """Node -> its weighted evictions an hour."""
        found: dict[int, float] = {}
        for hot in {node for when, node in self.evictions if now - when < 86_400}:
            ages = [now - when for when, node in self.evictions if node == hot]
            found[hot] = GAMMA * sum(a < 3600 for a in ages) + (1 - GAMMA) * sum(a < 86_400 for a in ages) / 24
        return found

    def _cheapest_node(self, task: Task, now: float) -> tuple[int, list[Holder]] | None:
        best = None
        for i, node in enumerate(self.nodes):
            spot = list({h: None for card in node for h, _ in card if h.task.is_spot})
            if not spot or not _fits(node, task, spot):
                continue
            gone = list(spot)
            for holder in sorted(spot, key=lambda h: (-_waste(h, now), h.task.index)):
                spared = [other for other in gone if other is not holder]
                if _fits(node, task, spared):
                    gone = spared
            cost = (self._cost(gone, now), len(gone), i)
            if best is None or cost < best[0]:
                best = (cost, i, gone)
        return None if best is None else best[1:]

    def _cost(self, gone: list[Holder], now: float) -> float:
        broken = self._evicted + len(gone)
        wasted = sum(_waste(holder, now) for holder in gone)
        return round(broken / (self._kept + broken) + BETA * wasted / self._capacity_time, 12)

    def _remove(self, gone: list[Holder]) -> None:
        for node in self.nodes:
            for card in node:
                if card and any(holder in gone for holder, _ in card):
                    card[:] = [(holder, micro) for holder, micro in card if holder not in gone]

    def _cards_for(self, node: list[Card], task: Task) -> tuple[int, ...]:
        if task.share:
            rooms = [(_room(card), i) for i, card in enumerate(node) if card and _room(card) >= task.share]
            if rooms:
                return (min(rooms)[1],)
        idle = [i for i, card in enumerate(node) if not card]
        return tuple(idle[: task.cards or 1])


def _fits(node: list[Card], task: Task, without: list[Holder] | None = None) -> bool:
    """Whether a pod fits on the node, perhaps without some of those on it."""
    if without:
        node = [[(holder, micro) for holder, micro in card if holder not in without] for card in node]
    if task.share:
        return any(_room(card) >= task.share for card in node)
    return sum(not card for card in node) >= task.cards


def _room(card: Card) -> int:
    return CARD - sum(micro for _, micro in card)


def _waste(holder: Holder, now: float) -> float:
    age = now - holder.progress_from
    if age <= 0:
        return 0.0
    interval = holder.task.checkpoint_interval
    return holder.task.gpus * max(age - (age + 1e-6) // interval * interval, 0.0)
