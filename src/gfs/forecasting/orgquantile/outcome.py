"""The forecast handed out: bands and the scores that calibrate them, for any probability asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gfs.forecasting.history import Floats, SeriesKey
from gfs.forecasting.orgquantile.bands import Bands
from gfs.forecasting.orgquantile.calibration import Scores, curve_at
from gfs.forecasting.orgquantile.track import Booleans, Past, peak, total_peak


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """How far demand went in general, known from fitting: for organizations with few scores of their own."""

    hours: Floats
    """Hours ahead x places."""
    peak: Floats


@dataclass(frozen=True, slots=True, eq=False)
class OrgQuantileForecast:
    """Bounds of the coming hours, of their peak, and of the peak of a sum, each calibrated on its own past."""

    keys: tuple[SeriesKey, ...]
    bands: Bands
    scores: Scores
    peaks: Scores
    past: Past
    curves: Curves
    rises: Floats
    """Series x hours ahead and, last, their peak, x places: how far above its last value a series rises."""
    unsettled: Booleans
    """Per series: new, or its level has shifted, so that its bounds have a floor."""

    @property
    def hours(self) -> int:
        """How many hours ahead."""
        return int(self.bands.middle.shape[1])

    def mean(self) -> Floats:
        """The middle of the bands."""
        return self.bands.middle

    def quantile(self, p: float) -> Floats:
        """What demand stays at or below with probability p: series x hours."""
        ahead = np.minimum(np.arange(self.hours), self.scores.known.shape[1] - 1)
        reach = self.scores.reach(p, self.curves.hours)[:, ahead]
        bound = self.bands.middle + self.bands.width * reach
        floor: Floats = self._floor(p)[:, ahead]
        return np.maximum(bound, floor)

    def peak_quantile(self, p: float, hours: int) -> Floats:
        """What the highest demand of the next hours stays at or below with probability p: per series."""
        middle, width = peak(self.bands, hours)
        fitted = self.scores.known.shape[1]
        scores = self.peaks if hours >= fitted else self.past.peak_scores(hours)
        floor = self._floor(p)[:, -1] if hours >= fitted else self._floor(p)[:, :hours].max(axis=1)
        bound: Floats = np.maximum(middle + width * scores.reach(p, self.curves.peak), floor)
        return bound

    def total_peak_quantile(self, p: float, hours: int, rows: Sequence[int]) -> float:
        """What the highest sum of these series in the next hours stays at or below with probability p."""
        chosen = list(rows)
        if not chosen:
            return 0.0
        middle, width = total_peak(self.bands, chosen, hours)
        scores = self.past.total_peak_scores(chosen, min(hours, self.scores.known.shape[1]))
        floor = np.where(self.unsettled, self.bands.anchor, 0.0)[chosen].sum() if p > 0.5 else 0.0
        return max(middle + width * float(scores.reach(p, self.curves.peak)), float(floor))

    def _floor(self, p: float) -> Floats:
        """Series x hours ahead and, last, their peak."""
        if p <= 0.5 or not self.unsettled.any():
            return np.zeros(self.rises.shape[:2])
        rise = np.maximum(curve_at(self.rises, p), 1.0)
        return np.where(self.unsettled[:, None], self.bands.anchor[:, None] * rise, 0.0)
