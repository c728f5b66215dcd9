"""How far a figure can be trusted: intervals from blocks of a trace, or from traces of other seeds.

The delete-one-block jackknife: the figure is worked out again without each block in turn, and how much these values
differ says how much another such trace would. It serves shares, means and percentiles alike, and differences of two
settings on the same blocks. Blocks are few, so the width goes by Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final, Literal

from gfs.plans.evidence import LEAST_BLOCKS, Sums, total

CONFIDENCE: Final = 0.9
STUDENT_95: Final = (
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746,
    1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697,
)  # fmt: skip
"""The 0.95 quantile of Student's t by degrees of freedom, from 1 on: both tails beyond it have 10%."""
NORMAL_95: Final = 1.645

Figure = Callable[[Sums], float]
Finding = Literal["better", "worse", "no difference"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the range in which nine of ten such traces would have it."""

    value: float
    low: float
    high: float

    def shown(self, written: Callable[[float], str]) -> str:
        """Such as '4.2% (3.1% to 5.3%)'."""
        return f"{written(self.value)} ({written(self.low)} to {written(self.high)})"


def student(freedom: int) -> float:
    """The factor of the standard error."""
    return STUDENT_95[freedom - 1] if freedom <= len(STUDENT_95) else NORMAL_95


def interval(blocks: Sequence[Sums], figure: Figure) -> Interval | None:
    """A figure of all blocks together; None where there are too few to tell. No figure is below 0."""
    found = _jackknife(len(blocks), lambda kept: figure(total(blocks[i] for i in kept)))
    return None if found is None else Interval(found.value, max(0.0, found.low), found.high)


def difference(one: Sequence[Sums], other: Sequence[Sums], figure: Figure) -> Interval | None:
    """The figure of `one` minus that of `other`, on the same blocks."""
    assert len(one) == len(other), "blocks of the same trace"

    def both(kept: Sequence[int]) -> float:
        return figure(total(one[i] for i in kept)) - figure(total(other[i] for i in kept))

    return _jackknife(len(one), both)


def finding(found: Interval) -> Finding:
    """What a difference says: lower is better, and what may as well be 0 is no difference that can be shown."""
    if found.low <= 0 <= found.high:
        return "no difference"
    return "better" if found.high < 0 else "worse"


def _jackknife(count: int, figure: Callable[[Sequence[int]], float]) -> Interval | None:
    if count < LEAST_BLOCKS:
        return None
    every = range(count)
    value = figure(every)
    without = [figure([i for i in every if i != left]) for left in every]
    middle = sum(without) / count
    error = sqrt((count - 1) / count * sum((each - middle) ** 2 for each in without))
    reach = student(count - 1) * error
    return Interval(value, value - reach, value + reach)
