"""The quota of `gfs-plus`: as much spot work as the promise allows (docs/concepts/spot-quota.md#the-adaptive-quota).

Spot tasks may take what is idle but for a *reserve* of cards, which HP tasks start on without evicting anybody. It
holds at every start, not only at ticks. Feedback moves its share of the pool, by days, until the share b of guarantees
that were broken in the last 5 days lies between half of 1 - p and all of it. With aim = 0.7 (1 - p), and a step that in
5 days adds up to the share, or to 3% of the pool where that is more:

    b > aim                               share += step * min(b / aim - 1, 1)
    b < aim and a spot task waits         share -= step * (1 - b / aim)
    else, where it is below 3%            share += step
    quota = S0 + Sa - floor(share * C)

So 3% are kept whatever is promised while no spot task waits: they cost next to nothing then, and HP finds GPUs at
once. Where spot tasks wait, p alone decides (docs/decisions/0049).

It begins with 3% of the pool at p = 0.9, and with more the more is promised, as the power 5/8 of 0.1 / (1 - p). A
strict promise is broken in the days that a reserve takes to grow.

The demand that is forecast for the coming hours does not count: with a reserve it gains nothing (docs/decisions/0043).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

from gfs.core.pool import Pool
from gfs.core.ports import Quota, QuotaRow
from gfs.domain.units import DAY, HOUR, MICRO
from gfs.quota.feedback import BrokenRates
from gfs.quota.waits import SpotWaits

PERIOD = 5 * DAY
"""Broken guarantees of so long count, and the share moves by itself in so long at most: faster it overshoots."""
AIM = 0.7
"""Of 1 - p: what is broken should come to lie between half and all of it. Below the middle: it comes in bursts."""
CALM, MOST = 0.03, 0.32
"""Shares of the pool: what is kept while no spot task waits, and the upper bound."""


def first_share(p: float) -> float:
    """What is kept idle while nothing is known: 3% of the pool at p = 0.9, 6.4% at 0.97, 12.6% at 0.99.

    By square roots: a power may differ in its last bit between machines.
    """
    root = sqrt(0.1 / (1 - p))
    return min(CALM * root * sqrt(sqrt(root)), MOST)


@dataclass(slots=True)
class ReserveMemory:
    """What the quota remembers of its last tick."""

    shares: dict[float, float] = field(default_factory=dict)
    """Guarantee hours -> share of the pool that is kept idle."""
    rows: dict[float, QuotaRow] = field(default_factory=dict)
    now: float = 0.0

    @property
    def caution(self) -> float:
        """From 1, while at least what is kept in calm times is, to 0: nothing is. Of the shortest guarantee."""
        return min(self.shares[min(self.shares)] / CALM, 1.0)


class AdaptiveQuota(Quota):
    """Spot tasks get all but a reserve that keeps the share of broken guarantees a little below 1 - p."""

    def __init__(
        self,
        pool: Pool,
        rates: BrokenRates,
        waits: SpotWaits,
        *,
        p: float,
        guarantees: Sequence[float],
        memory: ReserveMemory | None = None,
    ) -> None:
        self._pool = pool
        self._rates = rates
        self._waits = waits
        self._aim = AIM * (1 - p)
        self.horizons = tuple(sorted(guarantees))
        self._memory = memory = memory or ReserveMemory()
        first = first_share(p)
        memory.shares = {hours: memory.shares.get(hours, first) for hours in self.horizons}
        memory.rows = {hours: row for hours, row in memory.rows.items() if hours in memory.shares}

    def tick(self, now: float) -> None:
        """Move the reserves."""
        memory = self._memory
        seconds = min(max(now - memory.now, 0.0), HOUR)
        capacity = self._pool.capacity
        for hours in self.horizons:
            broken, wait = self._rates.rate(hours, now, back=PERIOD), self._waits.longest(hours, now)
            share = memory.shares[hours] = self._moved(memory.shares[hours], broken, wait, seconds)
            left = self._left(hours)
            memory.rows[hours] = QuotaRow(hours, left, share, left, capacity - left, broken, wait)
        memory.now = now

    def _moved(self, share: float, broken: float, wait: float, seconds: float) -> float:
        """The share after so many seconds with this part of the guarantees broken and this longest wait."""
        off = broken / self._aim - 1
        step = seconds / PERIOD * max(share, CALM)
        if off > 0:
            share += step * min(off, 1.0)
        elif wait > 0:
            share += step * off
        elif share < CALM:
            share = min(share + step, CALM)
        return min(max(share, 0.0), MOST)

    def limit(self, guarantee_hours: float) -> float:
        """What spot tasks with at least this guarantee hold, and what is idle now beyond the reserve."""
        held = self._pool.spot_held(guarantee_hours) / MICRO
        return max(self._pool.idle + held - self._reserve(guarantee_hours), 0.0)

    def _left(self, hours: float) -> float:
        """What HP and the reserve leave to all spot tasks: their starts do not change it."""
        return max(self._pool.idle + self._pool.spot_held(0) / MICRO - self._reserve(hours), 0.0)

    def _reserve(self, guarantee_hours: float) -> int:
        """Whole cards: a pool of few has none, or its largest gang could never start."""
        return int(self._memory.shares[self._horizon(guarantee_hours)] * self._pool.capacity)

    def _horizon(self, guarantee_hours: float) -> float:
        """The guarantee on offer that this one counts as: the next longer one, or the longest."""
        return next((hours for hours in self.horizons if hours >= guarantee_hours), self.horizons[-1])

    def rows(self) -> Sequence[QuotaRow]:
        """The quotas as they are now, and what led to them at the last tick."""
        return [row._replace(quota=self._left(hours)) for hours, row in self._memory.rows.items()]

    def why(self, guarantee_hours: float) -> str:
        """Such as '92 GPUs are kept for HP, 6% of guarantees broken in 5 days'."""
        row = self._memory.rows.get(self._horizon(guarantee_hours))
        broken = f", {row.eviction_rate:.0%} of guarantees broken in 5 days" if row is not None else ""
        return f"{self._reserve(guarantee_hours):,} GPUs are kept for HP{broken}"
