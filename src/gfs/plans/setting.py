"""A setting of the spot quota, and the values a plan tries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from gfs.assembly.parameters import Parameters
from gfs.batch.simulation import Value
from gfs.domain.errors import InputError

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
        found: list[tuple[str, Value]] = []
        if self.p is not None:
            found.append(("p", self.p))
        if self.hours is not None:
            found.append(("guarantee_hours", self.hours))
        if self.eta is not None:
            found += [("eta_min", self.eta.least), ("eta_max", self.eta.most)]
        return tuple(found)

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
