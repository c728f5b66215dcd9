"""A forecast known at some probabilities, and what both kinds of baselines need to know of series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from gfs.forecasting.forecast import BaseForecast
from gfs.forecasting.history import Bools, DemandHistory, Floats, SeriesKey

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Probabilities that a model is trained for."""
MIDDLE = LEVELS.index(0.5)
FURTHEST = 1e-4
"""Nobody has seen enough hours to say more about the ends: p is taken as at least this far from 0 and 1."""

_SCORES = ndtri(np.array(LEVELS))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuantileForecast(BaseForecast):
    """A middle and quantiles for every series and hour."""

    keys: tuple[SeriesKey, ...]
    middle: Floats
    """Series x hours."""
    quantiles: Floats
    """LEVELS x series x hours, rising with the level."""

    def mean(self) -> Floats:
        """The middle, not below 0."""
        return np.maximum(self.middle, 0.0)

    def quantile(self, p: float) -> Floats:
        """Between two levels in proportion to the normal score of p; beyond them on the line of the last two."""
        score = float(ndtri(min(max(p, FURTHEST), 1 - FURTHEST)))
        low = int(np.clip(np.searchsorted(_SCORES, score) - 1, 0, len(LEVELS) - 2))
        part = (score - _SCORES[low]) / (_SCORES[low + 1] - _SCORES[low])
        quantile: Floats = np.maximum((1 - part) * self.quantiles[low] + part * self.quantiles[low + 1], 0.0)
        return quantile


def extended(middle: Floats, quantiles: Floats, hours: int) -> tuple[Floats, Floats]:
    """Middle and quantiles for so many hours: beyond those known like the last one, but wider."""
    known = middle.shape[-1]
    ahead = np.minimum(np.arange(hours), known - 1)
    wider = np.sqrt(np.maximum(np.arange(1, hours + 1) / known, 1.0))
    middle = middle[:, ahead]
    return middle, middle + (quantiles[:, :, ahead] - middle) * wider


def constant_quantiles(history: DemandHistory, hours: int) -> tuple[Floats, Floats]:
    """Middle and quantiles that are the last value of each series, 0 without any."""
    last = history.gpus[:, -1] if history.hours else np.zeros(len(history.keys))
    middle = np.repeat(last[:, None], hours, axis=1)
    return middle, np.repeat(middle[None], len(LEVELS), axis=0)


def changes(history: DemandHistory) -> Bools:
    """Which series have ever changed since their first record. One that has not has no scale."""
    known = np.arange(history.hours)[None, :] >= history.first[:, None]
    top = np.where(known, history.gpus, -np.inf).max(axis=1, initial=-np.inf)
    bottom = np.where(known, history.gpus, np.inf).min(axis=1, initial=np.inf)
    changed: Bools = top > bottom
    return changed
