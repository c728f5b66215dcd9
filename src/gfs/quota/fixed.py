"""A fixed share of the pool: what operators set by hand today."""

from __future__ import annotations

from collections.abc import Sequence

from gfs.core.pool import Pool
from gfs.core.ports import QuotaRow


class FixedQuota:
    """Spot tasks may hold `share` of the pool's cards together, whatever their guarantee."""

    def __init__(self, pool: Pool, share: float, guarantees: Sequence[float] = (1.0,)) -> None:
        # To a millionth of a card: 0.29 x 100 is 29 cards, not 28.999999999999996.
        self._limit = round(share * pool.capacity, 6)
        self._guarantees = tuple(sorted(guarantees))

    def limit(self, guarantee_hours: float) -> float:
        """The share of the pool."""
        return self._limit

    def tick(self, now: float) -> None:
        """A fixed quota stays."""

    def rows(self) -> Sequence[QuotaRow]:
        """The same numbers at every tick."""
        return [QuotaRow(hours, self._limit, 1.0, self._limit) for hours in self._guarantees]

    def why(self, guarantee_hours: float) -> str:
        """Someone has set it."""
        return ""
