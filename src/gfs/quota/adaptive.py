"""The quota of `gfs-plus`: as much spot work as the promise allows (docs/concepts/spot-quota.md#the-adaptive-quota).

What is kept back for HP is the expected total demand and a *margin* of standard deviations, which may be negative.
Feedback moves the margin so slowly that it stays nearly the same all day, until the share b of guarantee periods that
were broken in the last week lies between half of 1 - p and all of it:

    b > aim                     margin += 3/2 a day * min(b / aim - 1, 1)          aim = 3/4 (1 - p)
    b < aim and someone waits   margin -= 1/2 a day * (1 - b / aim)
    inventory = C - min(C, peak over H hours of the mean total + margin * its standard deviation)
    quota = min(inventory, S0 + Sa)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from scipy.special import ndtr, ndtri

from gfs.core.pool import Pool
from gfs.domain.units import DAY, HOUR, format_clock
from gfs.quota.feedback import BrokenRates
from gfs.quota.inventory import DemandForecast, total_bounds
from gfs.quota.table import DemandForecaster, QuotaMemory, QuotaTable
from gfs.quota.waits import SpotWaits

WINDOW = 7 * DAY
"""How far back broken guarantees count. One bad day is no reason to leave GPUs idle on the next."""
AIM = 0.75
"""Of 1 - p: what is broken should come to lie in the middle between half and all of it."""
RISE, FALL = 1.5, 0.5
"""Standard deviations a day, at most. A margin that swings within a day costs evictions by day and waits by night."""
WIDEST = 3.0
"""The margin lies between this many standard deviations below and above. Far below, nothing is kept back."""
SPREAD_P = 0.9
"""The probability of the bounds that the standard deviation of demand is read from."""


class AdaptiveQuota(QuotaTable):
    """Spot tasks get what keeps the share of broken guarantees a little below 1 - p."""

    def __init__(
        self,
        pool: Pool,
        forecaster: DemandForecaster,
        rates: BrokenRates,
        waits: SpotWaits,
        *,
        p: float,
        guarantees: Sequence[float],
        memory: QuotaMemory | None = None,
    ) -> None:
        """The forecaster's bounds are at `SPREAD_P`; `p` is what is promised."""
        super().__init__(pool, forecaster, guarantees, memory)
        self._rates = rates
        self._waits = waits
        self._aim = AIM * (1 - p)
        self._margins = self._memory.margins = {hours: self._memory.margins.get(hours, 0.0) for hours in guarantees}

    def tick(self, now: float) -> None:
        """Move the margins, forecast demand, and set every quota."""
        memory = self._memory
        days = min(max(now - memory.now, 0.0), HOUR) / DAY
        forecast = self._forecaster.forecast(now)
        for hours in self.horizons:
            broken, wait = self._rates.rate(hours, now, back=WINDOW), self._waits.longest(hours, now)
            margin = self._margins[hours] = self._moved(self._margins[hours], broken, wait, days)
            demand = self._peak(forecast, margin, 0, hours)
            self._set(hours, demand, share=1.0, eta=float(ndtr(margin)), evicted=broken, waited=wait)
        memory.forecast, memory.now = forecast, now

    def _room(self, after: int, hours: float) -> float:
        forecast = self._memory.forecast
        assert forecast is not None
        return self._left(self._peak(forecast, self._margins[hours], after, hours))

    def _peak(self, forecast: DemandForecast, margin: float, after: int, hours: float) -> float:
        """The expected total and the margin in the highest of so many hours, the first of which begins `after` some."""
        bounds = total_bounds(forecast, margin / float(ndtri(SPREAD_P)))
        return float(bounds[after : after + ceil(hours)].max(initial=0.0))

    def _moved(self, margin: float, broken: float, wait: float, days: float) -> float:
        """The margin after so many days with this share of broken guarantees and this longest wait."""
        off = broken / self._aim - 1
        if off > 0:
            margin += RISE * days * min(off, 1.0)
        elif wait > 0:
            margin += FALL * days * off
        return min(max(margin, -WIDEST), WIDEST)

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
