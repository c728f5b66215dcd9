"""Preemption without a plan (YARN-CS, static): the first node that suffices, victims in no particular order."""

from __future__ import annotations

from gfs.core.index import NodeIndex
from gfs.core.pool import Pool
from gfs.core.ports import Victims
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.policies.displace import victims_on


class FirstNodePreemptor:
    """The first node, by id, that could hold the pod if its spot tasks went; later tasks are spared first."""

    def __init__(self, pool: Pool) -> None:
        self._index = NodeIndex(pool.nodes, fullest_first=False)
        # Nodes are filed by what HP could have there, not by what is idle.
        bucket = self._index.bucket
        self._file = self._index.filer(
            pool.sizes,
            plain=lambda size, idle, hp: bucket(size - hp, 0, (0,)),
            special=lambda node: bucket(node.hp_free, node.hp_room, (0,)),
        )
        self._changed = pool.changed
        self._changed.update(pool.nodes)

    def choose(self, task: Task, now: float) -> Victims | None:
        """The first node that could hold the pod, and whoever is in the way there."""
        for node in self._changed:
            self._file(node)
        self._changed.clear()
        cards = task.cards
        found = self._index.best(cards) if cards else self._index.best_for_share(task.share)
        if found is None:
            return None
        latest_first = sorted(found.spot, key=lambda run: (-run.task.index, run.number))
        return Victims(found, victims_on(found, task, latest_first), "first node that suffices")

    def started(self, run: Run) -> None:
        """Nothing to note."""

    def ended(self, run: Run) -> None:
        """Nothing to note."""
