"""Quotas without a forecast: none at all, and a share of the pool that an operator sets by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from gfs.core.pool import Pool
from gfs.core.ports import Quota, QuotaRow


class UnlimitedQuota(Quota):
    """Spot tasks may take whatever is idle."""

    def limit(self, guarantee_hours: float) -> float:
        """Returns infinity: there is no limit but what is idle."""
        return inf


@dataclass(slots=True)
class FixedMemory:
    """What a fixed quota remembers: between ticks its limit stays, whatever nodes do."""

    limit: float | None = None
    """Of the last tick, in GPUs; None: there was none."""


class FixedQuota(Quota):
    """Spot tasks may hold `share` of the pool's GPUs together, whatever their guarantee."""

    def __init__(
        self, pool: Pool, share: float, guarantees: Sequence[float] = (1.0,), memory: FixedMemory | None = None
    ) -> None:
        self._pool = pool
        self._share = share
        self.horizons = tuple(sorted(guarantees))
        self._memory = memory or FixedMemory()
        self._capacity = -1
        """GPUs of the pool at the last tick."""
        if self._memory.limit is None:
            self.tick(0.0)

    def limit(self, guarantee_hours: float) -> float:
        """The share of the pool, in GPUs."""
        return self._memory.limit or 0.0

    def tick(self, now: float) -> None:
        """The share of the nodes that there are now."""
        if self._pool.capacity != self._capacity:
            self._capacity = self._pool.capacity
            # To a millionth of a GPU: 0.29 x 100 is 29 GPUs, not 28.999999999999996.
            self._memory.limit = round(self._share * self._capacity, 6)

    def rows(self) -> Sequence[QuotaRow]:
        """The same numbers for all guarantees."""
        return [QuotaRow(hours, limit := self.limit(hours), 1.0, limit) for hours in self.horizons]
