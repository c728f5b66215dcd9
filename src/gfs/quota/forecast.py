"""The spot quota allocator: what the forecast leaves of the pool, corrected by what really happened.

    inventory  f(p, H) = C - min(C, bound on HP demand over the next H hours)
    quota      Q_H = min(f * eta, S0 + Sa)

for every guarantee H, S0 being the idle cards and Sa those held by spot tasks with a guarantee of at least H.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Protocol

from gfs.core.pool import Pool
from gfs.core.ports import QuotaRow
from gfs.domain.units import HOUR, format_clock, format_gpus
from gfs.quota.allotments import Allotment, Allotments, leader
from gfs.quota.feedback import Feedback
from gfs.quota.inventory import Aggregate, Outlook


class Demand(Protocol):
    """Looks ahead."""

    def look(self, now: float) -> Outlook:
        """HP demand of the pool from now on, by what is known now."""
        ...

    def trained(self, model: Any, asked_at: float) -> None:
        """A fit that was asked for is done."""
        ...


@dataclass(slots=True)
class QuotaMemory:
    """What a quota remembers of its last tick."""

    allotted: dict[float, Allotment] = field(default_factory=dict)
    outlook: Outlook | None = None
    now: float = 0.0
    levels: dict[float, float] = field(default_factory=dict)
    """Guarantee hours -> what feedback has made of eta or of the level."""


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
        memory: QuotaMemory | None = None,
    ) -> None:
        self._demand = demand
        self._feedback = feedback
        self._aggregate = aggregate
        self._memory = memory or QuotaMemory()
        self._allotments = Allotments(pool, guarantees, self._memory.allotted)
        self._words: dict[float, str] = {}
        self.limit = self._allotments.limit
        """Q_H of the last tick, 0 before the first one. Other guarantees count as the next longer one."""

    def tick(self, now: float) -> None:
        """Look ahead and back, and set the quota of every guarantee."""
        outlook = self._demand.look(now)
        bounds = self._aggregate(outlook)
        for hours in self._allotments.guarantees:
            eta, rate, wait = self._feedback.look(hours, now)
            self._allotments.allot(
                hours, bounds[ceil(hours) - 1], share=eta, eta=eta, eviction_rate=rate, longest_wait=wait
            )
        self._memory.outlook, self._memory.now = outlook, now
        self._words.clear()

    def trained(self, model: Any, asked_at: float) -> None:
        """The fit that was asked for at `asked_at` is done."""
        self._demand.trained(model, asked_at)

    def rows(self) -> Sequence[QuotaRow]:
        """The quotas of the last tick and all that led to them."""
        return self._allotments.rows(self._memory.outlook)

    def why(self, guarantee_hours: float) -> str:
        """Such as 'forecast peak 2,104 at 14:00 (org 57: 1,310), eta 0.82 after 14% evictions'."""
        words = self._words.get(guarantee_hours)
        if words is None:
            words = self._words[guarantee_hours] = self._explained(self._allotments.known(guarantee_hours))
        return words

    def _explained(self, hours: float) -> str:
        allotment = self._allotments.of(hours)
        memory = self._memory
        if allotment is None or memory.outlook is None:
            return "no forecast yet"
        organization, peak, hour = leader(memory.outlook, ceil(hours))
        words = f"forecast peak {allotment.demand:,.0f}"
        if hour:
            words += f" at {format_clock(memory.now + (hour - 1) * HOUR)} ({organization}: {peak:,.0f})"
        words += f", eta {allotment.eta:.2f}"
        if allotment.eviction_rate:
            words += f" after {allotment.eviction_rate:.0%} evictions"
        if allotment.quota < allotment.inventory * allotment.eta:
            words += f", {format_gpus(allotment.quota)} cards not held by HP"
        return words
