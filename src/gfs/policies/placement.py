"""Placement by idle GPUs (best fit, first fit), and how any placer's choice is held against what else a pod needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from gfs.core.index import NodeIndex
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Placer
from gfs.domain.task import Role

FEW = 16
"""Nodes that are looked at one by one in the placer's order, before all of them are counted at once."""


class IndexPlacer(Placer):
    """Takes nodes in the order of an index."""

    fills_up = True

    def __init__(self, pool: Pool, *, views: int = 1, fullest_first: bool = True) -> None:
        super().__init__(pool)
        self._index = NodeIndex(pool, views=views, fullest_first=fullest_first)

    def view(self, role: Role) -> int:
        """Returns the order of nodes that counts for the role; here there is only one."""
        return 0

    def choose(self, role: Role) -> Node | None:
        """Returns the node for one more pod of the role, or None."""
        return self._index.choose(role, self.view(role))

    def ranked(self, role: Role) -> Iterator[Node]:
        """Returns the nodes with GPUs for one more pod of the role, best first."""
        return self._index.ranked(role, self.view(role))

    def best_of(self, role: Role, nodes: Iterable[Node]) -> Node | None:
        """Returns the best of these nodes, which all have room for one more pod; None if it refuses them."""
        return self._index.best_of(nodes, self.view(role))


class FitPlacer(IndexPlacer):
    """The first node that suffices: by id, or among those with the fewest idle GPUs."""

    def __init__(self, pool: Pool, *, fullest_first: bool) -> None:
        super().__init__(pool, fullest_first=fullest_first)
        bucket = self._index.bucket
        self._index.follow(
            plain=lambda size, idle, hp: bucket(idle, 0, (0,)), special=lambda node: bucket(node.idle, node.room, (0,))
        )


def best_fit(pool: Pool) -> FitPlacer:
    """The node with the fewest idle GPUs that suffice."""
    return FitPlacer(pool, fullest_first=True)


def first_fit(pool: Pool) -> FitPlacer:
    """The first node that suffices."""
    return FitPlacer(pool, fullest_first=False)


class Chooser:
    """Finds the node for a pod: the best by the placer's order of those that take it."""

    def __init__(self, pool: Pool, placer: Placer) -> None:
        self._pool = pool
        self._placer = placer

    def choose(self, role: Role) -> Node | None:
        """Returns the node for one more pod of the role, or None."""
        if not role.cards and not role.share:
            return self._without_gpus(role)
        node = self._placer.choose(role)
        if node is None or not (node.free or role.rules) or self._pool.takes(node, role):
            return node
        return self._next(role)

    def _next(self, role: Role) -> Node | None:
        """Returns the first node in the placer's order that takes the pod, when the best one does not."""
        takes = self._pool.takes
        for node in islice(self._placer.ranked(role), FEW):
            if takes(node, role):
                return node
        return self._placer.best_of(role, self._pool.nodes_for(role))

    def _without_gpus(self, role: Role) -> Node | None:
        """Returns the node with the fewest idle GPUs that takes a pod which asks for none."""
        return min(self._pool.nodes_for(role), key=lambda node: (node.idle, node.index), default=None)

    def short(self, role: Role, *, without_spot: bool = False) -> str:
        """Returns what a role lacks besides GPUs, on the first node that has these: '8 idle GPUs on n12, but ...'.

        `without_spot`: what an HP role would lack if every spot run went. Nothing if only GPUs are short.
        """
        pool = self._pool
        if pool.by_gpus_alone(role):
            return ""
        by_gpus = pool.gpu_slots(role, without_spot=without_spot)
        if by_gpus == pool.slots(role, without_spot=without_spot):
            return ""
        # The placer may refuse the nodes that lack something.
        nodes = pool.nodes if without_spot else chain(self._placer.ranked(role), pool.with_gpus(role))
        node = next(node for node in nodes if self._lacks(node, role, without_spot=without_spot))
        idle = f"{node.hp_free} GPU" if without_spot else f"{node.idle or 'no'} idle GPU"
        many = "s" * ((node.hp_free if without_spot else node.idle) != 1)
        return f"{idle}{many} on {node.name}, but {pool.short_of(node, role, without_spot=without_spot)}"

    def _lacks(self, node: Node, role: Role, *, without_spot: bool) -> bool:
        """Returns whether fewer pods fit on the node than find GPUs there."""
        pods = node.pods_by_gpus(role, without_spot=without_spot)
        return self._pool.most_pods(node, role, pods, without_spot=without_spot) < pods
