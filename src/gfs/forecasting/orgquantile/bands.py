"""A forecast before calibration: the gate's mixture of two opinions, and a width.

One opinion is that the last value stays, the other is what was learned: the median of the fit for all, with what
is added for the organization, averaged with that of the network. The width is the distance from median to 0.95
bound, the mean of the fit with and without the addition. Hours beyond the fitted ones take that of the last one,
without the network, and a width that grows with the square root of the hours. The fit takes features beyond the
range it has seen as the end of that range: a line is not believed where nothing was learned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gfs.forecasting.history import DAY_HOURS, DemandHistory, Floats, Ints, SeriesKey
from gfs.forecasting.orgquantile.features import Single, calendar_from, features_of
from gfs.forecasting.orgquantile.gate import OPINIONS, Gate
from gfs.forecasting.orgquantile.model import Coefficients
from gfs.forecasting.orgquantile.network import Network
from gfs.forecasting.orgquantile.tables import Tables

NETWORK_SHARE = 0.6
"""Of the network in what the fits say."""
NARROWEST = 0.25
"""Units: the least width."""
SCORED_AGE = DAY_HOURS
"""Hours since its first record from which on forecasts of a series are scored: before, its unit is a guess."""
FIGURES = ("middle", "width", "fitted", "anchor", "unit", "there", "unscored")


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """A forecast before calibration. All figures are in one array, from which an hour is cut at once."""

    sheet: Floats
    """Figures x hours ahead x series: the figures below, one after the other."""
    middle: Floats = field(init=False)
    """Hours x series, like all figures."""
    width: Floats = field(init=False)
    """From the middle to the 0.95 bound: the fitted width, stretched."""
    fitted: Floats = field(init=False)
    """That width before it was stretched."""
    anchor: Floats = field(init=False)
    """The last value."""
    unit: Floats = field(init=False)
    """GPUs that the opinions are counted in."""
    there: Floats = field(init=False)
    """1 for a series that had a record by then, else 0."""
    unscored: Floats = field(init=False)
    """0 for a series that was known for a day, else infinity: added to a score, it makes it no score."""
    opinions: Floats = field(init=False)
    """Opinions x hours x series: offsets from the anchor, in units."""

    def __post_init__(self) -> None:
        for place, name in enumerate(FIGURES):
            object.__setattr__(self, name, self.sheet[place])
        object.__setattr__(self, "opinions", self.sheet[len(FIGURES) :])

    @classmethod
    def blank(cls, hours: int, series: int) -> Bands:
        """To be filled in."""
        return cls(np.zeros((len(FIGURES) + OPINIONS, hours, series)))

    def first(self, hours: int) -> Bands:
        """The first hours alone."""
        return Bands(self.sheet[:, :hours])


class Known(NamedTuple):
    """What is known at an origin."""

    window: Floats
    """The LOOK_BACK hours before it x series."""
    losses: Ints
    """Of the opinions, in the hours over which they are compared."""
    stretch: Floats
    """Per series: by what fitted widths are multiplied."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Coefficients laid out for the series asked about."""

    hourly: Single
    """Hours of the day x hours ahead x levels x features."""
    added: Single
    """Hours ahead x levels x features x series."""
    lowest: Single
    """Hours ahead x features x 1."""
    highest: Single
    network: Network | None
    gate: Gate

    @classmethod
    def of(cls, coefficients: Coefficients, keys: tuple[SeriesKey, ...], gate: Gate) -> Mixture:
        """For these series; to those without a fit of their own nothing is added."""
        none = np.zeros(coefficients.hourly.shape[1:])
        added = np.stack([coefficients.added.get(key, none) for key in keys], axis=-1)
        return cls(
            coefficients.hourly.transpose(0, 2, 1, 3).astype(np.float32),
            np.ascontiguousarray(added.transpose(1, 0, 2, 3), dtype=np.float32),
            coefficients.lowest[..., None],
            coefficients.highest[..., None],
            coefficients.network,
            gate,
        )

    def bands(self, known: Known, hour: int, history: DemandHistory, hours: int) -> Bands:
        """What the gate makes of the opinions at one origin."""
        window = known.window
        fitted = len(self.lowest)
        ahead: Ints | slice = slice(hours) if hours <= fitted else np.minimum(np.arange(hours), fitted - 1)
        weekday = int(history.weekday_of(np.array(hour)))
        ages = hour - history.start - history.first
        features = features_of(window, ages, calendar_from(hour % DAY_HOURS, weekday, hours), hours)
        seen = np.maximum(features.values, self.lowest[ahead])
        np.minimum(seen, self.highest[ahead], out=seen)
        hourly = self.hourly[(hour + np.arange(hours)) % DAY_HOURS, np.arange(fitted)[ahead]]
        general = np.matmul(hourly, seen)
        own = general + np.einsum("hfs,hlfs->hls", seen, self.added[ahead])
        shares = self.gate.shares(known.losses)[1, ahead]
        spreads = (own[:, 1] - own[:, 0] + general[:, 1] - general[:, 0]) / 2
        spread = np.maximum(spreads, NARROWEST)
        if hours > fitted:
            spread *= np.sqrt(np.maximum((np.arange(hours) + 1) / fitted, 1.0))[:, None]
        bands = Bands.blank(hours, window.shape[1])
        bands.anchor[:], bands.unit[:] = features.anchor, features.unit
        learned = bands.opinions[1]
        learned[:] = own[:, 0]
        if self.network is not None:
            learned[:fitted] *= 1 - NETWORK_SHARE
            learned[:fitted] += NETWORK_SHARE * self.network.offsets(features.values, hour)
        offset = shares * learned
        np.maximum(features.anchor + features.unit * offset, 0.0, out=bands.middle)
        np.multiply(features.unit, spread, out=bands.fitted)
        np.multiply(bands.fitted, known.stretch, out=bands.width)
        bands.there[:] = ages > 0
        bands.unscored[:] = np.where(ages >= SCORED_AGE, 0.0, np.inf)
        return bands


def held_out_scores(tables: Tables, hourly: Floats, since: int) -> tuple[Floats, Floats]:
    """Scores of the fit for all from an hour on, all series together: hours ahead x cases, and of the peak."""
    hours, tops = [], []
    ahead = np.arange(tables.horizon)[:, None]
    for table in tables:
        use = table.origins >= since
        use[len(use) - tables.horizon + 1 :] = False
        coefficients = hourly[(table.origins[use] + ahead) % DAY_HOURS, :, ahead]
        levels = np.einsum("hfn,hnlf->lhn", table.x[..., use], coefficients)
        width = np.maximum(levels[1] - levels[0], NARROWEST)
        hours.append((table.y[:, use] - levels[0]) / width)
        middle = levels[0].max(axis=0)
        tops.append((table.y[:, use].max(axis=0) - middle) / ((levels[0] + width).max(axis=0) - middle))
    if not hours:
        return np.empty((tables.horizon, 0)), np.empty(0)
    return np.concatenate(hours, axis=1), np.concatenate(tops)
