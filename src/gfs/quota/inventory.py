"""One bound on the pool's HP demand from the bounds of its organizations.

Each rule gives, for H = 1, 2, ..., what the pool's HP demand stays at or below over the next H hours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class DemandForecast(Protocol):
    """The HP demand of one pool in the coming hours, hour 1 being the one that begins now."""

    @property
    def organizations(self) -> tuple[str, ...]:
        """Whose demand."""
        ...

    @property
    def forecaster(self) -> str:
        """The name of the forecaster."""
        ...

    @property
    def mean(self) -> Floats:
        """Organizations x hours: what is expected."""
        ...

    @property
    def upper(self) -> Floats:
        """Organizations x hours: what is not exceeded with probability p."""
        ...

    def total_peak(self, hours: int, p: float | None = None) -> float:
        """What all organizations together stay at or below over so many hours, with probability p or another."""
        ...


@dataclass(frozen=True, slots=True)
class LaterForecast:
    """What a forecast says of the hours after its first ones."""

    organizations: tuple[str, ...]
    forecaster: str
    mean: Floats
    upper: Floats

    @classmethod
    def of(cls, forecast: DemandForecast, hours: int) -> Self:
        """Without so many hours."""
        return cls(forecast.organizations, forecast.forecaster, forecast.mean[:, hours:], forecast.upper[:, hours:])

    def total_peak(self, hours: int, p: float | None = None) -> float:
        """The sum of the organizations' peaks: a bound of the total over later hours only is not known."""
        return float(self.upper[:, :hours].max(axis=1).sum())


Aggregate = Callable[[DemandForecast], list[float]]
"""From the forecast to the pool's bound over 1, 2, ... hours."""


def sum_of_peaks(forecast: DemandForecast) -> list[float]:
    """The paper's rule: every organization reaches the peak of its bounds, all at once."""
    peaks: list[float] = np.add.reduce(np.maximum.accumulate(forecast.upper, axis=1), axis=0).tolist()
    return peaks


def independent(forecast: DemandForecast) -> list[float]:
    """Organizations vary independently: means add up, and so do variances; then the peak.

    An organization's bound lies z_p sigma above its mean, so the root of the sum of the squared distances is the
    total's z_p sigma.
    """
    mean = forecast.mean
    above = forecast.upper - mean
    bounds = mean.sum(axis=0) + np.sqrt((above * above).sum(axis=0))
    peaks: list[float] = np.maximum.accumulate(bounds).tolist()
    return peaks


def calibrated_total(forecast: DemandForecast) -> list[float]:
    """The forecaster's own bound on the peak of the total."""
    return [forecast.total_peak(hours) for hours in range(1, forecast.upper.shape[1] + 1)]


AGGREGATES: dict[str, Aggregate] = {"sum-of-peaks": sum_of_peaks, "independent": independent, "total": calibrated_total}
"""The rules by name."""
