"""The forecast handed out: bands and the scores that calibrate them, for any probability asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gfs.forecasting.forecast import ForecastRepr
from gfs.forecasting.history import Floats, SeriesKey
from gfs.forecasting.orgquantile.bands import Bands
from gfs.forecasting.orgquantile.calibration import Calibration, Scores, curve_at
from gfs.forecasting.orgquantile.rise import Booleans
from gfs.forecasting.orgquantile.track import Past, peak, total_peak


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """How far demand went in general, known from fitting: for organizations with few scores of their own."""

    hours: Floats
    peak: Floats


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OrgQuantileForecast(ForecastRepr):
    """Bounds of the coming hours, of their peak, and of the peak of a sum, each calibrated on its own past."""

    keys: tuple[SeriesKey, ...]
    bands: Bands
    scores: Calibration
    peaks: Scores
    furthest: Floats
    """Per series: GPUs above the middle beyond which demand has not been of late, and no bound lies."""
    past: Past
    curves: Curves
    rises: Floats
    """Series x hours ahead and, last, their peak, x places: how far above its last value a series rises."""
    unsettled: Booleans
    """Per series: new, or its level has shifted, so that its bounds have a floor."""

    @property
    def fitted(self) -> int:
        """How many hours ahead were fitted."""
        return int(self.rises.shape[1]) - 1

    @property
    def hours(self) -> int:
        """How many hours ahead."""
        return len(self.bands.middle)

    def mean(self) -> Floats:
        """The middle of the bands."""
        return self.bands.middle.T

    def quantile(self, p: float) -> Floats:
        """What demand stays at or below with probability p: series x hours."""
        later = np.sqrt(np.maximum((np.arange(self.hours) + 1) / self.fitted, 1.0))[:, None]
        above = np.minimum(self.bands.width * self.scores.reach(p, self.curves.hours), later * self.furthest)
        bound: Floats = (self.bands.middle + above).T
        if p <= 0.5 or not self.unsettled.any():
            return np.maximum(bound, 0.0)
        ahead = np.minimum(np.arange(self.hours), self.fitted - 1)
        return np.maximum(bound, self._floor(p)[:, ahead])

    def peak_quantile(self, p: float, hours: int) -> Floats:
        """What the highest demand of the next hours stays at or below with probability p: per series."""
        middle, width = peak(self.bands, hours)
        scores = self.peaks if hours >= self.fitted else self.past.peak_scores(hours)
        furthest = self.furthest * np.sqrt(max(hours / self.fitted, 1.0))
        bound: Floats = middle + np.minimum(width * scores.reach(p, self.curves.peak), furthest)
        if p <= 0.5 or not self.unsettled.any():
            return np.maximum(bound, 0.0)
        floor = self._floor(p)
        return np.maximum(bound, floor[:, -1] if hours >= self.fitted else floor[:, :hours].max(axis=1))

    def total_peak_quantile(self, p: float, hours: int, rows: Sequence[int]) -> float:
        """What the highest sum of these series in the next hours stays at or below with probability p."""
        chosen = list(rows)
        if not chosen:
            return 0.0
        middle, width = total_peak(Bands(self.bands.sheet[:, :hours, chosen]))
        scores = self.past.total_peak_scores(chosen, min(hours, self.fitted))
        floor = np.where(self.unsettled, self.bands.anchor[0], 0.0)[chosen].sum() if p > 0.5 else 0.0
        return max(float(middle + width * scores.reach(p, self.curves.peak)[0]), float(floor))

    def _floor(self, p: float) -> Floats:
        """Series x hours ahead and, last, their peak: below it no bound of an unsettled series lies."""
        rise = np.maximum(curve_at(self.rises, p), 1.0)
        return np.where(self.unsettled[:, None], self.bands.anchor[0][:, None] * rise, 0.0)
