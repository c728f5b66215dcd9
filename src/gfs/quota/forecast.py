"""The spot quota allocator: what the forecast leaves of the pool, corrected by what really happened (SPEC 4).

    inventory  f(p, H) = C - min(C, bound on HP demand over the next H hours)
    quota      Q_H = min(f * eta, S0 + Sa)

for every guarantee H, S0 being the idle cards and Sa those held by spot tasks with a guarantee of at least H.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple, Protocol

from gfs.core.pool import Pool
from gfs.core.ports import QuotaRow
from gfs.domain.units import HOUR, MICRO, format_clock, format_gpus
from gfs.quota.feedback import Feedback, Signal
from gfs.quota.inventory import Aggregate, Outlook


class Demand(Protocol):
    """Looks ahead."""

    def look(self, now: float) -> Outlook:
        """HP demand of the pool from now on, by what is known now."""
        ...


class _Allotment(NamedTuple):
    """The quota of one guarantee at the last tick."""

    quota: float
    inventory: float
    demand: float
    signal: Signal


class ForecastQuota:
    """Spot tasks get what HP demand will most likely not need while their guarantees last."""

    def __init__(
        self,
        pool: Pool,
        demand: Demand,
        feedback: Feedback,
        *,
        aggregate: Aggregate,
        guarantees: Sequence[float],
    ) -> None:
        self._pool = pool
        self._demand = demand
        self._feedback = feedback
        self._aggregate = aggregate
        self._guarantees = tuple(sorted(guarantees))
        self._limits: dict[float, float] = {}
        self._allotments: dict[float, _Allotment] = {}
        self._outlook: Outlook | None = None
        self._now = 0.0
        self._words: dict[float, str] = {}

    def limit(self, guarantee_hours: float) -> float:
        """Q_H of the last tick, 0 before the first one. Other guarantees count as the next longer one."""
        limit = self._limits.get(guarantee_hours)
        if limit is not None:
            return limit
        known = self._known(guarantee_hours)
        return self._limits.get(known, 0.0)

    def tick(self, now: float) -> None:
        """Look ahead and back, and set the quota of every guarantee."""
        outlook = self._demand.look(now)
        bounds = self._aggregate(outlook)
        capacity, idle = self._pool.capacity, self._pool.idle
        for hours in self._guarantees:
            demand = bounds[ceil(hours) - 1]
            inventory = capacity - min(capacity, demand)
            signal = self._feedback.look(hours, now)
            quota = min(inventory * signal.eta, idle + self._pool.spot_held(hours) / MICRO)
            self._allotments[hours] = _Allotment(quota, inventory, demand, signal)
            self._limits[hours] = quota
        self._outlook, self._now = outlook, now
        self._words.clear()

    def rows(self) -> Sequence[QuotaRow]:
        """The quotas of the last tick and all that led to them."""
        if self._outlook is None:
            return ()
        rows = []
        for hours, (quota, inventory, demand, signal) in self._allotments.items():
            organization, peak, hour = leader(self._outlook, ceil(hours))
            rows.append(
                QuotaRow(
                    hours,
                    inventory,
                    signal.eta,
                    quota,
                    demand,
                    signal.eviction_rate,
                    signal.longest_wait,
                    self._outlook.forecaster,
                    organization,
                    peak,
                    hour,
                )
            )
        return rows

    def why(self, guarantee_hours: float) -> str:
        """Such as 'forecast peak 2,104 at 14:00 (org 57: 1,310), eta 0.82 after 14% evictions'."""
        words = self._words.get(guarantee_hours)
        if words is None:
            words = self._words[guarantee_hours] = self._explained(self._known(guarantee_hours))
        return words

    def _explained(self, hours: float) -> str:
        if self._outlook is None:
            return "no forecast yet"
        allotment = self._allotments[hours]
        organization, peak, hour = leader(self._outlook, ceil(hours))
        words = f"forecast peak {allotment.demand:,.0f}"
        if hour:
            words += f" at {format_clock(self._now + (hour - 1) * HOUR)} ({organization}: {peak:,.0f})"
        signal = allotment.signal
        words += f", eta {signal.eta:.2f}"
        if signal.eviction_rate:
            words += f" after {signal.eviction_rate:.0%} evictions"
        if allotment.quota < allotment.inventory * signal.eta:
            words += f", {format_gpus(allotment.quota)} cards not held by HP"
        return words

    def _known(self, guarantee_hours: float) -> float:
        """The shortest guarantee that there is a quota for and that lasts as long, or the longest one."""
        return next((hours for hours in self._guarantees if hours >= guarantee_hours), self._guarantees[-1])


def leader(outlook: Outlook, hours: int) -> tuple[str, float, int]:
    """Whose bound is highest within so many hours, that bound, and the hour when all together are highest."""
    upper = outlook.upper[:, :hours]
    if not upper.size:
        return "", 0.0, 0
    peaks = upper.max(axis=1)
    first = int(peaks.argmax())
    return outlook.organizations[first], float(peaks[first]), int(upper.sum(axis=0).argmax()) + 1
