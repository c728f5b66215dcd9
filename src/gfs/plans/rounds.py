"""Which settings to try, in three rounds: everything is not tried, but what is near the best is.

1. Every p with every guarantee, eta within the paper's bounds.
2. For each guarantee, the p with the shortest wait within narrower bounds of eta: they cost waiting and save
   evictions. And the best so far within all bounds.
3. Around the best: the next p on either side, and bounds halfway to the next wider ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from gfs.plans.choose import Outcome, choose
from gfs.plans.setting import Bounds, Levers, Setting


def first_round(levers: Levers) -> list[Setting]:
    """A grid."""
    return [Setting(p, hours, levers.usual_bounds) for hours in levers.hours for p in levers.ps]


def second_round(levers: Levers, found: Sequence[Outcome], target: float) -> list[Setting]:
    """Other bounds where they promise something."""
    done = [outcome for outcome in found if not outcome.error]
    usual = levers.usual_bounds
    tried: list[Setting] = []
    for hours in levers.hours:
        alike = [outcome for outcome in done if outcome.setting.hours == hours]
        if not alike or usual is None:
            continue
        shortest = min(alike, key=lambda o: (o.wait, o.setting.rank)).setting
        tried += [Setting(shortest.p, hours, b) for b in levers.bounds if b is not None and b.most < usual.most]
    best = choose(found, target).outcome.setting
    tried += [Setting(best.p, best.hours, bounds) for bounds in levers.bounds]
    return _new(tried, found)


def third_round(levers: Levers, found: Sequence[Outcome], target: float) -> list[Setting]:
    """The neighbours of the best."""
    best = choose(found, target).outcome.setting
    place = levers.ps.index(best.p)
    tried = [
        Setting(p, best.hours, best.eta)
        for p in (*levers.ps[max(place - 1, 0) : place], *levers.ps[place + 1 : place + 2])
    ]
    wider = [bounds for bounds in levers.bounds if bounds is not None and best.eta and bounds.most > best.eta.most]
    if best.eta is not None and wider:
        tried.append(Setting(best.p, best.hours, halfway(best.eta, wider[0])))
    return _new(tried, found)


def halfway(one: Bounds, other: Bounds) -> Bounds:
    """Bounds between two, by factors: from 1.5 to 2.5 it is 1.9."""
    return Bounds(_short(sqrt(one.least * other.least)), _short(sqrt(one.most * other.most)))


def _short(value: float) -> float:
    """To two digits: nobody can tell more apart."""
    return float(f"{value:.2g}")


def _new(tried: Sequence[Setting], found: Sequence[Outcome]) -> list[Setting]:
    known = {outcome.setting for outcome in found}
    return [setting for setting in dict.fromkeys(tried) if setting not in known]
