"""A floor for the bounds of series whose fits and scores are out of date.

After a level shift (demand above all that there was from two weeks to three days ago, for hours or with bounds
exceeded again and again) and in an organization's first week, fits and scores speak of another level. Then a bound
of probability p > 0.5 is at least the last value times the p-quantile of y[t+h] / y[t], h hours apart, over all
hours of fitting or, if that is less, over those with at least half the mean demand: of the series itself, or of
all series together for one that was not there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, Bools, DemandHistory, Floats, SeriesKey
from gfs.forecasting.orgquantile.calibration import CURVE
from gfs.forecasting.orgquantile.features import SMALLEST_DEMAND

LEAST_HOURS = WEEK_HOURS
"""A series with fewer has no ratios of its own."""
LEAST_LEVEL = 0.5
"""Of mean demand: growth from less is no guide to growth from a level above all before."""
SHIFT_HOURS = 6
"""A level that has lasted so long is no spike."""
KNOWN_HOURS = 3 * DAY_HOURS
"""A level that was reached so long ago is no longer new: scores know it."""


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
            own[key] = np.minimum(np.quantile(ratios, CURVE, axis=1), np.quantile(usual, CURVE, axis=1)).T
        general = np.mean(list(own.values()), axis=0) if own else np.ones((horizon + 1, len(CURVE)))
        return cls(general, own)

    def of(self, keys: tuple[SeriesKey, ...]) -> Floats:
        """For these series."""
        return np.stack([self.own.get(key, self.general) for key in keys])


def level_shifted(window: Floats, alarmed: Bools) -> Bools:
    """Per series (hours x series): whether its level is higher than before the last three days."""
    highest = window[-2 * WEEK_HOURS : -KNOWN_HOURS].max(axis=0)
    lasting = window[-SHIFT_HOURS:].min(axis=0) > highest
    shifted: Bools = lasting | (alarmed & (window[-1] > highest))
    return shifted
