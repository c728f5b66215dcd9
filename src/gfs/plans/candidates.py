"""What a plan tries in a pool: schedulers with quotas, on a coarse grid first, then ever closer around the best.

Every scheduler is tried with fixed shares and, but for `static`, without a quota; beside that with the quotas that make
it what it is: `gfs` with forecasts with and without feedback, `gfs-plus` with the adaptive one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from gfs.assembly.parameters import Value
from gfs.assembly.schedulers import find_scheduler, has_leases
from gfs.domain.errors import InputError

SCHEDULERS: Final = ("gfs-plus", "gfs", "static")
"""Tried unless others are named."""
SHARES: Final = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6)
QUICK_SHARES: Final = (0.1, 0.2, 0.3, 0.5)
PROBABILITIES: Final = (0.8, 0.9, 0.95, 0.99)
QUICK_PROBABILITIES: Final = (0.8, 0.9, 0.97)
LEAST_STEP: Final = {"quota_share": 0.01, "p": 0.01}
"""Nobody can tell more apart."""
ENDS: Final = {"quota_share": (0.0, 1.0), "p": (0.5, 0.999)}


class Bounds(NamedTuple):
    """How far feedback may move the quota: eta stays between these."""

    least: float
    most: float


TIGHT: Final = Bounds(0.5, 1.5)
CLOSE: Final = Bounds(0.2, 2.5)
PAPER: Final = Bounds(0.1, 4.0)

FORECASTS: Final = ("forecast", "weekly-peak", "forecast-no-feedback", "adaptive")
"""Quotas that p moves."""
WITH_FEEDBACK: Final = ("forecast", "weekly-peak")
"""Those that eta moves."""
SIMPLEST: Final = ("none", "fixed", "adaptive", "forecast-no-feedback", "weekly-peak", "forecast")
"""Quotas by what it takes to run them."""


class Family(NamedTuple):
    """Candidates that differ in numbers alone."""

    scheduler: str
    quota: str

    @property
    def label(self) -> str:
        """Such as 'gfs, forecast'."""
        return f"{self.scheduler}, {'no quota' if self.quota == 'none' else self.quota}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scheduler with a quota for one pool."""

    scheduler: str
    quota: str
    quota_share: float | None = None
    """Of a fixed quota."""
    p: float | None = None
    """Of a quota that follows a forecast or a promise."""
    eta: Bounds | None = None
    """Where feedback moves it."""

    @property
    def family(self) -> Family:
        """Whom it competes with in numbers alone."""
        return Family(self.scheduler, self.quota)

    @property
    def number(self) -> float | None:
        """What is moved to trade waits for evictions."""
        return self.quota_share if self.quota == "fixed" else self.p

    def values(self) -> tuple[tuple[str, Value], ...]:
        """As parameters."""
        least, most = self.eta or (None, None)
        every = (("quota_share", self.quota_share), ("p", self.p), ("eta_min", least), ("eta_max", most))
        return (("quota", self.quota), *((name, value) for name, value in every if value is not None))

    @property
    def label(self) -> str:
        """Such as 'gfs-plus, fixed 20%' or 'gfs, forecast p = 0.9, eta 0.5 to 1.5'."""
        return f"{self.scheduler}, {self.quota_label}"

    @property
    def quota_label(self) -> str:
        """Such as 'fixed 20%'."""
        if self.quota == "none":
            return "no quota"
        if self.quota == "fixed":
            return f"fixed {100 * (self.quota_share or 0):.4g}%"
        eta = f", eta {self.eta.least:g} to {self.eta.most:g}" if self.eta not in (None, PAPER) else ""
        return f"{self.quota} p = {self.p:g}{eta}"

    @property
    def sentence(self) -> str:
        """Such as 'gfs-plus with a fixed quota of 20%'."""
        if self.quota == "none":
            return f"{self.scheduler} without a quota"
        if self.quota == "fixed":
            return f"{self.scheduler} with a fixed quota of {100 * (self.quota_share or 0):.4g}%"
        return f"{self.scheduler} with the quota {self.quota_label}"

    @property
    def rank(self) -> tuple[Any, ...]:
        """A fixed order for ties: what is simplest first."""
        return (SIMPLEST.index(self.quota), self.scheduler, self.number or 0.0, self.eta or PAPER)


class SearchSpace(NamedTuple):
    """What is tried; what was given stays as it is."""

    schedulers: tuple[str, ...]
    given: Mapping[str, Any]
    """Parameters of the quota that were given: quota, quota_share, p, eta_min, eta_max."""
    quick: bool

    def quotas_of(self, scheduler: str) -> tuple[str, ...]:
        """The quotas it is tried with."""
        if given := self.given.get("quota"):
            return (given,)
        own = find_scheduler(scheduler).quota
        forecasts = ("forecast", "forecast-no-feedback") if own == "forecast" else (own,) if own in FORECASTS else ()
        return (*(() if own == "fixed" else ("none",)), "fixed", *forecasts)

    def grid(self, least_share: float) -> list[Candidate]:
        """The first round for a pool whose largest spot task needs so large a fixed quota."""
        shares: tuple[float, ...] = QUICK_SHARES if self.quick else SHARES
        ps: tuple[float, ...] = QUICK_PROBABILITIES if self.quick else PROBABILITIES
        shares = (self.given["quota_share"],) if "quota_share" in self.given else shares
        ps = (self.given["p"],) if "p" in self.given else ps
        found = []
        for scheduler in self.schedulers:
            for quota in self.quotas_of(scheduler):
                if quota == "fixed":
                    found += [Candidate(scheduler, quota, quota_share=max(share, least_share)) for share in shares]
                elif quota == "none":
                    found.append(Candidate(scheduler, quota))
                else:
                    found += [Candidate(scheduler, quota, p=p, eta=self.eta_of(quota)) for p in ps]
        return found

    def eta_of(self, quota: str) -> Bounds | None:
        """The bounds of the first round: those that were given, or the paper's."""
        if quota not in WITH_FEEDBACK:
            return None
        return Bounds(self.given.get("eta_min", PAPER.least), self.given.get("eta_max", PAPER.most))

    def near(self, best: Candidate, tried: Sequence[Candidate], least_share: float) -> list[Candidate]:
        """Halfway to the next ones on either side, and with other bounds of eta: what is not tried yet."""
        found: list[Candidate] = []
        name = "quota_share" if best.quota == "fixed" else "p"
        if best.number is not None and name not in self.given:
            alike = [c.number for c in tried if (c.family, c.eta) == (best.family, best.eta) and c.number is not None]
            low, high = (least_share if name == "quota_share" else ENDS[name][0]), ENDS[name][1]
            between = halfway(best.number, alike, LEAST_STEP[name], low, high)
            fixed = name == "quota_share"
            found += [replace(best, quota_share=n) if fixed else replace(best, p=n) for n in between]
        if best.eta is not None and not {"eta_min", "eta_max"} & set(self.given):
            found += [replace(best, eta=bounds) for bounds in (CLOSE, TIGHT) if bounds != best.eta]
        return [candidate for candidate in found if candidate not in tried]


def halfway(value: float, others: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Between a number and the next ones that were tried, or the ends, to a step; none that is already tried.

    Of 0.2 among 0.1, 0.2, 0.3 these are 0.15 and 0.25; of 0.2 among 0.2 and 0.21 only that halfway to the lower end.
    """
    below = max((other for other in others if other < value - step / 2), default=low)
    above = min((other for other in others if other > value + step / 2), default=high)
    found = [round(round((value + next_) / 2 / step) * step, 6) for next_ in (below, above)]
    taken = [value, *others]
    fresh = [new for new in found if low <= new <= high and all(abs(new - old) > step / 2 for old in taken)]
    return list(dict.fromkeys(fresh))


def search_space(schedulers: Sequence[str], given: Mapping[str, Any], quick: bool) -> SearchSpace:
    """What can be tried; raises InputError for a scheduler without evictions, and where nothing is left to choose."""
    for name in schedulers:
        if has_leases(find_scheduler(name)):
            raise InputError(
                f"{name} runs tasks by leases and evicts none, so a target for evictions says nothing about it;"
                " plan for gfs or gfs-plus"
            )
    names = ("quota", "quota_share", "p", "eta_min", "eta_max")
    return SearchSpace(tuple(schedulers), {name: given[name] for name in names if name in given}, quick)
