"""The quota of `gfs-plus`: as much spot work as the promise allows, found by what really happened.

The paper's rule keeps back a bound on demand that holds with probability p. How many guarantees that breaks is
another matter: a peak above the bound evicts some spot tasks, not all, and where demand jumps the bound leaves
nothing although hardly anyone would be evicted. Here feedback moves the *level* of the bound. It rises while
tasks are evicted and more than 1 - p of the guarantee periods of the last week were broken; it falls while someone
waits and either fewer were or nobody was evicted in the last H hours. So the share that is broken comes to be what
was promised, and no more cards are kept back than that takes:

    level += gain * (e - (1 - p))      0 <= level <= the highest; e = 0 if nobody was evicted of late
    inventory = C - min(C, bound on the peak of the pool's total demand over H hours at this level)
    quota = min(inventory, S0 + Sa)

At level 0 nothing is kept back.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from gfs.core.pool import Pool
from gfs.core.ports import QuotaRow
from gfs.domain.units import DAY, format_clock
from gfs.quota.allotments import Allotments
from gfs.quota.feedback import EvictionRates
from gfs.quota.forecast import Demand, QuotaMemory
from gfs.quota.waits import SpotWaits

WINDOW = 7 * DAY
"""How far back broken guarantees count. One bad day is no reason to keep cards idle on the next."""
GAIN = 0.2
"""At no evictions and p = 0.9 the level falls from p to 0 in 45 ticks, less than four hours."""
HIGHEST = 0.995
LOWEST = 0.05
"""A lower level keeps nothing back, and needs no forecast."""


class AdaptiveQuota:
    """Spot tasks get what keeps the share of broken guarantees at what was promised."""

    def __init__(
        self,
        pool: Pool,
        demand: Demand,
        rates: tuple[EvictionRates, EvictionRates],
        waits: SpotWaits,
        *,
        p: float,
        guarantees: Sequence[float],
        memory: QuotaMemory | None = None,
    ) -> None:
        """`rates`: over the last week, and over the last H hours."""
        self._demand = demand
        self._rates, self._lately = rates
        self._waits = waits
        self._p = p
        self._memory = memory or QuotaMemory()
        self._allotments = Allotments(pool, guarantees, self._memory.allotted)
        self._levels = self._memory.levels = {hours: self._memory.levels.get(hours, p) for hours in guarantees}
        self.limit = self._allotments.limit
        """Q_H of the last tick, 0 before the first one. Other guarantees count as the next longer one."""

    def tick(self, now: float) -> None:
        """Look back, move the levels, look ahead if any of them asks for it, and set every quota."""
        happened: dict[float, tuple[float, float]] = {}
        for hours in self._allotments.guarantees:
            broken, wait = self._rates.rate(hours, now, back=WINDOW), self._waits.longest(hours, now)
            quiet = self._lately.rate(hours, now) == 0
            self._levels[hours] = self._moved(self._levels[hours], 0.0 if quiet else broken, wait)
            happened[hours] = broken, wait
        outlook = self._demand.look(now) if max(self._levels.values()) >= LOWEST else None
        for hours, (broken, wait) in happened.items():
            level = self._levels[hours]
            demand = outlook.total_peak(ceil(hours), level) if outlook and level >= LOWEST else 0.0
            self._allotments.allot(hours, demand, share=1.0, eta=level, eviction_rate=broken, longest_wait=wait)
        self._memory.outlook, self._memory.now = outlook, now

    def trained(self, model: Any, asked_at: float) -> None:
        """The fit that was asked for at `asked_at` is done."""
        self._demand.trained(model, asked_at)

    def _moved(self, level: float, broken: float, wait: float) -> float:
        """The level after a look at what happened."""
        excess = broken - (1 - self._p)
        if excess > 0 or wait > 0:
            level += GAIN * excess
        return min(max(level, 0.0), HIGHEST)

    def rows(self) -> Sequence[QuotaRow]:
        """The quotas of the last tick and what led to them; the level stands in place of eta."""
        return self._allotments.rows(self._memory.outlook)

    def why(self, guarantee_hours: float) -> str:
        """Such as 'forecast peak 2,104 from 14:00 at level 0.85, 12% of guarantees broken in a week'."""
        allotment = self._allotments.of(guarantee_hours)
        if allotment is None:
            return "no forecast yet"
        broken = f"{allotment.eviction_rate:.0%} of guarantees broken in a week"
        if not allotment.demand:
            return f"nothing is kept back, {broken}"
        words = f"forecast peak {allotment.demand:,.0f} from {format_clock(self._memory.now)}"
        return f"{words} at level {allotment.eta:.2f}, {broken}"
