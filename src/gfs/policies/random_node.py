"""Random preemption (GFS-p, GFS-sp): any node that suffices, victims in random order."""

from __future__ import annotations

from random import Random

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Victims
from gfs.domain.task import Task
from gfs.policies.displace import could_hold, victims_on

DRAWS = 32
"""Nodes drawn before all are looked at, from a random one on."""


class RandomPreemptor:
    """A node drawn from those that could hold the pod if their spot tasks went."""

    def __init__(self, pool: Pool, random: Random) -> None:
        """`random` is a fact: where its draws have come to is saved with the state."""
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
