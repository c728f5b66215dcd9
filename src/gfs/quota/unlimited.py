"""No quota: spot tasks may take whatever is idle."""

from __future__ import annotations

from collections.abc import Sequence

from gfs.core.pool import Pool
from gfs.core.ports import QuotaRow


class UnlimitedQuota:
    """Every card of the pool."""

    def __init__(self, pool: Pool) -> None:
        self._capacity = float(pool.capacity)

    def limit(self, guarantee_hours: float) -> float:
        """The whole pool."""
        return self._capacity

    def tick(self, now: float) -> None:
        """Nothing to reconsider."""

    def rows(self) -> Sequence[QuotaRow]:
        """Nothing is limited, so there is nothing to show."""
        return ()
