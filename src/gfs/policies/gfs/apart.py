"""Where `gfs-plus` puts a pod on idle cards: HP beside HP, spot away from it.

The paper fills the fullest node, whoever is on it. So spot tasks decide where HP tasks go, and when they leave, HP
is scattered: a later HP gang finds too few whole nodes, and no eviction helps it. Here an HP pod goes where most
cards are held by HP, a spot pod where fewest are, and only among equals to the fullest node. HP then lies nearly
as it would without spot tasks.
"""

from __future__ import annotations

from gfs.domain.task import Kind
from gfs.policies.gfs.scoring import GfsPlacer


class ApartPlacer(GfsPlacer):
    """The paper's scores and circuit breaker, with the cards that HP holds compared before packing."""

    packing_first = False

    def _compared(self, kind: Kind, packing: int, hp: int, spot: int) -> tuple[int, int]:
        return (hp if kind else self._parts - hp), packing
