"""Preemption that every scheduler shares: who must go so that a pod fits on a given node.

Spot runs are looked at in an order of the preemptor's; each is spared if the pod still fits without its cards. And the
two preemptors without a plan: the first node that suffices (YARN-CS, static), and a random one (GFS-p, GFS-sp).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from gfs.core.index import NodeIndex
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Victims
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.domain.units import MICRO

DRAWS = 32
"""Nodes that `RandomPreemptor` draws before it looks at all, from a random one on."""


def could_hold(pool: Pool, node: Node, task: Task) -> bool:
    """Whether the node could hold one pod of the HP task if all its spot tasks went."""
    if not (node.hp_free >= task.cards if task.cards else node.hp_free > 0 or node.hp_room >= task.share):
        return False
    return pool.plain(task) or pool.fits_without_spot(node, task)


def victims_on(pool: Pool, node: Node, task: Task, spare_first: Iterable[Run]) -> list[Run]:
    """The spot runs that cannot be spared, in the given order. The node must be one that could hold the pod.

    Whatever is short must get free: cards, and where they count CPUs, memory and pods.
    """
    if not pool.counts_resources and task.cards and not node.shares:
        return _victims_whole(node, task.cards, spare_first)
    return _victims_divided(pool, node, task, spare_first)


def gentlest(pool: Pool, task: Task, now: float, *, whole_nodes: bool) -> Victims | None:
    """Of all nodes that could hold the pod, the one where fewest protected runs go, then fewest, then least waste.

    Every node is looked at: this is for when a preemptor's own choice hits somebody who is protected.
    """
    protected, best = pool.protected, None
    for node in pool.nodes:
        if node.spot and could_hold(pool, node, task):
            order = sorted(node.spot, key=lambda run: (run not in protected, -run.waste(now), run.task.index))
            runs = order if whole_nodes else victims_on(pool, node, task, order)
            rank = (len(protected.intersection(runs)), len(runs), sum(run.waste(now) for run in runs), node.index)
            if best is None or rank < best[0]:
                best = rank, Victims(node, runs, "spares disruption budgets")
    return best[1] if best is not None else None


def _victims_whole(node: Node, cards: int, spare_first: Iterable[Run]) -> list[Run]:
    held = node.spot
    spare = node.idle - node.surplus + sum(held.values()) - cards
    victims = []
    for run in spare_first:
        here = held[run]
        if here <= spare:
            spare -= here
        else:
            victims.append(run)
    return victims


def _victims_divided(pool: Pool, node: Node, task: Task, spare_first: Iterable[Run]) -> list[Run]:
    """The same with cards that several pods share, which are free only when their last holder goes, and with
    other resources that may be short."""
    users = _spot_users(node)
    spared: set[Run] = set()
    victims = []
    for run in spare_first:
        spared.add(run)
        if not _fits_beside(pool, node, task, users, spared):
            spared.discard(run)
            victims.append(run)
    return victims


def _spot_users(node: Node) -> dict[int, dict[Run, int]]:
    """Card -> spot runs on it -> micro-cards they hold of it."""
    users: dict[int, dict[Run, int]] = {}
    for run in node.spot:
        for where, mask, _ in run.places:
            if where is node:
                for card in range(mask.bit_length()):
                    if mask >> card & 1:
                        holders = users.setdefault(card, {})
                        holders[run] = holders.get(run, 0) + (run.task.share or MICRO)
    return users


def _fits_beside(pool: Pool, node: Node, task: Task, users: dict[int, dict[Run, int]], spared: set[Run]) -> bool:
    """Whether the pod fits beside HP and these spot runs."""
    if not pool.could_fit(node, task, (run for run in node.spot if run not in spared)):
        return False
    free, part = node.idle - node.surplus, False
    for card in users.keys() | node.shares.keys():
        load = node.shares[card][0] if card in node.shares else 0
        load += sum(held for run, held in users.get(card, {}).items() if run in spared)
        free += load == 0
        part = part or 0 < load <= MICRO - task.share
    return free >= task.cards if task.cards else free > 0 or (part and free == 0)


class FirstNodePreemptor:
    """The first node, by id, that could hold the pod if its spot tasks went; later tasks are spared first."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._index = NodeIndex(pool, fullest_first=False)
        # Nodes are filed by what HP could have there, not by what is idle, and only when someone asks.
        bucket = self._index.bucket
        self._changed = pool.listeners.feed()
        self._index.follow(
            plain=lambda size, idle, hp: bucket(size - hp, 0, (0,)),
            special=lambda node: bucket(node.hp_free, node.hp_room, (0,)),
            at_once=False,
        )

    def choose(self, task: Task, now: float) -> Victims | None:
        """The first node that could hold the pod, and whoever is in the way there."""
        for node in self._changed():
            self._index.file(node)
        found = self._first(task)
        if found is None:
            return None
        latest_first = sorted(found.spot, key=lambda run: (-run.task.index, run.number))
        return Victims(found, victims_on(self._pool, found, task, latest_first), "first node that suffices")

    def _first(self, task: Task) -> Node | None:
        if self._pool.plain(task):
            return self._index.best(task.cards) if task.cards else self._index.best_for_share(task.share)
        return next((node for node in self._index.ranked(task) if could_hold(self._pool, node, task)), None)


@dataclass(slots=True)
class Draws:
    """What is remembered of random draws: where they have come to."""

    random: Random | None = None

    def random_of(self, seed: int) -> Random:
        """The generator, which begins with this seed."""
        self.random = self.random or Random(seed)
        return self.random


class RandomPreemptor:
    """A node drawn from those that could hold the pod if their spot tasks went."""

    def __init__(self, pool: Pool, random: Random) -> None:
        self._pool = pool
        self._random = random

    def choose(self, task: Task, now: float) -> Victims | None:
        """A random node, and whoever is in the way there, in random order."""
        node = self._draw(task)
        if node is None:
            return None
        spared_first = sorted(node.spot, key=lambda run: (run.task.index, run.number))
        self._random.shuffle(spared_first)
        return Victims(node, victims_on(self._pool, node, task, spared_first), "a random node")

    def _draw(self, task: Task) -> Node | None:
        nodes, count = self._pool.nodes, len(self._pool.nodes)
        if not count:
            return None
        for _ in range(DRAWS):
            node = nodes[self._random.randrange(count)]
            if could_hold(self._pool, node, task):
                return node
        start = self._random.randrange(count)
        turned = (nodes[(start + i) % count] for i in range(count))
        return next((node for node in turned if could_hold(self._pool, node, task)), None)
