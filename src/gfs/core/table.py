"""The counts of all nodes of a pool as NumPy columns, for questions that concern many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gfs.core.node import GPUS, SLACK, Node
from gfs.domain.task import Role
from gfs.domain.units import MICRO

if TYPE_CHECKING:
    from gfs.core.pool import Pool

Counts = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]
Admitted = npt.NDArray[np.bool_]


class NodeTable:
    """One row a node, in the order of the pool. Rows are brought up to date when something is asked."""

    def __init__(self, pool: Pool, resources: Sequence[str], changed: Callable[[], Iterable[Node]]) -> None:
        """`resources`: those that some node limits. `changed` gives the nodes that changed since its last call."""
        self._pool = pool
        self._changed = changed
        size = len(pool.nodes)
        self._idle: Counts = np.zeros(size, dtype=np.int64)
        """Below 0: so many GPUs are held beyond those that there are."""
        self._hp_free: Counts = np.zeros(size, dtype=np.int64)
        self._free = {name: np.full(size, np.inf) for name in resources}
        self._free_without_spot = {name: np.full(size, np.inf) for name in resources}
        changed()
        self._refresh(pool.nodes)

    def pods(self, role: Role, *, without_spot: bool = False) -> Counts:
        """Returns how many pods of the role find room on each node now (if every spot run went)."""
        self._refresh(self._changed())
        pool = self._pool
        gpus = self._hp_free if without_spot else self._idle
        if role.cards:
            most = gpus // role.cards
        elif role.share:
            most = gpus * (MICRO // role.share)
            for node in pool.divided:
                most[node.index] = node.pods_by_gpus(role, without_spot=without_spot)
        else:
            most = np.array([node.pods_by_gpus(role, without_spot=without_spot) for node in pool.nodes])
        if role.rules:
            most = np.where(self.admitted(role, without_spot=without_spot), most, 0)
            most = np.minimum(most, min(each.most for each, _ in pool.filters_of(role)))
        requests = dict(role.requests)
        for name, free in (self._free_without_spot if without_spot else self._free).items():
            if amount := requests.get(name):
                most = np.minimum(most, np.floor((free + SLACK) / amount))
            most = np.where(free < -SLACK, 0, most)
        return np.maximum(most, 0).astype(np.int64)

    def admitted(self, role: Role, *, without_spot: bool = False) -> Admitted:
        """Returns which nodes every filter lets take a pod of the role (if every spot run went)."""
        nodes, filters = self._pool.nodes, self._pool.filters_of(role)
        admitted = np.ones(len(nodes), dtype=bool)
        for each, rule in filters:
            admitted &= each.admitted(rule, nodes, without_spot=without_spot)
        return admitted

    def free(self) -> dict[str, Amounts]:
        """Returns what is free on each node by name; below 0: so much is held beyond what there is."""
        self._refresh(self._changed())
        return {GPUS: self._idle.astype(np.float64), **self._free}

    def _refresh(self, nodes: Iterable[Node]) -> None:
        idle, hp_free, columns, without_spot = self._idle, self._hp_free, self._free, self._free_without_spot
        for node in nodes:
            i = node.index
            idle[i], hp_free[i] = node.idle - node.surplus, node.hp_free
            for name, free in node.free.items():
                columns[name][i] = free
                without_spot[name][i] = free + node.spot_use[name]
