"""The quota of `gfs-plus`: as much spot work as the guarantee allows (docs/concepts/spot-quota.md#the-adaptive-quota).

Feedback moves the *level* of the bound on demand, so that the share of broken guarantees approaches 1 - p. It rises
while tasks are evicted and more than 1 - p of the guarantee periods of the last week were broken; it falls while
someone waits and either fewer were broken or nobody was evicted in the last H hours:

    level += gain * (e - (1 - p))      0 <= level <= the highest; e = 0 if nobody was evicted in the last H hours
    inventory = C - min(C, bound on the peak of the pool's total demand over H hours at this level)
    quota = min(inventory, S0 + Sa)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from gfs.core.pool import Pool
from gfs.domain.units import DAY, format_clock
from gfs.quota.feedback import BrokenRates
from gfs.quota.table import DemandForecaster, QuotaMemory, QuotaTable
from gfs.quota.waits import SpotWaits

WINDOW = 7 * DAY
"""How far back broken guarantees count. One bad day is no reason to leave GPUs idle on the next."""
GAIN = 0.2
"""At no evictions and p = 0.9 the level falls from p to 0 in 45 ticks, less than four hours."""
HIGHEST = 0.995
LOWEST = 0.05
"""A lower level reserves nothing, and needs no forecast."""


class AdaptiveQuota(QuotaTable):
    """Spot tasks get what keeps the share of broken guarantees at 1 - p."""

    def __init__(
        self,
        pool: Pool,
        forecaster: DemandForecaster,
        rates: tuple[BrokenRates, BrokenRates],
        waits: SpotWaits,
        *,
        p: float,
        guarantees: Sequence[float],
        memory: QuotaMemory | None = None,
    ) -> None:
        """`rates`: over the last week, and over the last H hours."""
        super().__init__(pool, forecaster, guarantees, memory)
        self._weekly_rates, self._recent_rates = rates
        self._waits = waits
        self._p = p
        self._levels = self._memory.levels = {hours: self._memory.levels.get(hours, p) for hours in guarantees}

    def tick(self, now: float) -> None:
        """Move the levels, forecast demand if any of them needs it, and set every quota."""
        happened: dict[float, tuple[float, float]] = {}
        for hours in self.horizons:
            broken, wait = self._weekly_rates.rate(hours, now, back=WINDOW), self._waits.longest(hours, now)
            quiet = self._recent_rates.rate(hours, now) == 0
            self._levels[hours] = self._moved(self._levels[hours], 0.0 if quiet else broken, wait)
            happened[hours] = broken, wait
        forecast = self._forecaster.forecast(now) if max(self._levels.values()) >= LOWEST else None
        for hours, (broken, wait) in happened.items():
            level = self._levels[hours]
            demand = forecast.total_peak(ceil(hours), level) if forecast and level >= LOWEST else 0.0
            self._set(hours, demand, share=1.0, eta=level, evicted=broken, waited=wait)
        self._memory.forecast, self._memory.now = forecast, now

    def _moved(self, level: float, broken: float, wait: float) -> float:
        """The level after this share of broken guarantees and this longest wait."""
        excess = broken - (1 - self._p)
        if excess > 0 or wait > 0:
            level += GAIN * excess
        return min(max(level, 0.0), HIGHEST)

    def why(self, guarantee_hours: float) -> str:
        """Such as 'forecast peak 2,104 from 14:00 at level 0.85, 12% of guarantees broken in a week'."""
        row = self.row(guarantee_hours)
        if row is None:
            return "no forecast yet"
        broken = f"{row.eviction_rate:.0%} of guarantees broken in a week"
        if not row.demand:
            return f"nothing is reserved, {broken}"
        peak = f"forecast peak {row.demand:,.0f} from {format_clock(self._memory.now)}"
        return f"{peak} at level {row.eta:.2f}, {broken}"
