"""The spot quota allocator: what the forecast leaves of the pool, corrected by what really happened.

    inventory  f(p, H) = C - min(C, bound on HP demand over the next H hours)
    quota      Q_H = min(f * eta, S0 + Sa)

for every guarantee H; S0: idle GPUs, Sa: GPUs held by spot tasks with a guarantee of at least H.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from gfs.core.pool import Pool
from gfs.core.ports import QuotaRow
from gfs.domain.units import HOUR, MICRO, format_clock, format_gpus
from gfs.quota.feedback import Feedback
from gfs.quota.inventory import Aggregate, DemandForecast, LaterForecast
from gfs.quota.table import DemandForecaster, QuotaMemory, QuotaTable, highest_bound


class ForecastQuota(QuotaTable):
    """Spot tasks get what HP demand will most likely not need while their guarantees last."""

    def __init__(
        self,
        pool: Pool,
        forecaster: DemandForecaster,
        feedback: Feedback,
        *,
        aggregate: Aggregate,
        guarantees: Sequence[float],
        memory: QuotaMemory | None = None,
    ) -> None:
        super().__init__(pool, forecaster, guarantees, memory)
        self._feedback = feedback
        self._aggregate = aggregate
        self._explanations: dict[float, str] = {}
        self._bounds: tuple[DemandForecast, list[float]] | None = None
        """Those of the last forecast, which may serve for an hour."""

    def tick(self, now: float) -> None:
        """Take in what happened. Demand is forecast, and quotas are set by it, when somebody asks for one."""
        forecast, capacity, idle = self._forecaster.prepare(now), self._pool.capacity, self._pool.idle
        known = [
            (hours, self._feedback.update(hours, now), idle + self._pool.spot_held(hours) / MICRO)
            for hours in self.horizons
        ]
        memory = self._memory

        def settle() -> None:
            made = memory.forecast = forecast()
            bounds = self._bounds_of(made)
            for hours, (eta, evicted, waited), most in known:
                demand = bounds[ceil(hours) - 1]
                inventory = capacity - min(capacity, demand)
                quota = min(inventory * eta, most)
                memory.rows[hours] = QuotaRow(hours, inventory, eta, quota, demand, evicted, waited)

        memory.pending, memory.now = settle, now
        self._explanations.clear()

    def _bounds_of(self, forecast: DemandForecast) -> list[float]:
        """What demand stays at or below over 1, 2, ... hours."""
        if self._bounds is None or self._bounds[0] is not forecast:
            self._bounds = forecast, self._aggregate(forecast)
        return self._bounds[1]

    def _room(self, after: int, hours: float) -> float:
        memory = self._memory
        assert memory.forecast is not None
        bounds = self._aggregate(LaterForecast.of(memory.forecast, after))
        return self._left(bounds[ceil(hours) - 1]) * self._rows[hours].eta

    def why(self, guarantee_hours: float) -> str:
        """Such as 'forecast peak 2,104 at 14:00 (org 57: 1,310), eta 0.82 after 14% evictions'."""
        explanation = self._explanations.get(guarantee_hours)
        if explanation is None:
            explanation = self._explanations[guarantee_hours] = self._explained(self.horizon(guarantee_hours))
        return explanation

    def _explained(self, hours: float) -> str:
        row, memory = self.row(hours), self._memory
        if row is None or memory.forecast is None:
            return "no forecast yet"
        organization, peak, hour = highest_bound(memory.forecast, ceil(hours))
        text = f"forecast peak {row.demand:,.0f}"
        if hour:
            text += f" at {format_clock(memory.now + (hour - 1) * HOUR)} ({organization}: {peak:,.0f})"
        text += f", eta {row.eta:.2f}"
        if row.eviction_rate:
            text += f" after {row.eviction_rate:.0%} evictions"
        if row.quota < row.inventory * row.eta:
            text += f", {format_gpus(row.quota)} GPUs not held by HP"
        return text
