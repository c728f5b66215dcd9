"""Settings of the spot quota: which to try, which of them to recommend, and how much more spot work to try with it.

Settings are tried in three rounds: not everything, but what is near the best.

1. Every p with every guarantee, eta within the paper's bounds.
2. For each guarantee, the p with the shortest wait within narrower bounds of eta: they cost waiting and save
   evictions. And the best so far within all bounds.
3. Around the best: the next p on either side, and bounds halfway to the next wider ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from gfs.assembly.parameters import Parameters
from gfs.batch.job import JobResult
from gfs.batch.simulation import Value
from gfs.domain.errors import InputError
from gfs.plans.runs import PlanRun

PS = (0.8, 0.85, 0.9, 0.95, 0.99)
QUICK_PS = (0.8, 0.9, 0.95)
HOURS = (1.0, 2.0, 4.0)
QUICK_HOURS = (1.0, 2.0)


class Bounds(NamedTuple):
    """How far feedback may move the quota: eta stays between these."""

    least: float
    most: float


TIGHT = Bounds(0.5, 1.5)
CLOSE = Bounds(0.2, 2.5)
PAPER = Bounds(0.1, 4.0)
WIDE = Bounds(0.05, 8.0)
BOUNDS = (TIGHT, CLOSE, PAPER, WIDE)
QUICK_BOUNDS = (TIGHT, PAPER)

BY_QUOTA = {
    "forecast": ("p", "guarantee_hours", "eta"),
    "weekly-peak": ("p", "guarantee_hours", "eta"),
    "forecast-no-feedback": ("p", "guarantee_hours"),
    "adaptive": ("p", "guarantee_hours"),
}
"""What moves each quota. The others have nothing to set but a share, or nothing at all."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Parameters of the quota; None: not a matter of the plan."""

    p: float | None = None
    hours: float | None = None
    eta: Bounds | None = None

    def values(self) -> tuple[tuple[str, Value], ...]:
        """As parameters."""
        least, most = self.eta or (None, None)
        every = (("p", self.p), ("guarantee_hours", self.hours), ("eta_min", least), ("eta_max", most))
        return tuple((name, value) for name, value in every if value is not None)

    @property
    def label(self) -> str:
        """Such as 'p = 0.9, guarantee 1 h, eta 0.1 to 4'."""
        words = []
        if self.p is not None:
            words.append(f"p = {self.p:g}")
        if self.hours is not None:
            words.append(f"guarantee {self.hours:g} h")
        if self.eta is not None:
            words.append(f"eta {self.eta.least:g} to {self.eta.most:g}")
        return ", ".join(words) or "as given"

    @property
    def rank(self) -> tuple[float, ...]:
        """A fixed order: short guarantees first, then what is nearest to the paper's values."""
        usual = Parameters()
        p = usual.p if self.p is None else self.p
        eta = self.eta or PAPER
        return (self.hours or 0.0, abs(eta.most - PAPER.most), abs(p - usual.p), p, *eta)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The values to try; a parameter with one value stays as it is."""

    ps: tuple[float | None, ...]
    hours: tuple[float | None, ...]
    bounds: tuple[Bounds | None, ...]

    @property
    def usual_bounds(self) -> Bounds | None:
        """Those of the first round."""
        return PAPER if PAPER in self.bounds else self.bounds[0]


def search_space(quota: str, given: Collection[str], *, own_guarantees: bool, quick: bool) -> SearchSpace:
    """What can be tried with this quota. Parameters that were `given` stay as they are.

    `own_guarantees`: every spot task of the trace says its own hours, so the parameter would change nothing.
    """
    if quota not in BY_QUOTA:
        raise InputError(
            f"the spot quota in force is {quota!r}: it follows no forecast, so there is nothing to plan;"
            " add --set quota=forecast, or plan for gfs or gfs-plus"
        )
    moves = BY_QUOTA[quota]
    ps: tuple[float | None, ...] = QUICK_PS if quick else PS
    hours: tuple[float | None, ...] = QUICK_HOURS if quick else HOURS
    bounds: tuple[Bounds | None, ...] = QUICK_BOUNDS if quick else BOUNDS
    return SearchSpace(
        ps if "p" not in given else (None,),
        hours if "guarantee_hours" not in given and not own_guarantees else (None,),
        bounds if "eta" in moves and not {"eta_min", "eta_max"} & set(given) else (None,),
    )


@dataclass(frozen=True, slots=True)
class SettingResult:
    """A setting that was tried, its run and its figures."""

    run: PlanRun
    setting: Setting
    figures: JobResult
    """Empty if it failed."""
    error: str = ""
    """Why it failed."""

    @property
    def evicted(self) -> float:
        """Evictions / runs of spot tasks: the rate that `gfs simulate` prints, and the one the target is about."""
        return float(self.figures["spot_eviction_rate"])

    @property
    def wait(self) -> float:
        """Mean seconds that spot tasks waited in all."""
        return float(self.figures["spot_jqt_mean"])

    @property
    def has_spot(self) -> bool:
        """Whether any spot task ran: of little spot work a quarter is none, and a small cluster may fit none."""
        return bool(self.figures["spot_runs"])

    def within(self, target: float) -> bool:
        """Whether evictions stay within the target."""
        return not self.error and self.evicted <= target

    def sells(self, target: float, max_wait: float) -> bool:
        """Whether its spot work can be sold: there is some, within the target and the limit of the mean wait."""
        return self.within(target) and self.has_spot and self.wait <= max_wait

    def order(self, target: float) -> tuple[object, ...]:
        """The best first: within the target by the wait, then by evictions; those that failed last."""
        if self.error:
            return (2, 0.0, 0.0, self.setting.rank)
        if self.within(target):
            return (0, self.wait, self.evicted, self.setting.rank)
        return (1, self.evicted, self.wait, self.setting.rank)


def choose(results: Sequence[SettingResult], target: float) -> SettingResult:
    """Within the target the shortest mean spot wait; ties: fewer evictions, then the fixed order of settings.

    If none is within the target, the one with the fewest evictions; ties: the shorter wait, then the same order.
    """
    done = [result for result in results if not result.error]
    if not done:
        raise InputError(f"no setting could be simulated: {results[0].error}")
    return min(done, key=lambda result: result.order(target))


def best_by_guarantee(results: Sequence[SettingResult], target: float) -> list[SettingResult]:
    """The best setting for each length of the guarantee, the shortest first."""
    hours = sorted({result.setting.hours or 0.0 for result in results if not result.error})
    return [choose([o for o in results if (o.setting.hours or 0.0) == h], target) for h in hours]


def first_round(space: SearchSpace) -> list[Setting]:
    """A grid."""
    return [Setting(p, hours, space.usual_bounds) for hours in space.hours for p in space.ps]


def second_round(space: SearchSpace, found: Sequence[SettingResult], target: float) -> list[Setting]:
    """Other bounds where they promise something."""
    done = [result for result in found if not result.error]
    usual = space.usual_bounds
    tried: list[Setting] = []
    for hours in space.hours:
        alike = [result for result in done if result.setting.hours == hours]
        if not alike or usual is None:
            continue
        shortest = min(alike, key=lambda o: (o.wait, o.setting.rank)).setting
        tried += [Setting(shortest.p, hours, b) for b in space.bounds if b is not None and b.most < usual.most]
    best = choose(found, target).setting
    tried += [Setting(best.p, best.hours, bounds) for bounds in space.bounds]
    return _new(tried, found)


def third_round(space: SearchSpace, found: Sequence[SettingResult], target: float) -> list[Setting]:
    """The neighbours of the best."""
    best = choose(found, target).setting
    place = space.ps.index(best.p)
    tried = [
        Setting(p, best.hours, best.eta)
        for p in (*space.ps[max(place - 1, 0) : place], *space.ps[place + 1 : place + 2])
    ]
    wider = [bounds for bounds in space.bounds if bounds is not None and best.eta and bounds.most > best.eta.most]
    if best.eta is not None and wider:
        tried.append(Setting(best.p, best.hours, halfway(best.eta, wider[0])))
    return _new(tried, found)


def halfway(one: Bounds, other: Bounds) -> Bounds:
    """Bounds between two, by factors: from 1.5 to 2.5 it is 1.9."""
    return Bounds(_short(sqrt(one.least * other.least)), _short(sqrt(one.most * other.most)))


def _short(value: float) -> float:
    """To two digits: nobody can tell more apart."""
    return float(f"{value:.2g}")


def _new(tried: Sequence[Setting], found: Sequence[SettingResult]) -> list[Setting]:
    known = {result.setting for result in found}
    return [setting for setting in dict.fromkeys(tried) if setting not in known]


MOST = 4.0


def first_scales(holds: bool, quick: bool) -> tuple[float, ...]:
    """Where to look first, given whether the spot work of the trace itself can be sold."""
    if quick:
        return (2.0,) if holds else (0.5,)
    return (2.0, MOST) if holds else (0.5,)


def last_scale(holds: Mapping[float, bool]) -> float | None:
    """Where to look last: between the largest that holds and the smallest that does not; None: nowhere."""
    best = largest_scale(holds)
    above = [scale for scale in holds if scale > best]
    if not above:
        return None
    return (best + min(above)) / 2


def largest_scale(holds: Mapping[float, bool]) -> float:
    """The largest multiple of the spot work that holds, all smaller ones that were tried as well; 0: none does."""
    best = 0.0
    for scale in sorted(holds):
        if not holds[scale]:
            break
        best = scale
    return best
