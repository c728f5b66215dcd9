"""The paper's baselines: networks of neuralforecast, fitted on the windows of all series together.

All learn from the same windows of the same standardised series. Steps were chosen on hours before the test part:
`dlinear` and `deepar` with half as many are less than 1% worse there, the others are stopped after two to four
minutes of one core. Networks with attention are kept narrow, which buys them more steps in that time.
"""

from __future__ import annotations

import logging
import math
import os
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from neuralforecast.models import Autoformer, DeepAR, DLinear, FEDformer, Informer, VanillaTransformer
from numpy.lib.stride_tricks import sliding_window_view

from gfs.domain.errors import InputError
from gfs.forecasting.baselines.networks import Direct, Recurrent, Singles, Size
from gfs.forecasting.baselines.quantiles import QuantileForecast, changes, constant_quantiles
from gfs.forecasting.forecast import Forecast, Predictor
from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats, Ints, hour_of_day
from gfs.forecasting.naive import PERSISTENCE
from gfs.forecasting.orglinear.scaling import SeriesScales

WARM_UP = 0.05
"""Share of the steps in which the learning rate rises; then it falls to 0 along a cosine."""
LONGEST_GRADIENT = 1.0
"""Longer gradients are shortened to this."""
SEED_VARIABLES = ("PL_GLOBAL_SEED", "PL_SEED_WORKERS")
"""Lightning writes the seed into the environment."""


@contextmanager
def isolated_torch(seed: int) -> Iterator[None]:
    """One thread, a seed of its own, silent; afterwards everything is as it was."""
    threads, disabled = torch.get_num_threads(), logging.root.manager.disable
    states = random.getstate(), np.random.get_state()
    variables = {name: os.environ.get(name) for name in SEED_VARIABLES}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            logging.disable(disabled)
            random.setstate(states[0])
            np.random.set_state(states[1])
            for name, value in variables.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def learned_scales(history: DemandHistory) -> SeriesScales:
    """Of the series that have changed."""
    return SeriesScales.learned(history.only(np.flatnonzero(changes(history)).tolist()))


def calendar_of(history: DemandHistory, hours: Ints) -> Singles:
    """The place of these hours in the day and in the week, as waves: hours x CALENDAR."""
    of_day = hour_of_day(hours)
    day = 2 * np.pi * of_day / DAY_HOURS
    week = 2 * np.pi * (history.weekday_of(hours) * DAY_HOURS + of_day) / WEEK_HOURS
    return np.stack([np.sin(day), np.cos(day), np.sin(week), np.cos(week)], axis=1).astype(np.float32)


def standardised(history: DemandHistory, mean: Floats, spread: Floats, since: int) -> Singles:
    """Demand from an hour on; before its first record a series has that value."""
    scaled: Singles = ((history.padded(since) - mean[:, None]) / spread[:, None]).astype(np.float32)
    return scaled


class Cases:
    """All windows to learn from, each with the hours after it."""

    def __init__(self, history: DemandHistory, scales: SeriesScales, window: int, horizon: int) -> None:
        mean, spread = scales.of(history)
        since = history.start - window
        scaled = standardised(history, mean, spread, since)
        self._values = sliding_window_view(scaled, window + horizon, axis=1)
        hours = np.arange(since, history.end)
        self._calendar = sliding_window_view(calendar_of(history, hours), window + horizon, axis=0)
        known = [row for row, key in enumerate(history.keys) if key in scales.of_key]
        origins = history.origins(horizon, known)
        self._series = np.repeat(np.array(known, dtype=np.int64), [len(columns) for columns in origins])
        self._origin = np.concatenate([*origins, np.empty(0, np.int64)]).astype(np.int64)

    def __len__(self) -> int:
        return len(self._series)

    def take(self, places: Ints) -> tuple[Singles, Singles]:
        """Values (cases x hours) and calendar (cases x hours x CALENDAR) of windows and the hours after them."""
        series, origin = self._series[places], self._origin[places]
        return self._values[series, origin], self._calendar[origin].swapaxes(1, 2)


@dataclass(frozen=True, slots=True)
class NeuralEstimator:
    """A network, its training, and the window of the paper."""

    name: str
    network: Direct | Recurrent
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
        size, scales = Size(self.window, self.horizon), learned_scales(history)
        cases = Cases(history, scales, *size)
        if not len(cases):
            return simple
        with isolated_torch(self.seed):
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
            torch.nn.utils.clip_grad_norm_(module.parameters(), LONGEST_GRADIENT)
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
    scales: SeriesScales
    simple: Predictor
    """For histories without an hour."""

    def predict(self, history: DemandHistory, hours: int) -> Forecast:
        """Ask the network for series that have a scale; one that has never changed stays as it is."""
        if not history.hours:
            return self.simple.predict(history, hours)
        own = self.estimator
        mean, spread = self.scales.of(history)
        middle, quantiles = constant_quantiles(history, hours)
        rows = np.flatnonzero(changes(history) | [key in self.scales.of_key for key in history.keys])
        if len(rows):
            some, mean, spread = history.only(rows.tolist()), mean[rows, None], spread[rows, None]
            values = standardised(some, mean[:, 0], spread[:, 0], history.end - own.window)
            coming = np.arange(history.end - own.window, history.end + max(hours, own.horizon))
            calendar = np.repeat(calendar_of(history, coming)[None], len(rows), axis=0)
            with isolated_torch(own.seed), torch.inference_mode():
                size = Size(own.window, own.horizon)
                predicted = own.network.predict(self.module, size, values, calendar, hours)
            middle[rows] = mean + spread * predicted[0]
            quantiles[:, rows] = mean + spread * predicted[1]
        return QuantileForecast(history.keys, middle, quantiles)


WIDTH, HEADS = 32, 2
"""Length of the embedding of an hour, and attention heads, in the networks with attention."""


def _attention(name: str, make: Any, steps: int = 1000) -> Any:
    return partial(NeuralEstimator, name=name, network=Direct(make), steps=steps, rate=1e-3, batch=8)


# without dropout, torch computes attention without writing it down, several times as fast
_TRANSFORMER = partial(VanillaTransformer, hidden_size=WIDTH, n_head=HEADS, dropout=0.0)
transformer = _attention("transformer", _TRANSFORMER, steps=2000)
informer = _attention("informer", partial(Informer, hidden_size=WIDTH, n_head=HEADS))
autoformer = _attention("autoformer", partial(Autoformer, hidden_size=WIDTH, n_head=HEADS))
fedformer = _attention("fedformer", partial(FEDformer, hidden_size=WIDTH, modes=32))  # it has eight heads
dlinear = partial(
    NeuralEstimator, name="dlinear", network=Direct(DLinear, calendar=False), steps=8000, rate=1e-3, batch=64
)
deepar = partial(
    NeuralEstimator,
    name="deepar",
    network=Recurrent(partial(DeepAR, lstm_hidden_size=40)),
    steps=2000,
    rate=3e-3,
    batch=32,
)
