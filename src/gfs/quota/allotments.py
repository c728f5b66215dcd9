"""The quotas of the last tick, one for each guarantee, and the numbers that led to them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from gfs.core.pool import Pool
from gfs.core.ports import QuotaRow
from gfs.domain.units import MICRO
from gfs.quota.inventory import Outlook


class Allotment(NamedTuple):
    """The quota of one guarantee."""

    quota: float
    inventory: float
    demand: float
    """The bound on HP demand that the inventory is what it leaves of the pool."""
    eta: float
    """What feedback has set."""
    eviction_rate: float
    longest_wait: float


class Allotments:
    """Q_H = min(f * share, S0 + Sa) for every guarantee H, f being what a bound on demand leaves of the pool."""

    def __init__(self, pool: Pool, guarantees: Sequence[float], memory: dict[float, Allotment] | None = None) -> None:
        """`memory`: the quotas of the last tick, if there was one."""
        self._pool = pool
        self.guarantees = tuple(sorted(guarantees))
        self._of = {} if memory is None else memory
        for hours in self._of.keys() - set(guarantees):  # no longer on offer
            del self._of[hours]

    def allot(
        self, hours: float, demand: float, *, share: float, eta: float, eviction_rate: float, longest_wait: float
    ) -> None:
        """Set the quota of a guarantee: a share of what this demand leaves."""
        capacity = self._pool.capacity
        inventory = capacity - min(capacity, demand)
        quota = min(inventory * share, self._pool.idle + self._pool.spot_held(hours) / MICRO)
        self._of[hours] = Allotment(quota, inventory, demand, eta, eviction_rate, longest_wait)

    def limit(self, guarantee_hours: float) -> float:
        """Q_H of the last tick, 0 before the first one."""
        allotment = self.of(guarantee_hours)
        return allotment.quota if allotment is not None else 0.0

    def of(self, guarantee_hours: float) -> Allotment | None:
        """That of the last tick. Guarantees that nothing is allotted for count as the next longer one."""
        return self._of.get(guarantee_hours) or self._of.get(self.known(guarantee_hours))

    def known(self, guarantee_hours: float) -> float:
        """The shortest guarantee that there is a quota for and that lasts as long, or the longest one."""
        return next((hours for hours in self.guarantees if hours >= guarantee_hours), self.guarantees[-1])

    def rows(self, outlook: Outlook | None) -> list[QuotaRow]:
        """All of them, with what is seen in the outlook they were made from; None: nobody looked ahead."""
        return [
            QuotaRow(
                hours,
                allotment.inventory,
                allotment.eta,
                allotment.quota,
                allotment.demand,
                allotment.eviction_rate,
                allotment.longest_wait,
                *(_seen(outlook, ceil(hours)) if outlook is not None else ()),
            )
            for hours, allotment in self._of.items()
        ]


def _seen(outlook: Outlook, hours: int) -> tuple[str, str, float, int, float]:
    """Who looked ahead, whose bound is highest, and what is expected."""
    together = outlook.mean[:, :hours].sum(axis=0)
    return outlook.forecaster, *leader(outlook, hours), float(together.max(initial=0.0))


def leader(outlook: Outlook, hours: int) -> tuple[str, float, int]:
    """Whose bound is highest within so many hours, that bound, and the hour when all together are highest."""
    upper = outlook.upper[:, :hours]
    if not upper.size:
        return "", 0.0, 0
    peaks = upper.max(axis=1)
    first = int(peaks.argmax())
    return outlook.organizations[first], float(peaks[first]), int(upper.sum(axis=0).argmax()) + 1
