"""Conformal bounds: the p-quantile of how far demand really went, among the last weeks' forecasts.

A forecast is a middle and a width. Its score, once demand y is known, is (y - middle) / width. The bound of
probability p is middle + width * c(p), where c(p) is the ceil(p * (n + 1))-th smallest of the last n scores (the
highest if there are too few). The scores of all hours ahead count together: their widths are fitted apart already,
and four times the scores say more about a tail. c is mixed with the curve of all organizations known from fitting,
as if that were `PRIOR` more scores: it carries organizations that have few of their own. The scores of the last
week count once more on their own, so that bounds follow demand that grows calmer or wilder. c grows with p, so
bounds never cross.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from gfs.forecasting.history import Floats, Ints
from gfs.forecasting.orgquantile.features import Single

SCORE = np.float32
"""Scores are kept in single precision: half as much to sort."""
PRIOR = 200
RECENT_SHARE = 0.3
"""Of the last week's own c(p) in that of bounds for an hour."""
CURVE = np.concatenate([np.linspace(0.0, 0.98, 99), np.linspace(0.981, 1.0, 20)])
"""Probabilities at which the curve of all organizations is kept; between them it is straight."""
_PLACES: list[float] = CURVE.tolist()
NORMAL_CURVE: Floats = ndtri(np.clip(CURVE, 0.001, 0.999)) / ndtri(0.95)
"""What is assumed without any score: a normal distribution whose 0.95 bound lies one width above the middle."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The last scores of some targets, sorted: targets x places. A place without a score holds infinity."""

    ordered: Single
    known: Ints
    reaches: dict[float, tuple[Floats, Floats]] = field(default_factory=dict)
    """Probability -> the curve and c(p) that were worked out already: scores serve for some hours."""

    @classmethod
    def empty(cls, targets: int) -> Scores:
        """No score yet."""
        return cls(np.full((targets, 1), np.inf, dtype=SCORE), np.zeros(targets, dtype=np.int64))

    @classmethod
    def collected(cls, scores: Floats | Single) -> Scores:
        """From scores in any order: targets x places, infinity where there is none."""
        ordered = scores.astype(SCORE)
        ordered.sort(axis=1)
        return cls(ordered, np.isfinite(ordered).sum(axis=1))

    def reach(self, p: float, curve: Floats) -> Floats:
        """c(p): how many widths above the middle the bound lies; `curve` is that of all organizations."""
        known = self.reaches.get(p)
        if known is not None and known[0] is curve:
            return known[1]
        rank = np.minimum(np.ceil(p * (self.known + 1) - 1e-9).astype(np.int64), self.known)
        own = self.ordered[np.arange(len(rank)), np.maximum(rank - 1, 0)]
        own = np.where(self.known > 0, own, 0.0)
        reach: Floats = (self.known * own + PRIOR * curve_at(curve, p)) / (self.known + PRIOR)
        self.reaches[p] = curve, reach
        return reach


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """Scores of some weeks, of which the last one counts once more on its own: demand grows calmer or wilder."""

    all: Scores
    recent: Scores

    def reach(self, p: float, curve: Floats) -> Floats:
        """The mean of both, mostly of all."""
        return (1 - RECENT_SHARE) * self.all.reach(p, curve) + RECENT_SHARE * self.recent.reach(p, curve)


class Calibration(Protocol):
    """What says how far bounds lie from the middle."""

    def reach(self, p: float, curve: Floats) -> Floats:
        """How many widths above the middle the bound of probability p lies, per target."""
        ...


def curve_of(scores: Floats) -> Floats:
    """The curve of some scores (infinity: none); the normal one if there are next to none."""
    known = scores[np.isfinite(scores)]
    if len(known) < len(CURVE):
        return NORMAL_CURVE
    curve: Floats = np.quantile(known, CURVE)
    return curve


def curve_at(curve: Floats, p: float) -> Floats:
    """The curve's value at p: ... x places -> ..."""
    right = min(max(bisect_left(_PLACES, p), 1), len(_PLACES) - 1)
    share = (p - _PLACES[right - 1]) / (_PLACES[right] - _PLACES[right - 1])
    value: Floats = (1 - share) * curve[..., right - 1] + share * curve[..., right]
    return value
