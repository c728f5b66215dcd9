"""Feedback: evictions and waits correct the quota by the safety coefficient eta (docs/concepts/spot-quota.md).

With e = evicted runs / runs that ended, finished or evicted, and l = the longest wait of a spot task, both over the
last H hours, and the target eviction rate 1 - p:

    e > 1.5 (1 - p)                  eta *= (1 - p) / e
    e < 0.5 (1 - p) and l > theta    eta *= 1.5 - e / (1 - p)
    else                             eta stays

Evidence counts once: after eta has moved it stays for H hours, until all that is counted came after the move.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Protocol

from gfs.core.ledger import NOTHING_COUNTED, GuaranteeCounts, GuaranteeLedger
from gfs.domain.units import HOUR
from gfs.quota.waits import SpotWaits


class Rule(NamedTuple):
    """The numbers of the rule."""

    target: float
    """1 - p: the share of runs that may be evicted."""
    theta: float = 3600.0
    """Seconds of waiting that make the quota grow while few are evicted."""
    least: float = 0.1
    most: float = 4.0
    """Bounds of eta: without them it explodes, by up to half at every step."""

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


class Eta(NamedTuple):
    """The safety coefficient of one guarantee."""

    value: float = 1.0
    moved: float = -inf
    """When feedback last moved it."""


NOT_MOVED = Eta()


@dataclass(slots=True)
class EtaMemory:
    """What feedback remembers."""

    by_guarantee: dict[float, Eta] = field(default_factory=dict)
    """Guarantee hours -> its eta, as far as feedback has moved it."""


class EvictionFeedback:
    """The paper's rule, for every guarantee by itself: its tasks and those with a longer one."""

    def __init__(self, rates: EvictionRates, waits: SpotWaits, rule: Rule, memory: EtaMemory | None = None) -> None:
        self._rates = rates
        self._waits = waits
        self._rule = rule
        self._eta = (memory or EtaMemory()).by_guarantee

    def update(self, guarantee_hours: float, now: float) -> Signal:
        """The rates of the last H hours and the eta that follows."""
        rate = self._rates.rate(guarantee_hours, now)
        wait = self._waits.longest(guarantee_hours, now)
        eta = self._eta.get(guarantee_hours, NOT_MOVED)
        if now >= eta.moved + guarantee_hours * HOUR:
            value = self._rule.next(eta.value, rate, wait)
            if value != eta.value:
                eta = self._eta[guarantee_hours] = Eta(value, now)
        return Signal(eta.value, rate, wait)


class NoFeedback:
    """Eta stays 1; the rates are recorded all the same."""

    def __init__(self, rates: EvictionRates, waits: SpotWaits) -> None:
        self._rates = rates
        self._waits = waits

    def update(self, guarantee_hours: float, now: float) -> Signal:
        """The rates of the last H hours beside an eta of 1."""
        return Signal(1.0, self._rates.rate(guarantee_hours, now), self._waits.longest(guarantee_hours, now))


@dataclass(slots=True)
class EarlierCounts:
    """What eviction rates are counted from: what the ledger's counts were at earlier ticks."""

    by_guarantee: dict[float, deque[tuple[float, GuaranteeCounts]]] = field(default_factory=dict)
    """Guarantee hours -> times at which the counts were found changed, from the last before the H hours on."""


@dataclass(slots=True)
class EarlierPromises(EarlierCounts):
    """The same for broken guarantees, which look back over other hours."""


class EvictionRates:
    """Eviction rates over the last H hours, from the ledger's counts at earlier ticks."""

    def __init__(self, ledger: GuaranteeLedger, memory: EarlierCounts | None = None) -> None:
        self._ledger = ledger
        self._counts = (memory or EarlierCounts()).by_guarantee

    def rate(self, guarantee_hours: float, now: float, back: float | None = None) -> float:
        """The share of what went badly in the last `back` seconds, or H hours; 0 if nothing happened."""
        seconds = guarantee_hours * HOUR if back is None else back
        known = self._counts.get(guarantee_hours)
        if known is None:
            known = self._counts[guarantee_hours] = deque(((-inf, NOTHING_COUNTED),))
        after = self._ledger.counts(guarantee_hours * HOUR, now)
        if after != known[-1][1]:
            known.append((now, after))
        while len(known) > 1 and known[1][0] <= now - seconds:
            known.popleft()
        before = known[0][1]
        if before is after:  # such as nothing at all, of a guarantee that no task has
            return 0.0
        bad, well = self._compared(after)
        bad_before, well_before = self._compared(before)
        bad, well = bad - bad_before, well - well_before
        return bad / (bad + well) if bad else 0.0

    def _compared(self, counts: GuaranteeCounts) -> tuple[int, int]:
        """What went badly, and what went well: runs that were evicted, and that finished."""
        return counts.evicted, counts.finished


class BrokenRates(EvictionRates):
    """The share of guarantees that were broken, instead of that of runs that were evicted."""

    def _compared(self, counts: GuaranteeCounts) -> tuple[int, int]:
        return counts.broken, counts.kept
