"""Quotas without a forecast: none at all, and a share of the pool that an operator sets by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gfs.core.pool import Pool
from gfs.core.ports import QuotaRow


class UnlimitedQuota:
    """Spot tasks may take whatever is idle."""

    horizons = ()

    def limit(self, guarantee_hours: float) -> float:
        """No limit but what is idle."""
        return inf

    def tick(self, now: float) -> None:
        """Nothing changes."""

    def rows(self) -> Sequence[QuotaRow]:
        """Nothing is limited, so there is nothing to show."""
        return ()

    def why(self, guarantee_hours: float) -> str:
        """There is nothing to explain."""
        return ""


class FixedQuota:
    """Spot tasks may hold `share` of the pool's GPUs together, whatever their guarantee."""

    def __init__(
        self, pool: Pool, share: float, guarantees: Sequence[float] = (1.0,), memory: list[float] | None = None
    ) -> None:
        """`memory`: the limit of the last tick, if there was one: between ticks it stays, whatever nodes do."""
        self._pool = pool
        self._share = share
        self.horizons = tuple(sorted(guarantees))
        self._memory = [] if memory is None else memory
        self._capacity = -1
        """GPUs of the pool at the last tick."""
        if not self._memory:
            self.tick(0.0)

    def limit(self, guarantee_hours: float) -> float:
        """The share of the pool, in GPUs."""
        return self._memory[0]

    def tick(self, now: float) -> None:
        """The share of the nodes that there are now."""
        if self._pool.capacity != self._capacity:
            self._capacity = self._pool.capacity
            # To a millionth of a GPU: 0.29 x 100 is 29 GPUs, not 28.999999999999996.
            self._memory[:] = [round(self._share * self._capacity, 6)]

    def rows(self) -> Sequence[QuotaRow]:
        """The same numbers for all guarantees."""
        limit = self._memory[0]
        return [QuotaRow(hours, limit, 1.0, limit) for hours in self.horizons]

    def why(self, guarantee_hours: float) -> str:
        """There is nothing to explain: an operator has set it."""
        return ""
