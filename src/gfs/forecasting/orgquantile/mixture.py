"""A forecast before calibration: two experts, weighted by their recent losses, and a width.

One expert predicts the last value. The other is fitted: the median of the regression with the organization's
correction, averaged with that of the network. The width is the distance from median to 0.95 bound, the mean of the
regression with and without the correction. Hours beyond the fitted ones take the regression of the last one, without
the network, and a width that grows with the square root of the hours. The regression takes features beyond the range
it was fitted on as the end of that range: it is not extrapolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gfs.forecasting.history import DAY_HOURS, DemandHistory, Floats, Ints, SeriesKey
from gfs.forecasting.orgquantile.features import Single, calendar_from, features_of
from gfs.forecasting.orgquantile.network import MedianNetwork
from gfs.forecasting.orgquantile.training import Coefficients, TrainingSet

NETWORK_SHARE = 0.6
"""Of the network in the fitted median."""
NARROWEST = 0.25
"""Scales: the least width."""
SCORED_AGE = DAY_HOURS
"""Hours since its first record from which on forecasts of a series are scored: before, its scale is a guess."""

EXPERTS = 2
FIXED_POINT = 1 << 16
"""Losses are summed in whole parts of a scale: sums updated by adding and subtracting are exact in any order."""
START_LOSS = 12.0
"""Scales of loss that every expert is taken to have had already, so that a few hours decide little."""
LARGEST_LOSS = 1000.0


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """The weights of the experts, per organization and hour ahead, from their absolute errors over the last weeks.

    weight_i ~ exp(-sharpness * (loss_i - best) / (best + START_LOSS)), with the fitted expert's loss raised by both
    handicaps. Where a series does not change, only the last value remains.
    """

    sharpness: float = 60.0
    handicap: float = 0.02
    """How much better than the last value the fitted expert must have been to weigh as much."""
    start_handicap: float = 3.0
    """Scales of loss that the fitted expert is taken to have had more: the last value counts until proved wrong."""

    def of(self, losses: Ints) -> Floats:
        """From the sums of losses: experts x ... -> the same shape, adding up to 1."""
        loss = losses / FIXED_POINT
        loss[1:] *= 1 + self.handicap
        loss[1:] += self.start_handicap
        best = loss.min(axis=0)
        weights = np.exp(-self.sharpness * (loss - best) / (best + START_LOSS))
        normalised: Floats = weights / weights.sum(axis=0)
        return normalised


def fixed_point(loss: Floats) -> Ints:
    """Losses in whole parts of a scale."""
    parts: Ints = np.rint(np.minimum(loss, LARGEST_LOSS) * FIXED_POINT).astype(np.int64)
    return parts


@dataclass(slots=True, eq=False)
class Bands:
    """A forecast before calibration. All figures are in one array, from which an hour is cut at once.

    Each figure is hours x series. middle; width: from the middle to the 0.95 bound; fitted: the width before it was
    stretched for volatility; last: the last value; scale; exists: 1 for a series that had a record by then, else 0;
    unscored: 0 for a series known for a day, else infinity (added to a score, it makes it none).
    experts: experts x hours x series, scaled offsets from the last value.
    """

    sheet: Floats
    """The figures, in the order above, and the experts, x hours x series."""
    middle: Floats = field(init=False)
    width: Floats = field(init=False)
    fitted: Floats = field(init=False)
    last: Floats = field(init=False)
    scale: Floats = field(init=False)
    exists: Floats = field(init=False)
    unscored: Floats = field(init=False)
    experts: Floats = field(init=False)

    def __post_init__(self) -> None:
        sheet = self.sheet
        self.middle, self.width, self.fitted, self.last, self.scale, self.exists, self.unscored = sheet[:-EXPERTS]
        self.experts = sheet[-EXPERTS:]

    @classmethod
    def blank(cls, hours: int, series: int) -> Bands:
        """To be filled in."""
        return cls(np.zeros((7 + EXPERTS, hours, series)))

    def with_more(self, series: int) -> Bands:
        """The same, and so many series that did not exist."""
        absent = Bands.blank(self.sheet.shape[1], series)
        absent.width[:] = absent.fitted[:] = absent.scale[:] = 1.0
        absent.unscored[:] = np.inf
        return Bands(np.concatenate([self.sheet, absent.sheet], axis=2))


class Known(NamedTuple):
    """What is known at an origin."""

    window: Floats
    """The LOOK_BACK hours before it x series."""
    losses: Ints
    """Of the experts, in the hours over which they are compared."""
    stretch: Floats
    """Per series: by what fitted widths are multiplied."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Coefficients laid out for the series asked about."""

    hourly: Single
    """Hours of the day x hours ahead x levels x features."""
    corrections: Single
    """Hours ahead x levels x features x series."""
    lowest: Single
    """Hours ahead x features x 1."""
    highest: Single
    network: MedianNetwork | None
    weights: ExpertWeights

    @classmethod
    def of(cls, coefficients: Coefficients, keys: tuple[SeriesKey, ...], weights: ExpertWeights) -> Mixture:
        """For these series; those without a fit of their own have no correction."""
        none = np.zeros(coefficients.hourly.shape[1:])
        corrections = np.stack([coefficients.corrections.get(key, none) for key in keys], axis=-1)
        return cls(
            coefficients.hourly.transpose(0, 2, 1, 3).astype(np.float32),
            np.ascontiguousarray(corrections.transpose(1, 0, 2, 3), dtype=np.float32),
            coefficients.lowest[..., None],
            coefficients.highest[..., None],
            coefficients.network,
            weights,
        )

    def bands(self, known: Known, hour: int, history: DemandHistory, hours: int) -> Bands:
        """The forecast at one origin."""
        fitted = len(self.lowest)
        ahead: Ints | slice = slice(hours) if hours <= fitted else np.minimum(np.arange(hours), fitted - 1)
        weekday = int(history.weekday_of(np.array(hour)))
        ages = hour - history.start - history.first
        features = features_of(known.window, ages, calendar_from(hour % DAY_HOURS, weekday, hours), hours)
        inside = np.maximum(features.values, self.lowest[ahead])
        np.minimum(inside, self.highest[ahead], out=inside)
        hourly = self.hourly[(hour + np.arange(hours)) % DAY_HOURS, np.arange(fitted)[ahead]]
        general = np.matmul(hourly, inside)
        own = general + np.einsum("hfs,hlfs->hls", inside, self.corrections[ahead])
        width = np.maximum((own[:, 1] - own[:, 0] + general[:, 1] - general[:, 0]) / 2, NARROWEST)
        if hours > fitted:
            width *= np.sqrt(np.maximum((np.arange(hours) + 1) / fitted, 1.0))[:, None]
        bands = Bands.blank(hours, known.window.shape[1])
        bands.last[:], bands.scale[:] = features.last, features.scale
        median = bands.experts[1]
        median[:] = own[:, 0]
        if self.network is not None:
            median[:fitted] *= 1 - NETWORK_SHARE
            median[:fitted] += NETWORK_SHARE * self.network.offsets(features.values, hour)
        offset = self.weights.of(known.losses)[1, ahead] * median
        np.maximum(features.last + features.scale * offset, 0.0, out=bands.middle)
        np.multiply(features.scale, width, out=bands.fitted)
        np.multiply(bands.fitted, known.stretch, out=bands.width)
        bands.exists[:] = ages > 0
        bands.unscored[:] = np.where(ages >= SCORED_AGE, 0.0, np.inf)
        return bands


def held_out_scores(rows: TrainingSet, fits: Sequence[tuple[int, Coefficients]], since: int) -> tuple[Floats, Floats]:
    """Scores of fits for all from an hour on, all series together: hours ahead x cases, and of the peak.

    `fits`: the hour that each was fitted until, in order. An origin counts for the last one that does not know it.
    """
    hours, peaks = [], []
    ahead = np.arange(rows.horizon)[:, None]
    untils, hourly = np.array([until for until, _ in fits]), np.stack([fit.hourly for _, fit in fits])
    for series in rows:
        use = series.origins >= max(since, untils[0])
        use[len(use) - rows.horizon + 1 :] = False
        origins = series.origins[use]
        which = np.searchsorted(untils, origins, side="right") - 1
        coefficients = hourly[which, (origins + ahead) % DAY_HOURS, :, ahead]
        levels = np.einsum("hfn,hnlf->lhn", series.x[..., use], coefficients)
        width = np.maximum(levels[1] - levels[0], NARROWEST)
        hours.append((series.y[:, use] - levels[0]) / width)
        middle = levels[0].max(axis=0)
        peaks.append((series.y[:, use].max(axis=0) - middle) / ((levels[0] + width).max(axis=0) - middle))
    if not hours:
        return np.empty((rows.horizon, 0)), np.empty(0)
    return np.concatenate(hours, axis=1), np.concatenate(peaks)
