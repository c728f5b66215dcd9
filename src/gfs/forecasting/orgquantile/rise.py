"""By how much demand may rise from where it is: what holds when everything else about a series is out of date.

After a level shift (bounds exceeded hour after hour, and demand above all that there was the week before last) and
in an organization's first week, fits and scores speak of another level. Then a bound of probability p > 0.5 is
at least the last value times the p-quantile of y[t+h] / y[t], h hours apart, over all hours
of fitting: of the series itself, or of all series together for one that was not there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfs.forecasting.history import DemandHistory, Floats, SeriesKey
from gfs.forecasting.orgquantile.calibration import CURVE
from gfs.forecasting.orgquantile.features import SMALLEST_DEMAND

LEAST_HOURS = 168
"""A series with fewer has no rise of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Rises:
    """Hours ahead and, last, their peak, x places of CURVE."""

    general: Floats
    own: dict[SeriesKey, Floats]

    def of(self, keys: tuple[SeriesKey, ...]) -> Floats:
        """For these series."""
        return np.stack([self.own.get(key, self.general) for key in keys])


def rises_of(history: DemandHistory, horizon: int) -> Rises:
    """The rises in a history; without enough of it, none."""
    own: dict[SeriesKey, Floats] = {}
    for key, gpus, first in zip(history.keys, history.gpus, history.first, strict=True):
        demand = gpus[first:] + SMALLEST_DEMAND
        count = len(demand) - horizon
        if count < LEAST_HOURS:
            continue
        later = np.stack([demand[ahead : ahead + count] for ahead in range(1, horizon + 1)])
        ratios = np.concatenate([later, later.max(axis=0)[None]]) / demand[:count]
        own[key] = np.quantile(ratios, CURVE, axis=1).T
    general = np.mean(list(own.values()), axis=0) if own else np.ones((horizon + 1, len(CURVE)))
    return Rises(general, own)
