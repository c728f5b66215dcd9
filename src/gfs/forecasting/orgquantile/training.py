"""Training rows, and the coefficients fitted on them: one set per hour of the day, and a correction per organization.

Per hour ahead two quantiles are fitted, the median and the 0.95 bound, as offsets from the last value in terms of the
features' scale, in three steps. All rows of all series give one fit. The rows of each hour of the day (of the hour
forecast) give a fit of their own, drawn towards the first: when the working day ends, demand falls at once and not as
a wave. What that leaves unexplained of an organization with enough history gives its correction, drawn towards 0.
Recent hours weigh more. With few rows the penalties grow, in the end to one constant for all hours of the day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats, Ints, SeriesKey
from gfs.forecasting.orgquantile.features import COUNT, LOOK_BACK, Single, calendar_of, features_of
from gfs.forecasting.orgquantile.network import MedianNetwork, fit_network
from gfs.forecasting.orgquantile.regression import QuantileFit, RegressionRows, quantile_regression, ridge_regression

KEPT_ROWS = 40_000
"""A training set with more rows is not kept in memory, but computed again for every pass."""
WARM_ROWS = 500
"""With fewer rows of all series a fit does not go on from an earlier one."""
WARM_UP_PART = 4
"""One in so many hours of a short history is not learned from."""


@dataclass(frozen=True, slots=True, eq=False)
class SeriesRows:
    """The training rows of one series, one per origin."""

    key: SeriesKey
    every: int
    """One of so many origins is used."""
    origins: Ints
    """Numbers of the hours that begin."""
    x: Single
    """Hours ahead x features x origins."""
    y: Single
    """Hours ahead x origins: actual demand, as scaled offset from the last value. Beyond the end of the history the
    last value stands in; no fit may use that."""
    relative_scale: Single
    """Per origin: the scale as share of usual demand."""


class TrainingSet:
    """The rows of every series of a history, thinned to about `most` rows each.

    The first week of a series is left out, of one younger than four weeks the first quarter: there most of what
    the features look back to is not known.
    """

    def __init__(self, history: DemandHistory, horizon: int, most: int) -> None:
        self.horizon = horizon
        self.hours = history.hours
        self._history = history
        self._every, self._columns = [], []
        for first in history.first:
            columns = np.arange(first + warm_up(history.hours - int(first)), history.hours)
            self._every.append(max(1, -(-len(columns) // most)))
            self._columns.append(columns[thinned(history.start + columns, self._every[-1])])
        self.rows = sum(len(columns) for columns in self._columns)
        self._kept = list(self._computed()) if self.rows <= KEPT_ROWS else None

    def __iter__(self) -> Iterator[SeriesRows]:
        return iter(self._kept) if self._kept is not None else self._computed()

    def _computed(self) -> Iterator[SeriesRows]:
        history, ahead = self._history, np.arange(self.horizon)[:, None]
        for row, columns in enumerate(self._columns):
            if not len(columns):
                continue
            series = history.only([row]).padded(history.start - LOOK_BACK)[0]
            hours = history.start + columns + ahead
            windows = sliding_window_view(series, LOOK_BACK)
            # Of origins in a row a view is enough, and what is summed up lies side by side.
            windows = (windows[columns[0] : columns[-1] + 1] if self._every[row] == 1 else windows[columns]).T
            ages = columns - history.first[row]
            features = features_of(windows, ages, calendar_of(hours, history.weekday_of(hours)), self.horizon)
            actual = series[LOOK_BACK + np.minimum(columns + ahead, history.hours - 1)]
            y = ((actual - features.last) / features.scale).astype(np.float32)
            relative = features.relative_scale.astype(np.float32)
            yield SeriesRows(history.keys[row], self._every[row], history.start + columns, features.values, y, relative)


def warm_up(age: int) -> int:
    """Hours after its first record from which on a series of this age is learned from."""
    return min(WEEK_HOURS, age // WARM_UP_PART)


def thinned(origins: Ints, every: int) -> Ints:
    """Positions of one of so many origins: every day other hours, so that all hours of the day are equally frequent."""
    return np.flatnonzero((origins % DAY_HOURS + origins // DAY_HOURS) % every == 0)


@dataclass(frozen=True, slots=True)
class Level:
    """How one quantile is fitted: over all rows, per hour of the day, per organization."""

    pooled: QuantileFit
    hourly: QuantileFit
    own: QuantileFit
    scale_power: float
    """Rows weigh as this power of the relative scale: 0 counts errors in scales, 1 in shares of demand."""


MEDIAN = Level(QuantileFit(0.5, 0.003, 4, 0.3), QuantileFit(0.5, 0.1, 3, 0.3), QuantileFit(0.5, 0.05, 3, 0.3), 0.5)
BOUND = Level(QuantileFit(0.95, 0.01, 6, 0.1), QuantileFit(0.95, 0.5, 3, 0.1), QuantileFit(0.95, 0.3, 3, 0.1), 0.0)


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How the coefficients are fitted.

    Penalties, half-life, steps and smoothing were chosen on hours before the last fifth of the paper's trace; the
    numbers of rows by the time that fitting may take.
    """

    levels: tuple[Level, ...] = (MEDIAN, BOUND)
    half_life: float = 3000.0
    """Hours after which an hour weighs half."""
    pooled_rows: int = 24_000
    own_rows: int = 4_500
    """Of each series at most so many, evenly thinned; neighbouring hours are nearly the same."""
    all_rows: int = 220_000
    """Of all series together."""
    least_hours: int = 6 * WEEK_HOURS
    """An organization with fewer has no correction: there are 60 coefficients to learn."""
    fewest_rows: int = 24
    """With fewer nothing is fitted."""
    enough_rows: int = 5_000
    """With fewer rows of all series penalties grow: few rows cannot tell 60 coefficients from chance."""
    stiffness: float = 2.0
    """As which power of the rows missing."""
    network_rows: int = 2_000
    """With fewer there is no network."""
    network_part: float = 1 / 2
    """A fit that goes on from an earlier one keeps its network until such a part of the history is newer."""

    def rows_of_each(self, series: int) -> int:
        """How many rows of each of so many series are used."""
        return min(self.own_rows, -(-self.all_rows // max(series, 1)))


@dataclass(slots=True, eq=False)
class Coefficients:
    """What was fitted."""

    hourly: Floats
    """Hours of the day x levels x hours ahead x features."""
    corrections: dict[SeriesKey, Floats]
    """Levels x hours ahead x features."""
    lowest: Single
    """Hours ahead x features: the range of the features in the fit, beyond which nothing was learned."""
    highest: Single
    network: MedianNetwork | None = None
    """None if there was too little to learn from."""
    network_until: int = 0
    """Number of the hour that the network was trained until."""


def fit_coefficients(
    rows: TrainingSet, ends: list[int], training: TrainingSettings, start: Coefficients | None = None
) -> list[Coefficients]:
    """One set of coefficients for each end, knowing nothing of demand from that hour (number) on.

    With `start`, an earlier fit, one step from there is enough for each of them; few rows are fitted from scratch.
    """
    start = start if rows.rows >= WARM_ROWS else None
    fits = [_Fit(end, training, rows, start) for end in ends]
    for series in rows:
        for fit in fits:
            fit.gather(series)
    for fit in fits:
        fit.fit_hourly()
    for series in rows:
        for fit in fits:
            fit.fit_correction(series)
    return [fit.result for fit in fits]


class _Fit:
    """Fitting with what was known at one end. Features are divided by their size while fitting."""

    def __init__(self, end: int, training: TrainingSettings, rows: TrainingSet, start: Coefficients | None) -> None:
        self._end, self._training, self._start = end, training, start
        self._hours = rows.hours
        size = (rows.horizon, COUNT)
        hourly: Floats = np.zeros((DAY_HOURS, len(training.levels), *size))
        lowest, highest = np.zeros((2, *size), dtype=np.float32)
        self.result = Coefficients(hourly, {}, lowest, highest)
        self._feature_scale = np.ones(size, dtype=np.float32)
        self._every = max(1, -(-rows.rows // training.pooled_rows))
        self._gathered: list[tuple[Single, Single, Ints, Single]] = []

    def gather(self, rows: SeriesRows) -> None:
        """Take some rows for the fits over all series."""
        known = rows.origins[rows.origins < self._end]
        use = thinned(known, rows.every * self._every)
        self._gathered.append((rows.x[..., use], rows.y[:, use], rows.origins[use], rows.relative_scale[use]))

    def fit_hourly(self) -> None:
        """One fit for all, then one for each hour of the day; with hardly a row, only the last value counts."""
        if not self._gathered:
            return
        xs, ys, origins, scale = (np.concatenate(parts, axis=-1) for parts in zip(*self._gathered, strict=True))
        self._gathered = []
        done = origins + len(xs) <= self._end
        start, result = self._start, self.result
        newer = self._end - start.network_until if start is not None else self._hours
        if start is not None and start.network and newer < self._training.network_part * self._hours:
            result.network, result.network_until = start.network, start.network_until
        elif done.sum() >= self._training.network_rows:
            weight = self._weights(origins[done], scale[done])[0]
            result.network = fit_network(xs[..., done], ys[:, done], weight, origins[done])
            result.network_until = self._end
        for ahead in range(len(xs)):
            use = origins + ahead < self._end
            if use.sum() >= self._training.fewest_rows:
                weights = self._weights(origins[use], scale[use])
                self._fit_ahead(ahead, xs[ahead][:, use], ys[ahead, use], weights, (origins[use] + ahead) % DAY_HOURS)

    def _fit_ahead(self, ahead: int, x: Single, y: Single, weights: list[Single], hours: Ints) -> None:
        """The fits of one hour ahead; `hours`: the hour of the day that each row forecasts."""
        training, result = self._training, self.result
        times = max(1.0, training.enough_rows / len(y)) ** training.stiffness
        result.lowest[ahead], result.highest[ahead] = x.min(axis=1), x.max(axis=1)
        scale = self._feature_scale[ahead] = np.sqrt((x**2).mean(axis=1)) + np.float32(1e-3)
        x /= scale[:, None]
        whole = RegressionRows(x, y)
        of_hours = RegressionRows(x, y, (DAY_HOURS, hours))
        missing = np.bincount(hours, minlength=DAY_HOURS) == 0
        earlier = self._start.hourly[:, :, ahead] * scale if self._start is not None else None
        if earlier is None:
            start = ridge_regression(whole, weights[0], times * training.levels[0].pooled.penalty, COUNT)
        for place, (level, weight) in enumerate(zip(training.levels, weights, strict=True)):
            pooled, hourly = level.pooled.stiffened(times), level.hourly.stiffened(times, constant=True)
            if earlier is not None:
                pooled, hourly, start = pooled.quick(), hourly.quick(), earlier[:, place].mean(axis=0)
            start = quantile_regression(whole, weight, pooled, start, np.zeros(COUNT))
            begin = start if earlier is None else earlier[:, place]
            fits = quantile_regression(of_hours, weight, hourly, begin, start)
            fits[missing] = start
            result.hourly[:, place, ahead] = fits / scale

    def fit_correction(self, rows: SeriesRows) -> None:
        """How one organization differs from all."""
        known = rows.origins[rows.origins < self._end]
        if not len(known) or self._end - known[0] < self._training.least_hours:
            return
        none = np.zeros(COUNT)
        correction: Floats = np.empty(self.result.hourly.shape[1:])
        earlier = self._start.corrections.get(rows.key) if self._start is not None else None
        for ahead in range(len(self._feature_scale)):
            use = np.searchsorted(rows.origins, self._end - ahead)
            x, scale = rows.x[ahead, :, :use], self._feature_scale[ahead]
            weights = self._weights(rows.origins[:use], rows.relative_scale[:use])
            hours = (rows.origins[:use] + ahead) % DAY_HOURS
            scaled = RegressionRows(x / scale[:, None], rows.y[ahead, :use])
            for place, (level, weight) in enumerate(zip(self._training.levels, weights, strict=True)):
                hourly = self.result.hourly[:, place, ahead].astype(np.float32)[hours]
                scaled.aim_at(rows.y[ahead, :use] - np.einsum("fn,nf->n", x, hourly))
                how, begin = level.own, none
                if earlier is not None:
                    how, begin = how.quick(), earlier[place, ahead] * scale
                correction[place, ahead] = quantile_regression(scaled, weight, how, begin, none) / scale
        self.result.corrections[rows.key] = correction

    def _weights(self, origins: Ints, relative_scale: Single) -> list[Single]:
        """Of some rows, for each level."""
        recent = np.exp2((origins - self._end) / self._training.half_life).astype(np.float32)
        return [recent * relative_scale ** np.float32(level.scale_power) for level in self._training.levels]
