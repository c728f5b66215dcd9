"""The fitted coefficients: for every hour of the day one set for all organizations, and what is added for each.

Per hour ahead two quantiles are fitted, the median and the 0.95 bound, as offsets from the last value in units of
the features, in three steps. All rows of all series give one fit. Drawn towards it, the rows of each hour of the
day (of the hour forecast) give a fit of their own: when the working day ends, demand falls at once and not as a
wave. What that leaves unexplained of an organization with history enough gives what is added for it, drawn towards
0. Recent hours weigh more. With few rows all are drawn more strongly, in the end to one constant for all hours of
the day: how far such series move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, Floats, Ints, SeriesKey
from gfs.forecasting.orgquantile.features import COUNT, Single
from gfs.forecasting.orgquantile.network import Network, fit_network
from gfs.forecasting.orgquantile.regression import Rows, Steps, quantile_regression, ridge
from gfs.forecasting.orgquantile.tables import Table, Tables, thinned


@dataclass(frozen=True, slots=True)
class Level:
    """How one quantile is fitted: over all rows, per hour of the day, per organization."""

    pooled: Steps
    hourly: Steps
    own: Steps
    restless: float
    """Rows weigh as this power of the unit's share of demand: 0 counts errors in units, 1 in shares of demand."""


MEDIAN = Level(Steps(0.5, 0.003, 4, 0.3), Steps(0.5, 0.1, 3, 0.3), Steps(0.5, 0.05, 3, 0.3), 0.5)
BOUND = Level(Steps(0.95, 0.01, 6, 0.1), Steps(0.95, 0.5, 3, 0.1), Steps(0.95, 0.3, 3, 0.1), 0.0)


@dataclass(frozen=True, slots=True)
class Training:
    """How the coefficients are fitted.

    Penalties, half-life, steps and smoothing were chosen on hours before the last fifth of the paper's trace; the
    numbers of rows by the time that fitting may take.
    """

    levels: tuple[Level, ...] = (MEDIAN, BOUND)
    half_life: float = 3000.0
    """Hours after which an hour weighs half."""
    pooled_rows: int = 24_000
    own_rows: int = 4_500
    """Of each series at most so many, evenly thinned; neighbouring hours say nearly the same."""
    all_rows: int = 220_000
    """Of all series together."""
    least_hours: int = 6 * WEEK_HOURS
    """An organization with fewer has nothing added: there are 60 coefficients to learn."""

    fewest_rows: int = 24
    """With fewer nothing is fitted."""
    enough_rows: int = 5_000
    """With fewer rows of all series penalties grow: what few rows say of 60 coefficients is chance."""
    stiffness: float = 2.0
    """As which power of the rows missing."""

    network_rows: int = 2_000
    """With fewer there is no network."""

    def rows_of_each(self, series: int) -> int:
        """How many rows of each of so many series are used."""
        return min(self.own_rows, -(-self.all_rows // max(series, 1)))


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """What was fitted."""

    hourly: Floats
    """Hours of the day x levels x hours ahead x features."""
    added: dict[SeriesKey, Floats]
    """Levels x hours ahead x features."""
    lowest: Single
    """Hours ahead x features: the range of the features in the fit. Beyond it nothing was learned."""
    highest: Single
    network: Network | None
    """None if there was too little to learn from."""


def fit_coefficients(tables: Tables, ends: list[int], training: Training) -> list[Coefficients]:
    """One set of coefficients for each end, knowing nothing of demand from that hour (number) on."""
    fits = [_Fit(end, training, tables) for end in ends]
    for table in tables:
        for fit in fits:
            fit.gather(table)
    for fit in fits:
        fit.fit_hourly()
    for table in tables:
        for fit in fits:
            fit.fit_added(table)
    return [Coefficients(fit.hourly, fit.added, fit.lowest, fit.highest, fit.network) for fit in fits]


class _Fit:
    """Fitting with what was known at one end. Features are divided by their size while fitting."""

    def __init__(self, end: int, training: Training, tables: Tables) -> None:
        self.end, self.training = end, training
        self.hourly = np.zeros((DAY_HOURS, len(training.levels), tables.horizon, COUNT))
        self.added: dict[SeriesKey, Floats] = {}
        self.lowest = np.zeros((tables.horizon, COUNT), dtype=np.float32)
        self.highest = np.zeros((tables.horizon, COUNT), dtype=np.float32)
        self._scale = np.ones((tables.horizon, COUNT), dtype=np.float32)
        self._every = max(1, -(-tables.rows // training.pooled_rows))
        self.network: Network | None = None
        self._gathered: list[tuple[Single, Single, Ints, Single]] = []

    def gather(self, table: Table) -> None:
        """Take some rows for the fits over all series."""
        known = table.origins[table.origins < self.end]
        use = thinned(known, table.every * self._every)
        self._gathered.append((table.x[..., use], table.y[:, use], table.origins[use], table.share[use]))

    def fit_hourly(self) -> None:
        """One fit for all, then one for each hour of the day; with hardly a row, only the last value counts."""
        if not self._gathered:
            return
        xs, ys, origins, share = (np.concatenate(parts, axis=-1) for parts in zip(*self._gathered, strict=True))
        self._gathered = []
        done = origins + len(xs) <= self.end
        if done.sum() >= self.training.network_rows:
            weight = self._weights(origins[done], share[done])[0]
            self.network = fit_network(xs[..., done], ys[:, done], weight, origins[done])
        for ahead in range(len(xs)):
            use = origins + ahead < self.end
            x, y, weights = xs[ahead][:, use], ys[ahead, use], self._weights(origins[use], share[use])
            if len(y) < self.training.fewest_rows:
                continue
            times = max(1.0, self.training.enough_rows / len(y)) ** self.training.stiffness
            self.lowest[ahead], self.highest[ahead] = x.min(axis=1), x.max(axis=1)
            scale = self._scale[ahead] = np.sqrt((x**2).mean(axis=1)) + np.float32(1e-3)
            x /= scale[:, None]
            hours = (origins[use] + ahead) % DAY_HOURS
            whole = Rows(x, y)
            parts = [np.flatnonzero(hours == hour) for hour in range(DAY_HOURS)]
            of_hours = [Rows(x[:, part], y[part]) for part in parts]
            start = ridge(whole, weights[0], times * self.training.levels[0].pooled.penalty, COUNT)
            for place, (level, weight) in enumerate(zip(self.training.levels, weights, strict=True)):
                pooled, hourly = level.pooled.stiffened(times), level.hourly.held_by(times)
                start = quantile_regression(whole, weight, pooled, start, np.zeros(COUNT))
                for hour, (rows, part) in enumerate(zip(of_hours, parts, strict=True)):
                    fit = quantile_regression(rows, weight[part], hourly, start, start) if len(part) else start
                    self.hourly[hour, place, ahead] = fit / scale

    def fit_added(self, table: Table) -> None:
        """What one organization does otherwise than all."""
        known = table.origins[table.origins < self.end]
        if not len(known) or self.end - known[0] < self.training.least_hours:
            return
        none = np.zeros(COUNT)
        added = np.empty(self.hourly.shape[1:])
        for ahead in range(added.shape[1]):
            use = np.searchsorted(table.origins, self.end - ahead)
            x, weights = table.x[ahead, :, :use], self._weights(table.origins[:use], table.share[:use])
            hours = (table.origins[:use] + ahead) % DAY_HOURS
            for place, (level, weight) in enumerate(zip(self.training.levels, weights, strict=True)):
                hourly = self.hourly[hours, place, ahead].astype(np.float32)
                rest = table.y[ahead, :use] - np.einsum("fn,nf->n", x, hourly)
                rows = Rows(x / self._scale[ahead][:, None], rest)
                added[place, ahead] = quantile_regression(rows, weight, level.own, none, none) / self._scale[ahead]
        self.added[table.key] = added

    def _weights(self, origins: Ints, share: Single) -> list[Single]:
        """Of some rows, for each level."""
        recent = np.exp2((origins - self.end) / self.training.half_life).astype(np.float32)
        return [recent * share ** np.float32(level.restless) for level in self.training.levels]
