"""A forecast before calibration: the gate's mixture of three opinions, and a width.

The middle is the mixture of the last value, the pooled median and the organization's own median. The width is the
distance from median to 0.95 bound of the two fits, mixed in the same proportion. Hours beyond the fitted ones
take the fit of the last one, and a width that grows with the square root of the hours. Features beyond the range
that the fit has seen are taken as the end of that range: a line is not believed where nothing was learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gfs.forecasting.history import DAY_HOURS, DemandHistory, Floats, Ints, SeriesKey
from gfs.forecasting.orgquantile.features import clock_from, features_of
from gfs.forecasting.orgquantile.gate import Gate
from gfs.forecasting.orgquantile.model import Coefficients
from gfs.forecasting.orgquantile.tables import Tables

NARROWEST = 0.25
"""Units: the least width."""


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """A forecast before calibration: series x hours ahead."""

    opinions: Floats
    """Opinions x series x hours: offsets from the anchor, in units."""
    anchor: Floats
    unit: Floats
    middle: Floats
    width: Floats

    def first(self, hours: int) -> Bands:
        """The first hours alone."""
        if hours == self.middle.shape[1]:
            return self
        return replace(
            self, opinions=self.opinions[..., :hours], middle=self.middle[:, :hours], width=self.width[:, :hours]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Coefficients laid out for the series asked about."""

    pooled: Floats
    own: Floats
    lowest: Floats
    highest: Floats
    gate: Gate

    @classmethod
    def of(cls, coefficients: Coefficients, keys: tuple[SeriesKey, ...], gate: Gate) -> Mixture:
        """For these series; those without a fit of their own have the pooled one."""
        own = np.stack([coefficients.own.get(key, coefficients.pooled) for key in keys])
        return cls(coefficients.pooled, own, coefficients.lowest, coefficients.highest, gate)

    def bands(self, window: Floats, losses: Ints, hour: int, history: DemandHistory, hours: int) -> Bands:
        """What the gate makes of the opinions at one origin, knowing the window before it."""
        fitted = self.pooled.shape[1]
        ahead = np.minimum(np.arange(hours), fitted - 1)
        weekday = int(history.weekday_of(np.array(hour)))
        features = features_of(window, clock_from(hour % DAY_HOURS, weekday, hours), hours)
        seen = np.minimum(np.maximum(features.values, self.lowest[ahead]), self.highest[ahead])
        pooled = np.einsum("shf,lhf->lsh", seen, self.pooled[:, ahead])
        own = np.einsum("shf,slhf->lsh", seen, self.own[:, :, ahead])
        opinions = np.stack([np.zeros_like(own[0]), pooled[0], own[0]])
        shares = self.gate.shares(losses)[..., ahead]
        offset = (shares * opinions).sum(axis=0)
        fits = shares[1] + shares[2]
        own_share = np.where(fits > 1e-6, shares[2] / np.maximum(fits, 1e-6), 0.5)
        spread = own_share * (own[1] - own[0]) + (1 - own_share) * (pooled[1] - pooled[0])
        spread = np.maximum(spread, NARROWEST) * np.sqrt((np.arange(hours) + 1) / (ahead + 1))
        unit, anchor = features.unit[:, None], features.anchor[:, None]
        return Bands(
            opinions, features.anchor, features.unit, np.maximum(anchor + unit * offset, 0.0), unit * spread
        )


def held_out_scores(tables: Tables, pooled: Floats, since: int) -> tuple[Floats, Floats]:
    """Scores of the pooled fit from an hour on, all series together: cases x hours ahead, and of the peak."""
    hours, tops = [], []
    for table in tables:
        use = table.origins >= since
        use[len(use) - tables.horizon + 1 :] = False
        levels = np.einsum("nhf,lhf->lnh", table.x[use], pooled)
        width = np.maximum(levels[1] - levels[0], NARROWEST)
        hours.append((table.y[use] - levels[0]) / width)
        middle = levels[0].max(axis=1)
        tops.append((table.y[use].max(axis=1) - middle) / ((levels[0] + width).max(axis=1) - middle))
    if not hours:
        return np.empty((0, tables.horizon)), np.empty(0)
    return np.concatenate(hours), np.concatenate(tops)
