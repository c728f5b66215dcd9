"""The quota of `gfs-plus`: as much spot work as the promise allows, found by what really happened.

The paper's rule keeps back a bound on demand that holds with probability p. How many guarantees that breaks is
another matter: a peak above the bound evicts some spot tasks, not all, and where demand jumps the bound leaves
nothing although hardly anyone would be evicted. Here feedback moves the *level* of the bound. It rises while
more than 1 - p of the guarantee periods of the last day were broken, and falls while fewer were and someone waits.
So the share that is broken comes to be what was promised, and no more cards are kept back than that takes:

    level += gain * (e - (1 - p))      0 <= level <= the highest
    inventory = C - min(C, bound on the peak of the pool's total demand over H hours at this level)
    quota = min(inventory, S0 + Sa)

At level 0 nothing is kept back.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from gfs.core.pool import Pool
from gfs.core.ports import QuotaRow
from gfs.domain.units import DAY, MICRO, format_clock
from gfs.quota.feedback import EvictionRates
from gfs.quota.forecast import Demand, leader
from gfs.quota.inventory import Outlook
from gfs.quota.waits import SpotWaits

GAIN = 0.2
"""At no evictions and p = 0.9 the level falls from p to 0 in 45 ticks, less than four hours."""
HIGHEST = 0.995
LOWEST = 0.05
"""A lower level keeps nothing back."""


class _Allotment(NamedTuple):
    quota: float
    inventory: float
    demand: float
    level: float
    eviction_rate: float
    longest_wait: float


class AdaptiveQuota:
    """Spot tasks get what keeps the share of broken guarantees at what was promised."""

    def __init__(
        self,
        pool: Pool,
        demand: Demand,
        rates: EvictionRates,
        waits: SpotWaits,
        *,
        p: float,
        guarantees: Sequence[float],
    ) -> None:
        self._pool = pool
        self._demand = demand
        self._rates = rates
        self._waits = waits
        self._p = p
        self._guarantees = tuple(sorted(guarantees))
        self._levels = dict.fromkeys(self._guarantees, p)
        self._limits: dict[float, float] = {}
        self._allotments: dict[float, _Allotment] = {}
        self._outlook: Outlook | None = None
        self._now = 0.0

    def limit(self, guarantee_hours: float) -> float:
        """Q_H of the last tick, 0 before the first one. Other guarantees count as the next longer one."""
        limit = self._limits.get(guarantee_hours)
        if limit is not None:
            return limit
        return self._limits.get(self._known(guarantee_hours), 0.0)

    def tick(self, now: float) -> None:
        """Look ahead and back, move the levels, and set the quota of every guarantee."""
        outlook = self._demand.look(now)
        capacity, idle = self._pool.capacity, self._pool.idle
        for hours in self._guarantees:
            broken = self._rates.rate(hours, now, back=DAY)
            wait = self._waits.longest(hours, now)
            level = self._levels[hours] = self._moved(self._levels[hours], broken, wait)
            demand = outlook.total_peak(ceil(hours), level) if level >= LOWEST else 0.0
            inventory = capacity - min(capacity, demand)
            quota = min(inventory, idle + self._pool.spot_held(hours) / MICRO)
            self._allotments[hours] = _Allotment(quota, inventory, demand, level, broken, wait)
            self._limits[hours] = quota
        self._outlook, self._now = outlook, now

    def _moved(self, level: float, broken: float, wait: float) -> float:
        """The level after a look at what happened."""
        excess = broken - (1 - self._p)
        if excess > 0 or wait > 0:
            level += GAIN * excess
        return min(max(level, 0.0), HIGHEST)

    def rows(self) -> Sequence[QuotaRow]:
        """The quotas of the last tick and what led to them; the level stands in place of eta."""
        if self._outlook is None:
            return ()
        rows = []
        for hours, (quota, inventory, demand, level, broken, wait) in self._allotments.items():
            organization, peak, hour = leader(self._outlook, ceil(hours))
            forecaster = self._outlook.forecaster
            numbers = (hours, inventory, level, quota, demand, broken, wait)
            rows.append(QuotaRow(*numbers, forecaster, organization, peak, hour))
        return rows

    def why(self, guarantee_hours: float) -> str:
        """Such as 'forecast peak 2,104 from 14:00 at level 0.85, 12% of guarantees broken in a day'."""
        allotment = self._allotments.get(self._known(guarantee_hours))
        if allotment is None:
            return "no forecast yet"
        broken = f"{allotment.eviction_rate:.0%} of guarantees broken in a day"
        if not allotment.demand:
            return f"nothing is kept back, {broken}"
        words = f"forecast peak {allotment.demand:,.0f} from {format_clock(self._now)}"
        return f"{words} at level {allotment.level:.2f}, {broken}"

    def _known(self, guarantee_hours: float) -> float:
        """The shortest guarantee that there is a quota for and that lasts as long, or the longest one."""
        return next((hours for hours in self._guarantees if hours >= guarantee_hours), self._guarantees[-1])
