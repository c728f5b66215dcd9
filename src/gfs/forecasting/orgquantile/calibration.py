"""Conformal bounds: the p-quantile of how far demand really went, among the last weeks' forecasts.

A forecast is a middle and a width. Its score, once demand y is known, is (y - middle) / width. The bound of
probability p is middle + width * c(p), where c(p) is the ceil(p * (n + 1))-th smallest of the last n scores (the
highest if there are too few). The scores of all hours ahead count together: their widths are fitted apart already,
and four times the scores describe a tail better. c is mixed with the curve of all organizations known from fitting,
as if that were `PRIOR` more scores: it carries organizations that have few of their own. The scores of the last
week count once more on their own, so that bounds follow demand that becomes calmer or wilder. c grows with p, so
bounds never cross.

After a level shift (demand above all that there was from two weeks to three days ago, for hours or with bounds
exceeded again and again) and in an organization's first week, fits and scores speak of another level. Then a bound
of probability p > 0.5 is at least the last value times the p-quantile of y[t+h] / y[t], h hours apart, over all
hours of fitting or, if that is less, over those with at least half the mean demand: of the series itself, or of
all series together for one that was not there.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, Bools, DemandHistory, Floats, Ints, SeriesKey
from gfs.forecasting.orgquantile.features import SMALLEST_DEMAND, Single

SCORE = np.float32
"""Scores are kept in single precision: half as much to sort."""
PRIOR = 200
RECENT_SHARE = 0.3
"""Of the last week's own c(p) in that of bounds for an hour."""
CURVE = np.concatenate([np.linspace(0.0, 0.98, 99), np.linspace(0.981, 1.0, 20)])
"""Probabilities at which the curve of all organizations is kept; between them it is linear."""
_PROBABILITIES: list[float] = CURVE.tolist()
NORMAL_CURVE: Floats = ndtri(np.clip(CURVE, 0.001, 0.999)) / ndtri(0.95)
"""What is assumed without any score: a normal distribution whose 0.95 bound lies one width above the middle."""

VOLATILE_HOURS = 2 * DAY_HOURS
PRIOR_HOURS = DAY_HOURS
"""Hours of the week's mean error that count beside the recent ones."""
LARGEST_ERROR = 3.0
"""Widths: larger errors count as this, or one jump would make two days volatile."""
SMALLEST_ERROR = 1e-6
"""Widths: a series with a smaller mean error is not stretched."""

FEW_HOURS, OLD_HOURS = DAY_HOURS * 3 // 2, 4 * WEEK_HOURS
LEAST_HOURS = WEEK_HOURS
"""A series with fewer has no ratios of its own."""
LEAST_LEVEL = 0.5
"""Of mean demand: growth from less is no guide to growth from a level above all before."""
SHIFT_HOURS = 6
"""A level that has lasted so long is no spike."""
KNOWN_HOURS = 3 * DAY_HOURS
"""A level that was reached so long ago is no longer new: scores know it."""


@dataclass(frozen=True, slots=True, eq=False)
class ConformalScores:
    """The last scores of some targets, sorted: targets x places. A place without a score holds infinity."""

    ordered: Single
    known: Ints
    multipliers: dict[float, tuple[Floats, Floats]] = field(default_factory=dict, init=False)
    """Probability -> the curve and c(p), if computed before: scores serve for some hours."""

    @classmethod
    def empty(cls, targets: int) -> ConformalScores:
        """No score yet."""
        return cls(np.full((targets, 1), np.inf, dtype=SCORE), np.zeros(targets, dtype=np.int64))

    @classmethod
    def collected(cls, scores: Floats | Single) -> ConformalScores:
        """From scores in any order: targets x places, infinity where there is none."""
        ordered = scores.astype(SCORE)
        ordered.sort(axis=1)
        return cls(ordered, np.isfinite(ordered).sum(axis=1))

    def with_more(self, targets: int) -> ConformalScores:
        """The same, and so many targets without a score."""
        ordered = np.pad(self.ordered, ((0, targets), (0, 0)), constant_values=np.inf)
        return ConformalScores(ordered, np.pad(self.known, (0, targets)))

    def multiplier(self, p: float, curve: Floats) -> Floats:
        """c(p): how many widths above the middle the bound lies; `curve` is that of all organizations."""
        known = self.multipliers.get(p)
        if known is not None and known[0] is curve:
            return known[1]
        rank = np.minimum(np.ceil(p * (self.known + 1) - 1e-9).astype(np.int64), self.known)
        own = self.ordered[np.arange(len(rank)), np.maximum(rank - 1, 0)]
        own = np.where(self.known > 0, own, 0.0)
        multiplier: Floats = (self.known * own + PRIOR * curve_at(curve, p)) / (self.known + PRIOR)
        self.multipliers[p] = curve, multiplier
        return multiplier


@dataclass(frozen=True, slots=True, eq=False)
class RecencyWeighted:
    """Scores of some weeks, of which the last week counts once more on its own."""

    all: ConformalScores
    recent: ConformalScores

    def with_more(self, targets: int) -> RecencyWeighted:
        """The same, and so many targets without a score."""
        return RecencyWeighted(self.all.with_more(targets), self.recent.with_more(targets))

    def multiplier(self, p: float, curve: Floats) -> Floats:
        """The weighted mean of both."""
        return (1 - RECENT_SHARE) * self.all.multiplier(p, curve) + RECENT_SHARE * self.recent.multiplier(p, curve)


def curve_of(scores: Floats) -> Floats:
    """The curve of some scores (infinity: none); the normal one if there are next to none."""
    known = scores[np.isfinite(scores)]
    if len(known) < len(CURVE):
        return NORMAL_CURVE
    return quantiles(known)


def quantiles(values: Floats) -> Floats:
    """At the probabilities of CURVE: ... x values -> ... x probabilities.

    The same as `np.quantile`, which takes longer to find as many places without sorting.
    """
    ordered = np.sort(values, axis=-1)
    place = CURVE * (ordered.shape[-1] - 1)
    below = np.floor(place).astype(np.int64)
    low, high = ordered[..., below], ordered[..., np.minimum(below + 1, ordered.shape[-1] - 1)]
    share, gap = place - below, high - low
    found: Floats = np.where(share < 0.5, low + gap * share, high - gap * (1 - share))
    return found


def curve_at(curve: Floats, p: float) -> Floats:
    """The curve's value at p: ... x places -> ..."""
    right = min(max(bisect_left(_PROBABILITIES, p), 1), len(_PROBABILITIES) - 1)
    share = (p - _PROBABILITIES[right - 1]) / (_PROBABILITIES[right] - _PROBABILITIES[right - 1])
    value: Floats = (1 - share) * curve[..., right - 1] + share * curve[..., right]
    return value


class Volatility:
    """Whether the last two days were more volatile than the week: calm and volatile days come in rows.

    The error of an hour is its distance from the middles forecast for it, in fitted widths. Widths are stretched by
    sqrt((sum of the errors of 48 hours + 24 w) / ((48 + 24) w)), where w is the mean error of the week: between 0.58
    (two days exactly as forecast) and about 1.67 times what was fitted.
    """

    def __init__(self, series: int) -> None:
        self._errors = np.zeros((WEEK_HOURS, series))
        self._known = np.zeros((WEEK_HOURS, series))

    def add_series(self, count: int) -> None:
        """So many more, of which nothing is known."""
        self._errors, self._known = (np.pad(each, ((0, 0), (0, count))) for each in (self._errors, self._known))

    def note(self, hour: int, error: Floats) -> None:
        """The errors of an hour: hours ahead x series, infinity where nothing was scored."""
        known = np.isfinite(error).all(axis=0)
        size = np.minimum(np.abs(error), LARGEST_ERROR).mean(axis=0)
        self._known[hour % WEEK_HOURS] = known
        self._errors[hour % WEEK_HOURS] = np.where(known, size, 0.0)

    def stretch(self, hour: int) -> Floats:
        """By what widths are multiplied, per series, the last noted hour being this one."""
        recent = (hour - np.arange(VOLATILE_HOURS)) % WEEK_HOURS
        error, known = self._errors[recent].sum(axis=0), self._known[recent].sum(axis=0)
        usual = self._errors.sum(axis=0) / np.maximum(self._known.sum(axis=0), 1.0)
        ratio = (error + PRIOR_HOURS * usual) / ((known + PRIOR_HOURS) * np.maximum(usual, SMALLEST_ERROR))
        stretch: Floats = np.sqrt(np.where(usual > SMALLEST_ERROR, ratio, 1.0))
        return stretch


@dataclass(frozen=True, slots=True, eq=False)
class GrowthRatios:
    """Quantiles of demand relative to the last value: hours ahead and, last, their peak, x probabilities of CURVE."""

    general: Floats
    own: dict[SeriesKey, Floats]

    @classmethod
    def learned(cls, history: DemandHistory, horizon: int) -> GrowthRatios:
        """The ratios in a history; without enough of it, 1."""
        own: dict[SeriesKey, Floats] = {}
        for key, gpus, first in zip(history.keys, history.gpus, history.first, strict=True):
            demand = gpus[first:] + SMALLEST_DEMAND
            count = len(demand) - horizon
            if count < LEAST_HOURS:
                continue
            later = np.stack([demand[ahead : ahead + count] for ahead in range(1, horizon + 1)])
            ratios = np.concatenate([later, later.max(axis=0)[None]]) / demand[:count]
            usual = ratios[:, demand[:count] >= LEAST_LEVEL * demand[:count].mean()]
            own[key] = np.minimum(quantiles(ratios), quantiles(usual))
        general = np.mean(list(own.values()), axis=0) if own else np.ones((horizon + 1, len(CURVE)))
        return cls(general, own)

    def of(self, keys: tuple[SeriesKey, ...]) -> Floats:
        """For these series."""
        return np.stack([self.own.get(key, self.general) for key in keys])


@dataclass(frozen=True, slots=True, eq=False)
class LastValueBounds:
    """Bounds from the last value alone, for series that were young when they were fitted: last value + p-quantile of
    y[t+h] - y[t]. A bound is the mean of its own and of this one, in which this has the share
    min(1, FEW_HOURS / age), all of it in the first day and a half, and none from OLD_HOURS on."""

    changes: dict[SeriesKey, Floats]
    """Hours ahead x probabilities of CURVE."""
    shares: dict[SeriesKey, float]

    @classmethod
    def learned(cls, history: DemandHistory, horizon: int) -> LastValueBounds:
        """From the young series of a history."""
        changes: dict[SeriesKey, Floats] = {}
        shares: dict[SeriesKey, float] = {}
        for key, gpus, first in zip(history.keys, history.gpus, history.first, strict=True):
            age = history.hours - int(first)
            if horizon < age < OLD_HOURS:
                demand = gpus[first:]
                moved = [quantiles(demand[ahead:] - demand[:-ahead]) for ahead in range(1, horizon + 1)]
                changes[key], shares[key] = np.stack(moved), min(1.0, FEW_HOURS / age)
        return cls(changes, shares)

    def of(self, keys: tuple[SeriesKey, ...]) -> tuple[Floats, Floats] | None:
        """Changes and shares of these series; None if none of them is young."""
        if not any(key in self.shares for key in keys):
            return None
        none = np.zeros_like(next(iter(self.changes.values())))
        changes = np.stack([self.changes.get(key, none) for key in keys])
        return changes, np.array([self.shares.get(key, 0.0) for key in keys])


def level_shifted(window: Floats, alarmed: Bools) -> Bools:
    """Per series (hours x series): whether its level is higher than before the last three days."""
    highest = window[-2 * WEEK_HOURS : -KNOWN_HOURS].max(axis=0)
    lasting = window[-SHIFT_HOURS:].min(axis=0) > highest
    shifted: Bools = lasting | (alarmed & (window[-1] > highest))
    return shifted
