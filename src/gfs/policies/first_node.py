"""Preemption without a plan (YARN-CS, static): the first node that suffices, victims in no particular order."""

from __future__ import annotations

from gfs.core.index import NodeIndex
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Victims
from gfs.domain.task import Task
from gfs.policies.displace import could_hold, victims_on


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
