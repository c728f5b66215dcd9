"""Feedback: evictions and waits correct the quota by the safety coefficient eta (docs/concepts/spot-quota.md).

With e = evicted runs / (evicted runs + completed guarantee periods) and l = the longest wait of a spot task, both
over the last H hours, and the target eviction rate 1 - p:

    e > 1.5 (1 - p)                  eta *= (1 - p) / e
    e < 0.5 (1 - p) and l > theta    eta *= 1.5 - e / (1 - p)
    else                             eta stays
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from gfs.core.ledger import GuaranteeLedger
from gfs.domain.units import HOUR
from gfs.quota.waits import SpotWaits


class Rule(NamedTuple):
    """The numbers of the rule."""

    target: float
    """1 - p: the share of guarantee periods that may be broken."""
    theta: float = 3600.0
    """Seconds of waiting that make the quota grow while few are evicted."""
    least: float = 0.1
    most: float = 4.0
    """Bounds of eta: without them it explodes, by up to half every five minutes."""

    def next(self, eta: float, eviction_rate: float, longest_wait: float) -> float:
        """Eta after this eviction rate and this longest wait."""
        target = self.target
        if eviction_rate > 1.5 * target:
            eta *= target / eviction_rate
        elif eviction_rate < 0.5 * target and longest_wait > self.theta:
            eta *= 1.5 - eviction_rate / target
        return min(max(eta, self.least), self.most)


class Signal(NamedTuple):
    """What happened in the last H hours, and what follows from it."""

    eta: float
    eviction_rate: float
    longest_wait: float


class Feedback(Protocol):
    """Sets eta."""

    def update(self, guarantee_hours: float, now: float) -> Signal:
        """Take in what happened until `now`; once every tick for each guarantee."""
        ...


class EvictionFeedback:
    """The paper's rule, for every guarantee by itself: its tasks and those with a longer one."""

    def __init__(
        self, rates: EvictionRates, waits: SpotWaits, rule: Rule, eta: dict[float, float] | None = None
    ) -> None:
        """`eta`: by guarantee, as far as feedback has moved it."""
        self._rates = rates
        self._waits = waits
        self._rule = rule
        self._eta = {} if eta is None else eta

    def update(self, guarantee_hours: float, now: float) -> Signal:
        """The rates of the last H hours and the eta that follows."""
        rate = self._rates.rate(guarantee_hours, now)
        wait = self._waits.longest(guarantee_hours, now)
        eta = self._rule.next(self._eta.get(guarantee_hours, 1.0), rate, wait)
        self._eta[guarantee_hours] = eta
        return Signal(eta, rate, wait)


class NoFeedback:
    """Eta stays 1; the rates are recorded all the same."""

    def __init__(self, rates: EvictionRates, waits: SpotWaits) -> None:
        self._rates = rates
        self._waits = waits

    def update(self, guarantee_hours: float, now: float) -> Signal:
        """The rates of the last H hours beside an eta of 1."""
        return Signal(1.0, self._rates.rate(guarantee_hours, now), self._waits.longest(guarantee_hours, now))


class EvictionRates:
    """Eviction rates over the last H hours, from the ledger's counts at earlier ticks."""

    def __init__(self, ledger: GuaranteeLedger) -> None:
        self._ledger = ledger
        self._counts: dict[float, deque[tuple[float, int, int]]] = {}
        """Guarantee hours -> (time, evicted, completed), from the last one before the H hours on."""

    def rate(self, guarantee_hours: float, now: float, back: float | None = None) -> float:
        """Evicted / (evicted + completed) in the last `back` seconds, or H hours; 0 without either."""
        seconds = guarantee_hours * HOUR if back is None else back
        evicted, completed = self._ledger.counts(guarantee_hours * HOUR, now)
        counts = self._counts.setdefault(guarantee_hours, deque(((float("-inf"), 0, 0),)))
        counts.append((now, evicted, completed))
        while counts[1][0] <= now - seconds:
            counts.popleft()
        _, evicted_before, completed_before = counts[0]
        evicted -= evicted_before
        periods = evicted + completed - completed_before
        return evicted / periods if periods else 0.0
