"""What an operator asks of a cluster: `evictions=0.05`, `hp-wait-p99=30s`, `spot-wait-p95=2h`, `broken=0.1`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import Final

from gfs.domain.errors import InputError
from gfs.domain.units import DAY, HOUR
from gfs.plans.evidence import Sums
from gfs.report.columns import percent, short_seconds

SHARES: Final = {"evictions": "of spot runs evicted", "broken": "of guarantees broken"}
WAIT: Final = re.compile(r"(hp|spot)-wait-(mean|p\d{1,2}(?:\.\d+)?)")
UNITS: Final = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": HOUR, "d": DAY}
DURATION: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(s|min|m|h|d|)")
EXAMPLES: Final = "evictions=0.05, broken=0.1, hp-wait-p99=30s, spot-wait-mean=20min or spot-wait-p95=2h"
LEAST_SHARE, LEAST_SECONDS = 0.01, 60.0
"""Misses are shares of the bound, or of these where the bound is smaller: twice nothing is nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that must not be above a bound."""

    figure: str
    bound: float
    """A share, or seconds."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share and no time."""
        return self.figure in SHARES

    @property
    def label(self) -> str:
        """As it was asked for: 'evictions <= 5.00%'."""
        return f"{self.figure} ≤ {self.written(self.bound)}"

    def written(self, value: float) -> str:
        """A value of this figure."""
        return percent(value) if self.is_share else short_seconds(value)

    def value(self, sums: Sums) -> float:
        """What the figure came to."""
        return figure_of(self.figure, sums)

    def met(self, sums: Sums) -> bool:
        """Whether it holds."""
        return self.value(sums) <= self.bound

    def miss(self, sums: Sums) -> float:
        """By what share of the bound it is missed; 0 if it is met."""
        floor = LEAST_SHARE if self.is_share else LEAST_SECONDS
        return max(0.0, self.value(sums) - self.bound) / max(self.bound, floor)


def figure_of(figure: str, sums: Sums) -> float:
    """A figure by its name; 0 where there is nothing to count."""
    if figure == "evictions":
        return sums.evicted
    if figure == "broken":
        return sums.broken
    found = WAIT.fullmatch(figure)
    assert found is not None, figure
    return sums.wait(found[1], found[2])


DEFAULT: Final = (Target("evictions", 0.05),)


def parse_targets(texts: Iterable[str]) -> tuple[Target, ...]:
    """Targets as they are written on the command line, each figure once; without any, evictions=0.05."""
    targets = [parse_target(text) for text in texts]
    for target in targets:
        if [other.figure for other in targets].count(target.figure) > 1:
            raise InputError(f"--target {target.figure} is given twice: give each figure one bound")
    return tuple(targets) or DEFAULT


def parse_target(text: str) -> Target:
    """One of them; raises InputError that says what can be asked for."""
    name, equals, bound = (part.strip() for part in text.partition("="))
    if not equals or (name not in SHARES and not WAIT.fullmatch(name)):
        raise InputError(f"--target {text!r}: must be a figure and its bound, such as {EXAMPLES}")
    if name in SHARES:
        return Target(name, _share(text, bound))
    length = DURATION.fullmatch(bound)
    if length is None:
        raise InputError(f"--target {text!r}: the bound must be a length of time, such as 30s, 20min, 2h or 1d")
    return Target(name, float(length[1]) * UNITS[length[2]])


def _share(text: str, bound: str) -> float:
    percents = bound.endswith("%")
    try:
        share = float(bound.removesuffix("%")) / (100 if percents else 1)
    except ValueError:
        share = -1.0
    if not (isfinite(share) and 0 <= share < 1):
        raise InputError(f"--target {text!r}: must be a share, 0 or more and below 1, for example 0.05 for 5%")
    return share


def all_met(targets: Iterable[Target], sums: Sums) -> bool:
    """Whether every one holds."""
    return all(target.met(sums) for target in targets)


def total_miss(targets: Iterable[Target], sums: Sums) -> float:
    """By how much they are missed in all; 0 if every one holds."""
    return sum(target.miss(sums) for target in targets)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why targets are not met: some that nothing tried meets, or some that nothing tried meets together."""

    alone: tuple[Target, ...]
    """Each of them is met by nothing that was tried."""
    together: tuple[Target, ...]
    """Each can be met, but not all of these at once: a smallest such group. Empty where single ones fail."""


def conflict(targets: Sequence[Target], tried: Sequence[Sums]) -> Conflict | None:
    """What cannot be met by anything that was tried; None if something meets all targets."""
    if any(all_met(targets, sums) for sums in tried):
        return None
    alone = tuple(target for target in targets if not any(target.met(sums) for sums in tried))
    if alone:
        return Conflict(alone, ())
    for size in range(2, len(targets) + 1):
        for group in combinations(targets, size):
            if not any(all_met(group, sums) for sums in tried):
                return Conflict((), group)
    raise AssertionError("the whole group is not met, so some group is not")
