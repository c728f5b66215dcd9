"""Fit a network on the windows of all series together, then ask it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gfs.domain.errors import InputError
from gfs.forecasting.baselines.alone import alone
from gfs.forecasting.baselines.grid import LEVELS, GridForecast
from gfs.forecasting.baselines.networks import Network, Size
from gfs.forecasting.baselines.series import Cases, Scales, calendar_of, last_values, window_of
from gfs.forecasting.forecast import Forecast, Predictor
from gfs.forecasting.history import DAY_HOURS, DemandHistory
from gfs.forecasting.naive import PERSISTENCE

WARM_UP = 0.05
"""Share of the steps in which the learning rate rises; then it falls to 0 along a cosine."""
STEEPEST = 1.0
"""Longer gradients are shortened to this."""


@dataclass(frozen=True, slots=True)
class NeuralEstimator:
    """A network, its training, and the window of the paper."""

    name: str
    network: Network
    steps: int
    """Batches that it is trained on."""
    rate: float
    """Learning rate at its highest."""
    batch: int = 16
    """Windows in a batch."""
    window: int = 672
    horizon: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.window < DAY_HOURS:
            raise InputError(f"window = {self.window}: {self.name} needs at least {DAY_HOURS} hours")

    def fit(self, history: DemandHistory) -> Predictor:
        """Train on random windows of all series; with none to train on, the last value has to do."""
        simple = PERSISTENCE.fit(history)
        if history.hours <= self.horizon:
            return simple
        size, scales = Size(self.window, self.horizon), Scales.learnt(history)
        cases = Cases(history, scales, *size)
        if not len(cases):
            return simple
        with alone(self.seed):
            module = self.network.build(size, self.seed)
            self._train(module, size, cases)
        return NeuralPredictor(self, module, scales, simple)

    def _train(self, module: Any, size: Size, cases: Cases) -> None:
        generator = np.random.default_rng(self.seed)
        optimizer = torch.optim.Adam(module.parameters(), lr=self.rate)
        module.train()
        for step in range(self.steps):
            for group in optimizer.param_groups:
                group["lr"] = self.rate * share_of_rate((step + 1) / self.steps)
            optimizer.zero_grad()
            values, calendar = cases.take(generator.integers(len(cases), size=self.batch))
            self.network.loss(module, size, values, calendar).backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), STEEPEST)
            optimizer.step()
        module.eval()


def share_of_rate(done: float) -> float:
    """Learning rate as a share of the highest, when this share of the training is done."""
    return min(done / WARM_UP, 1.0) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True, slots=True, eq=False)
class NeuralPredictor:
    """A trained network and the scale of each series it was trained on."""

    estimator: NeuralEstimator
    module: Any
    scales: Scales
    simple: Predictor
    """For histories without an hour."""

    def predict(self, history: DemandHistory, hours: int) -> Forecast:
        """Ask the network for series that have a scale; one that has never changed stays as it is."""
        if not history.hours:
            return self.simple.predict(history, hours)
        own = self.estimator
        mean, spread, scaled = self.scales.of(history)
        middle = np.repeat(last_values(history)[:, None], hours, axis=1)
        grid = np.repeat(middle[None], len(LEVELS), axis=0)
        rows = np.flatnonzero(scaled)
        if len(rows):
            some, mean, spread = history.only(rows.tolist()), mean[rows, None], spread[rows, None]
            values = window_of(some, mean[:, 0], spread[:, 0], own.window)
            coming = np.arange(history.end - own.window, history.end + max(hours, own.horizon))
            calendar = np.repeat(calendar_of(history, coming)[None], len(rows), axis=0)
            with alone(own.seed), torch.inference_mode():
                size = Size(own.window, own.horizon)
                said = own.network.ask(self.module, size, values, calendar, hours)
            middle[rows] = mean + spread * said[0]
            grid[:, rows] = mean + spread * said[1]
        return GridForecast(history.keys, middle, grid)
