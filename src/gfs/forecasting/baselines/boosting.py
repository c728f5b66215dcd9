"""`lightgbm`: boosted trees, one model for each probability. Not of the paper: how good a forecast can get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from gfs.forecasting.baselines.features import LOOK_BACK, rows_of
from gfs.forecasting.baselines.grid import LEVELS, MIDDLE, GridForecast, extended
from gfs.forecasting.baselines.series import changes, last_values
from gfs.forecasting.forecast import Forecast, Predictor
from gfs.forecasting.history import DemandHistory, Floats
from gfs.forecasting.naive import PERSISTENCE
from gfs.forecasting.orglinear.estimator import YOUNG


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
        last = history.hours - self.horizon
        parts = []
        for row in np.flatnonzero(changes(history)):
            columns = np.arange(max(int(history.first[row]) + YOUNG, 1), last + 1)
            if not len(columns):
                continue
            one = history.only([int(row)])
            window = sliding_window_view(one.padded(history.start - LOOK_BACK)[0], LOOK_BACK)[columns]
            rows = rows_of(window, history, history.start + columns, self.horizon)
            came = one.gpus[0][columns[:, None] + np.arange(self.horizon)]
            target = (came - rows.anchor[:, None]) / rows.unit[:, None]
            # errors count in shares of the mean of the series, not of the week
            weight = np.repeat(rows.unit / rows.unit.mean(), self.horizon)
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
        middle = np.repeat(last_values(history)[:, None], hours, axis=1)
        grid = np.repeat(middle[None], len(LEVELS), axis=0)
        moving = np.flatnonzero(changes(history))
        if len(moving):
            some = history.only(moving.tolist())
            window = some.padded(history.end - LOOK_BACK)[:, -LOOK_BACK:]
            rows = rows_of(window, history, np.full(len(moving), history.end), horizon)
            features = rows.values.reshape(len(moving) * horizon, -1)
            said = np.stack([booster.predict(features, num_threads=1) for booster in self.boosters])
            change = np.sort(said, axis=0).reshape(len(LEVELS), len(moving), horizon)
            known = rows.anchor[:, None] + rows.unit[:, None] * change
            middle[moving], grid[:, moving] = extended(known[MIDDLE], known, hours)
        return GridForecast(history.keys, middle, grid)
