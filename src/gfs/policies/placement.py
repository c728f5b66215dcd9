"""Placement by idle cards alone (best fit, first fit), and for tasks that ask for more than cards with any placer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from gfs.core.index import NodeIndex
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Compares, Placer, Ranks
from gfs.domain.task import Task


class FitPlacer:
    """The first node that suffices: by id, or among those with the fewest idle cards."""

    fills_up = True

    def __init__(self, pool: Pool, *, fullest_first: bool) -> None:
        self._index = NodeIndex(pool, fullest_first=fullest_first)
        bucket = self._index.bucket
        self._index.follow(
            plain=lambda size, idle, hp: bucket(idle, 0, (0,)), special=lambda node: bucket(node.idle, node.room, (0,))
        )

    def choose(self, task: Task) -> Node | None:
        """The node for one more pod of the task, or None."""
        return self._index.choose(task)

    def ranked(self, task: Task) -> Iterator[Node]:
        """The nodes with cards for one more pod of the task, best first."""
        return self._index.ranked(task)

    def best_of(self, task: Task, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod; None if it refuses them."""
        return self._index.best_of(nodes)


def best_fit(pool: Pool) -> FitPlacer:
    """The node with the fewest idle cards that suffice."""
    return FitPlacer(pool, fullest_first=True)


def first_fit(pool: Pool) -> FitPlacer:
    """The first node that suffices."""
    return FitPlacer(pool, fullest_first=False)


class Chooser:
    """A placer, and what of its choices holds for tasks that ask for more than cards."""

    def __init__(self, pool: Pool, placer: Placer) -> None:
        self._pool = pool
        self._placer = placer
        self._ranks = placer if isinstance(placer, Ranks) else None
        self._compares = placer if isinstance(placer, Compares) else None

    def choose(self, task: Task) -> Node | None:
        """The node for one more pod of the task, or None."""
        return self._placer.choose(task) if self._pool.plain(task) else self.choose_fitting(task)

    def choose_fitting(self, task: Task) -> Node | None:
        """The same for a task that asks for more than cards: the best of few nodes, or the first of many that fits."""
        few = self._pool.few_nodes(task)
        if few is not None and (self._compares is not None or not few):
            return self._compares.best_of(task, few) if self._compares is not None else None
        fits = self._pool.fits
        return next((node for node in self.ranked(task) if fits(node, task)), None)

    def ranked(self, task: Task) -> Iterator[Node]:
        """The nodes with cards for a pod, best first; fullest first if the placer names only its first choice."""
        if self._ranks is not None:
            return self._ranks.ranked(task)
        return iter(sorted(self._with_cards(task), key=lambda node: (node.idle, node.index)))

    def _with_cards(self, task: Task) -> Iterator[Node]:
        least, share = max(task.cards, 1), task.share
        return (node for node in self._pool.nodes if node.idle >= least or (share and node.room >= share))

    def short(self, task: Task, *, without_spot: bool = False) -> str:
        """What a task lacks besides cards, on the first node that has these: '8 idle GPUs on n12, but ...'.

        `without_spot`: what an HP task would lack if every spot task went. Nothing if it is cards alone that are short.
        """
        pool = self._pool
        by_cards = pool.card_slots(task, without_spot=without_spot)
        if pool.plain(task) or by_cards == pool.slots(task, without_spot=without_spot):
            return ""
        # The placer may refuse the nodes that lack something.
        nodes = pool.nodes if without_spot else chain(self.ranked(task), self._with_cards(task))
        node = next(node for node in nodes if self._lacks(node, task, without_spot=without_spot))
        idle = f"{node.hp_free} GPU" if without_spot else f"{node.idle or 'no'} idle GPU"
        many = "s" * ((node.hp_free if without_spot else node.idle) != 1)
        return f"{idle}{many} on {node.name}, but {pool.short_of(node, task, without_spot=without_spot)}"

    def _lacks(self, node: Node, task: Task, *, without_spot: bool) -> bool:
        """Whether fewer pods fit on the node than find cards there."""
        pods = node.pods_by_cards(task.cards, task.share, without_spot=without_spot)
        return self._pool.most_pods(node, task, pods, without_spot=without_spot) < pods
