"""Running times from published quantiles: log-linear between the knots, the longest knot set by the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A quantile function: `seconds[i]` is not exceeded by `shares[i]` of the tasks."""

    shares: tuple[float, ...]
    seconds: tuple[float, ...]

    def at(self, share: Floats) -> Floats:
        """Seconds at each share, log-linear between the knots."""
        return np.asarray(np.exp(np.interp(share, self.shares, np.log(self.seconds))), dtype=np.float64)

    def mean(self) -> float:
        """Mean of the tasks between the first and the last knot."""
        pieces = zip(self.shares, self.shares[1:], self.seconds, self.seconds[1:], strict=False)
        total = sum((b - a) * log_linear_mean(low, high) for a, b, low, high in pieces)
        return total / (self.shares[-1] - self.shares[0])

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """`count` whole seconds, one from each of `count` equal slices, shortest first.

        Slices instead of free draws: the quantiles and the mean of the sample are those of the function
        whatever the seed, and only what lies between the slices is chance.
        """
        if not count:
            return np.empty(0)
        width = (self.shares[-1] - self.shares[0]) / count
        share = self.shares[0] + (np.arange(count) + rng.random(count)) * width
        return np.maximum(np.rint(self.at(share)), 1.0)


def log_linear_mean(low: float, high: float) -> float:
    """Mean of a piece of a quantile function that is log-linear from `low` to `high`."""
    return low if high <= low else (high - low) / float(np.log(high / low))


def top_for_mean(low: float, mean: float) -> float:
    """The upper knot that gives a log-linear piece from `low` upwards this `mean`."""
    if mean <= low:
        return low
    found: float = brentq(lambda top: log_linear_mean(low, top) - mean, low * 1.000001, mean * 1000.0)
    return found


def with_mean(shares: tuple[float, ...], seconds: tuple[float, ...], mean: float) -> Quantiles:
    """The quantile function through these knots whose last piece, up to share 1, brings about `mean`."""
    rest = Quantiles(shares, seconds)
    last = 1.0 - shares[-1]
    top = top_for_mean(seconds[-1], (mean - rest.mean() * (shares[-1] - shares[0])) / last)
    return Quantiles((*shares, 1.0), (*seconds, top))
