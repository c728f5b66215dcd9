"""The fitted coefficients: one set for all organizations, and one for each that has history enough.

Per hour ahead two quantiles are fitted, the median and the 0.95 bound, as offsets from the last value in units of
the features. The pooled fit takes rows of every series; an organization's own fit is drawn towards the pooled one,
and takes its place only where the data says so. Recent hours weigh more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfs.forecasting.history import WEEK_HOURS, Floats, Ints, SeriesKey
from gfs.forecasting.orgquantile.features import COUNT
from gfs.forecasting.orgquantile.regression import quantile_regression, ridge
from gfs.forecasting.orgquantile.tables import Table, Tables

LEVELS = (0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Training:
    """How the coefficients are fitted.

    Penalties, half-life and steps were chosen on hours 70-80% of the paper's trace and of the Microsoft clusters;
    the numbers of rows by the time that fitting may take.
    """

    pooled_penalty: float = 0.003
    own_penalty: float = 0.03
    half_life: float = 1500.0
    """Hours after which an hour weighs half."""
    steps: tuple[int, ...] = (6, 4)
    """Of each level. More of the upper one follow the tail of the past too closely."""
    pooled_rows: int = 10_000
    own_rows: int = 4_000
    """Of each series at most so many, evenly thinned; neighbouring hours say nearly the same."""
    all_rows: int = 220_000
    """Of all series together."""
    least_hours: int = 6 * WEEK_HOURS
    """An organization with fewer has no fit of its own: there are 80 coefficients to learn."""

    def rows_of_each(self, series: int) -> int:
        """How many rows of each of so many series are used."""
        return min(self.own_rows, -(-self.all_rows // max(series, 1)))


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """Per level, hour ahead and feature."""

    pooled: Floats
    own: dict[SeriesKey, Floats]
    lowest: Floats
    """Hours ahead x features: the range of the features in the pooled fit. Beyond it nothing was learned."""
    highest: Floats


def fit_coefficients(tables: Tables, ends: dict[int, int], training: Training) -> list[Coefficients]:
    """One set of coefficients for each end, knowing nothing of demand from that hour (number) on.

    The number with each end says of how many rows one is used.
    """
    fits = [_Fit(end, thinning, training, tables) for end, thinning in ends.items()]
    for table in tables:
        for fit in fits:
            fit.gather(table)
    for fit in fits:
        fit.fit_pooled()
    for table in tables:
        for fit in fits:
            fit.fit_own(table)
    return [Coefficients(fit.pooled / fit.scale, fit.own, fit.lowest, fit.highest) for fit in fits]


class _Fit:
    """Fitting with what was known at one end. Features are divided by their size while fitting."""

    def __init__(self, end: int, thinning: int, training: Training, tables: Tables) -> None:
        self.end, self.thinning, self.training = end, thinning, training
        self.pooled = np.zeros((len(LEVELS), tables.horizon, COUNT))
        self.scale = np.ones((tables.horizon, COUNT))
        self.lowest, self.highest = np.zeros((tables.horizon, COUNT)), np.zeros((tables.horizon, COUNT))
        self.own: dict[SeriesKey, Floats] = {}
        self._stride = thinning * max(1, -(-tables.rows // training.pooled_rows))
        self._gathered: list[tuple[Floats, Floats, Ints]] = []

    def gather(self, table: Table) -> None:
        """Take some rows for the pooled fit."""
        use = np.flatnonzero(table.origins < self.end)[:: self._stride]
        self._gathered.append((table.x[use], table.y[use], table.origins[use]))

    def fit_pooled(self) -> None:
        """One fit for all; with hardly a row, the last value is all there is to say."""
        if not self._gathered:
            return
        xs, ys, origins = (np.concatenate(parts) for parts in zip(*self._gathered, strict=True))
        self._gathered = []
        for ahead in range(xs.shape[1]):
            use = origins + ahead < self.end
            x, y = xs[use, ahead], ys[use, ahead]
            if len(y) <= COUNT:
                continue
            self.lowest[ahead], self.highest[ahead] = x.min(axis=0), x.max(axis=0)
            self.scale[ahead] = np.sqrt((x**2).mean(axis=0)) + 1e-3
            x = x / self.scale[ahead]
            weight = self._weight(origins[use])
            start = ridge(x, y, weight, self.training.pooled_penalty)
            for level, q in enumerate(LEVELS):
                start = quantile_regression(
                    x,
                    y,
                    q,
                    start=start,
                    weight=weight,
                    prior=np.zeros(COUNT),
                    penalty=self.training.pooled_penalty,
                    steps=self.training.steps[level],
                )
                self.pooled[level, ahead] = start

    def fit_own(self, table: Table) -> None:
        """The fit of one organization, starting from the pooled one and drawn towards it."""
        known = table.origins[table.origins < self.end]
        if not len(known) or self.end - known[0] < self.training.least_hours:
            return
        own = np.empty_like(self.pooled)
        for ahead in range(self.pooled.shape[1]):
            use = np.flatnonzero(table.origins + ahead < self.end)[:: self.thinning]
            x = table.x[use, ahead] / self.scale[ahead]
            for level, q in enumerate(LEVELS):
                own[level, ahead] = quantile_regression(
                    x,
                    table.y[use, ahead],
                    q,
                    start=self.pooled[level, ahead],
                    weight=self._weight(table.origins[use]),
                    prior=self.pooled[level, ahead],
                    penalty=self.training.own_penalty,
                    steps=self.training.steps[level],
                )
        self.own[table.key] = own / self.scale

    def _weight(self, origins: Ints) -> Floats:
        weight: Floats = 0.5 ** ((self.end - origins) / self.training.half_life)
        return weight
