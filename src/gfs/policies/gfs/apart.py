"""Where `gfs-plus` puts a pod on idle cards: HP beside HP, spot away from it.

The paper fills the fullest node, whoever is on it. So spot tasks decide where HP tasks go, and when they leave, HP
is scattered: a later HP gang finds too few whole nodes, and no eviction helps it. Here an HP pod goes where most
cards are held by HP, a spot pod where fewest are, and only among equals to the fullest node. HP then lies nearly
as it would without spot tasks.

Away from HP means on empty nodes, which HP pods of whole nodes need next. While few nodes are empty, spot tasks
leave them alone and fill gaps as in the paper; once none is, apart is better again.
"""

from __future__ import annotations

from gfs.core.node import Node
from gfs.core.state import PoolState
from gfs.domain.task import Priority, Task
from gfs.policies.gfs.scoring import GfsPlacer

FEW = 1 / 8
"""Of the nodes: so many empty ones are left to HP."""

HP, AWAY, GAPS = range(3)
"""The views: beside HP, away from HP, and into the gaps."""


class ApartPlacer(GfsPlacer):
    """The paper's scores and circuit breaker, with the cards that HP holds compared before packing."""

    packing_first = False
    views = (Priority.HP, Priority.SPOT, Priority.SPOT)

    def __init__(self, state: PoolState, *, gamma: float = 0.8, m: float = 3.0) -> None:
        super().__init__(state, gamma=gamma, m=m)
        self._pool = pool = state.pool
        self._largest = pool.sizes[-1]
        self._few = FEW * len(pool.nodes)
        self._away, self._gaps = self._index.chooser((HP, AWAY)), self._index.chooser((HP, GAPS))
        self.choose = self._choose

    def _choose(self, task: Task) -> Node | None:
        return self._gaps(task) if self._few_empty(task) else self._away(task)

    def _view(self, task: Task) -> int:
        """The order of nodes that counts for the task."""
        return HP if not task.is_spot else GAPS if self._few_empty(task) else AWAY

    def _few_empty(self, task: Task) -> bool:
        return bool(task.priority) and 0 < self._pool.idle_slots(self._largest) <= self._few

    def _compared(self, view: int, packing: int, hp: int, spot: int) -> tuple[int, int]:
        match view:
            case 0:  # beside HP
                return self._parts - hp, packing
            case 1:  # away from HP
                return hp, packing
            case _:  # into the gaps
                return packing, self._parts - spot
