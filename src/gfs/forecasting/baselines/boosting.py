"""`lightgbm`: boosted trees, one model for each probability. Not of the paper: how good a forecast can get.

Trees are given one row per series, origin and hour ahead: differences from the last value, in shares of the mean demand
of the week. A tree cannot extrapolate, so neither the size of an organization nor the level of its demand may matter;
it combines features by itself, so each is given only once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from gfs.forecasting.baselines.quantiles import LEVELS, MIDDLE, QuantileForecast, changes, constant_quantiles, extended
from gfs.forecasting.forecast import Forecast, Predictor
from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats, Ints, hour_of_day
from gfs.forecasting.naive import PERSISTENCE

LOOK_BACK = 4 * WEEK_HOURS + DAY_HOURS
"""Hours of history that count: the same hour four weeks ago, seen from up to a day ahead."""
SMALLEST_DEMAND = 0.5
"""GPUs: what counts as mean demand when there is less."""

LAGS = np.array([2, 3, 4, 5, 6, 8, 12, 18])
DAYS_BACK = np.array([1, 2, 3, 4, 5, 6, 7, 14, 21, 28])
MEAN_HOURS = (6, DAY_HOURS, 72, WEEK_HOURS)


@dataclass(frozen=True, slots=True, eq=False)
class TreeFeatures:
    """What is known at some origins: rows x hours ahead x features."""

    values: Floats
    last: Floats
    """Per row: the last value."""
    scale: Floats
    """Per row: GPUs that features and forecasts are divided by."""


def tree_features(window: Floats, history: DemandHistory, origins: Ints, hours: int) -> TreeFeatures:
    """The features of some origins (numbers of hours) from the LOOK_BACK hours before each of them."""
    count = len(window)
    last = window[:, -1]
    week = window[:, -WEEK_HOURS:]
    day = week[:, -DAY_HOURS:]
    means = np.stack([week[:, -span:].mean(axis=1) for span in MEAN_HOURS], axis=1)
    scale = np.maximum(means[:, -1], SMALLEST_DEMAND)
    extremes = np.stack([day.min(axis=1), day.max(axis=1), week.min(axis=1), week.max(axis=1)], axis=1)
    levels = np.concatenate([window[:, -LAGS], means, extremes], axis=1) - last[:, None]
    change = np.abs(np.diff(week, axis=1))
    change_means = np.stack([change[:, -DAY_HOURS:].mean(axis=1), change.mean(axis=1), week.std(axis=1)], axis=1)
    fixed = np.concatenate([levels, change_means], axis=1) / scale[:, None]

    ahead = np.arange(hours)
    then = window[:, (ahead % DAY_HOURS)[:, None] - DAY_HOURS * DAYS_BACK] - last[:, None, None]
    before = window[:, -1 - DAY_HOURS * DAYS_BACK] - last[:, None]
    moves = then - before[:, None, :]
    profile = np.stack([then[..., :7].mean(axis=2), moves[..., :7].mean(axis=2), moves.mean(axis=2)], axis=2)
    moving = np.concatenate([then, moves, profile], axis=2) / scale[:, None, None]

    coming = origins[:, None] + ahead
    further = np.broadcast_to(ahead, coming.shape)
    clock = np.stack([hour_of_day(coming), history.weekday_of(coming), further], axis=2)
    same = np.broadcast_to(fixed[:, None, :], (count, hours, fixed.shape[1]))
    return TreeFeatures(np.concatenate([same, moving, clock], axis=2), last, scale)


@dataclass(frozen=True, slots=True)
class LightGbmEstimator:
    """Trees on all series, origins and hours ahead together."""

    steps: int = 400
    """Trees for each probability."""
    rate: float = 0.03
    leaves: int = 31
    smallest_leaf: int = 100
    horizon: int = 4
    """Hours ahead that are fitted; a forecast may ask for more."""
    seed: int = 0
    name: str = "lightgbm"

    def fit(self, history: DemandHistory) -> Predictor:
        """One model a probability; with nothing to learn from, the last value has to do."""
        table = self._table(history)
        if table is None:
            return PERSISTENCE.fit(history)
        features, target, weight = table
        data = lightgbm.Dataset(features, target, weight=weight, free_raw_data=False)
        return LightGbmPredictor(self, tuple(self._booster(data, level) for level in LEVELS))

    def _table(self, history: DemandHistory) -> tuple[Floats, Floats, Floats] | None:
        """Features, change from the last value and weight of every case, in shares of mean demand."""
        parts = []
        moving = np.flatnonzero(changes(history)).tolist()
        for row, columns in zip(moving, history.origins(self.horizon, moving), strict=True):
            if not len(columns):
                continue
            one = history.only([row])
            window = sliding_window_view(one.padded(history.start - LOOK_BACK)[0], LOOK_BACK)[columns]
            rows = tree_features(window, history, history.start + columns, self.horizon)
            actual = one.gpus[0][columns[:, None] + np.arange(self.horizon)]
            target = (actual - rows.last[:, None]) / rows.scale[:, None]
            # errors count in shares of the mean of the series, not of the week
            weight = np.repeat(rows.scale / rows.scale.mean(), self.horizon)
            parts.append((rows.values.reshape(target.size, -1), target.ravel(), weight))
        if not parts:
            return None
        features, targets, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        return features, targets, weights

    def _booster(self, data: Any, level: float) -> Any:
        settings = {
            "objective": "quantile",
            "alpha": level,
            "learning_rate": self.rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.smallest_leaf,
            "feature_fraction": 0.5,
            "bagging_fraction": 0.5,
            "bagging_freq": 1,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "seed": self.seed,
            "verbosity": -1,
        }
        return lightgbm.train(settings, data, num_boost_round=self.steps)


@dataclass(frozen=True, slots=True, eq=False)
class LightGbmPredictor:
    """The trees of each probability."""

    estimator: LightGbmEstimator
    boosters: tuple[Any, ...]

    def predict(self, history: DemandHistory, hours: int) -> Forecast:
        """Ask the trees for series that have changed; one that has never changed stays as it is."""
        horizon = self.estimator.horizon
        middle, quantiles = constant_quantiles(history, hours)
        moving = np.flatnonzero(changes(history))
        if len(moving):
            some = history.only(moving.tolist())
            window = some.padded(history.end - LOOK_BACK)[:, -LOOK_BACK:]
            rows = tree_features(window, history, np.full(len(moving), history.end), horizon)
            features = rows.values.reshape(len(moving) * horizon, -1)
            predicted = np.stack([booster.predict(features, num_threads=1) for booster in self.boosters])
            change = np.sort(predicted, axis=0).reshape(len(LEVELS), len(moving), horizon)
            known = rows.last[:, None] + rows.scale[:, None] * change
            middle[moving], quantiles[:, moving] = extended(known[MIDDLE], known, hours)
        return QuantileForecast(history.keys, middle, quantiles)
