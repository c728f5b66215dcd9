"""Preemption that every scheduler shares: who must go so that a pod fits on a given node.

Spot runs are looked at in an order of the preemptor's; each is spared if the pod still fits without its cards. And the
two preemptors without a plan: the first node that suffices (YARN-CS, static), and a random one (GFS-p, GFS-sp).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random

from gfs.core.node import SLACK, WHOLE, Node
from gfs.core.pool import Pool
from gfs.core.ports import Preemptor, Victims
from gfs.core.run import Run, held_on
from gfs.domain.task import Role
from gfs.domain.units import MICRO

DRAWS = 32
"""Nodes that `RandomPreemptor` draws before it looks at all, from a random one on."""


def victims_on(pool: Pool, node: Node, role: Role, spare_first: Iterable[Run]) -> list[Run]:
    """Returns the spot runs that cannot be spared, in the given order. The node must be one that could hold the pod.

    Whatever is short must get free: GPUs, what else the pod requests, and what its filters look at.
    """
    whole = not node.shares and not role.share
    spare = node.idle - node.surplus + sum(node.spot.values()) - role.cards
    left = {name: free + node.spot_use[name] + SLACK for name, free in node.free.items()}
    for name, amount in role.requests:
        if name in left:
            left[name] -= amount
    by_pods = any(not each.by_spec for each, _ in pool.filters_of(role))
    gone = dict.fromkeys(node.spot)
    victims = []
    for run in spare_first:
        del gone[run]
        use = held_on(run, node) if left else {}
        fits = node.spot[run] <= spare if whole else _gpus_beside(node, role, gone)
        fits = fits and all(use[name] <= free for name, free in left.items() if use[name])
        if not fits or (by_pods and not pool.admits(node, role, gone)):
            gone[run] = None
            victims.append(run)
            continue
        spare -= node.spot[run]
        for name in left:
            left[name] -= use[name]
    return victims


def gentlest(pool: Pool, role: Role, now: float, *, whole_nodes: bool) -> Victims | None:
    """Of all nodes that could hold the pod, the one where fewest protected runs go, then fewest, then least waste.

    Every node is looked at: this is for when a preemptor's own choice hits somebody who is protected.
    """
    protected, best = pool.protected, None
    for node in pool.nodes:
        if node.spot and pool.could_hold(node, role):
            order = sorted(
                node.spot, key=lambda run: (run not in protected, -run.task.urgency, -run.waste(now), run.task.index)
            )
            runs = order if whole_nodes else victims_on(pool, node, role, order)
            rank = (len(protected.intersection(runs)), len(runs), sum(run.waste(now) for run in runs), node.index)
            if best is None or rank < best[0]:
                best = rank, Victims(node, runs, "spares disruption budgets")
    return best[1] if best is not None else None


def _gpus_beside(node: Node, role: Role, gone: Collection[Run]) -> bool:
    """Returns whether a pod finds GPUs once these spot runs have gone, on a node with divided GPUs.

    A divided GPU is free only when the last pod on it goes.
    """
    free, part = node.idle - node.surplus + sum(node.spot[run] for run in gone), False
    freed: dict[int, int] = {}
    for run in gone:
        for where, whose, _, slot in run.places:
            if where is node and slot != WHOLE:
                freed[slot] = freed.get(slot, 0) + whose.share
    for slot, (hp, spot) in node.shares.items():
        load = hp + spot - freed.get(slot, 0)
        free += load == 0
        part = part or 0 < load <= MICRO - role.share
    return free > 0 or (part and free == 0) if role.share else free >= role.cards


class FirstNodePreemptor(Preemptor):
    """The first node, by id, that could hold the pod if its spot tasks went; later tasks are spared first."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def choose(self, role: Role, now: float) -> Victims | None:
        """Returns the first node that could hold the pod, and the runs in the way there."""
        node = next((node for node in self._pool.nodes if self._pool.could_hold(node, role)), None)
        if node is None:
            return None
        latest_first = sorted(node.spot, key=lambda run: (-run.task.urgency, -run.task.index, run.number))
        return Victims(node, victims_on(self._pool, node, role, latest_first), "first node that suffices")


@dataclass(slots=True)
class Draws:
    """What is remembered of random draws: where they have come to."""

    random: Random | None = None

    def random_of(self, seed: int) -> Random:
        """The generator, which begins with this seed."""
        self.random = self.random or Random(seed)
        return self.random


class RandomPreemptor(Preemptor):
    """A node drawn from those that could hold the pod if their spot tasks went."""

    def __init__(self, pool: Pool, random: Random) -> None:
        self._pool = pool
        self._random = random

    def choose(self, role: Role, now: float) -> Victims | None:
        """A random node, and whoever is in the way there, in random order."""
        node = self._draw(role)
        if node is None:
            return None
        spared_first = sorted(node.spot, key=lambda run: (run.task.index, run.number))
        self._random.shuffle(spared_first)
        spared_first.sort(key=lambda run: -run.task.urgency)
        return Victims(node, victims_on(self._pool, node, role, spared_first), "a random node")

    def _draw(self, role: Role) -> Node | None:
        nodes, count = self._pool.nodes, len(self._pool.nodes)
        if not count:
            return None
        for _ in range(DRAWS):
            node = nodes[self._random.randrange(count)]
            if self._pool.could_hold(node, role):
                return node
        start = self._random.randrange(count)
        turned = (nodes[(start + i) % count] for i in range(count))
        return next((node for node in turned if self._pool.could_hold(node, role)), None)
