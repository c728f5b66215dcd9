"""A node for one more pod, whatever the task asks for: the placer's first choice, or the first that fits."""

from __future__ import annotations

from collections.abc import Iterator

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Placer, Ranks
from gfs.domain.task import Task


class Chooser:
    """A placer, and what of its choices holds for tasks that ask for more than cards."""

    def __init__(self, pool: Pool, placer: Placer) -> None:
        self._pool = pool
        self._placer = placer
        self._ranks = placer if isinstance(placer, Ranks) else None

    def choose(self, task: Task) -> Node | None:
        """The node for one more pod of the task, or None."""
        return self._placer.choose(task) if self._pool.plain(task) else self.choose_fitting(task)

    def choose_fitting(self, task: Task) -> Node | None:
        """The same for a task that asks for more than cards."""
        fits = self._pool.fits
        return next((node for node in self.ranked(task) if fits(node, task)), None)

    def ranked(self, task: Task) -> Iterator[Node]:
        """The nodes with cards for a pod, best first; fullest first if the placer names only its first choice."""
        if self._ranks is not None:
            return self._ranks.ranked(task)
        least, share = max(task.cards, 1), task.share
        able = [node for node in self._pool.nodes if node.idle >= least or (share and node.room >= share)]
        return iter(sorted(able, key=lambda node: (node.idle, node.index)))

    def short(self, task: Task) -> str:
        """What a task lacks besides cards, of the first node that has these: '8 idle cards on n12, but ...'."""
        node = next((node for node in self.ranked(task) if not self._pool.fits(node, task)), None)
        if node is None:
            return ""
        cards = f"{node.idle or 'no'} idle card{'s' * (node.idle != 1)} on {node.name}"
        return f"{cards}, but {self._pool.short_of(node, task)}"
