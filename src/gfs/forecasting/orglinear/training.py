"""Fitting OrgLinear: Adam over shuffled batches, with a seed, from scratch or from yesterday's weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from gfs.forecasting.adam import Adam, Parameters, Reals
from gfs.forecasting.history import Ints
from gfs.forecasting.orglinear.model import Batch, loss_and_gradients

Cases = Callable[[Ints], Batch]
"""Positions of training cases -> the cases."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast to learn."""

    epochs: int = 10
    batch: int = 256
    rate: float = 5e-4
    """To begin with; it falls in a straight line to 0."""
    fading: float = 0.1
    """How fast the weights of an hour of the window fade, times the rate and its age: old ones must earn them."""


def train(
    parameters: Parameters,
    cases: Cases,
    count: int,
    average: Reals,
    schedule: Schedule,
    generator: np.random.Generator,
) -> Parameters:
    """The weights after going through all cases some times. The ones given are left as they are.

    On one thread: the matrices are so small that a second one would only wait, and the sums would depend on it.
    """
    with threadpool_limits(1, user_api="blas"):
        return _train(parameters, cases, count, average, schedule, generator)


def _train(
    parameters: Parameters,
    cases: Cases,
    count: int,
    average: Reals,
    schedule: Schedule,
    generator: np.random.Generator,
) -> Parameters:
    weights = {name: value.copy() for name, value in parameters.items()}
    ages = np.arange(len(weights["cycle"]), 0, -1, dtype=weights["cycle"].dtype)[:, None]
    adam = Adam(weights, schedule.rate, schedule.epochs * -(-count // schedule.batch))
    for _ in range(schedule.epochs):
        order = generator.permutation(count)
        for start in range(0, count, schedule.batch):
            _, gradients = loss_and_gradients(weights, cases(order[start : start + schedule.batch]), average)
            fade = np.exp(-adam.rate * schedule.fading * ages)
            for name in ("cycle", "trend", "spread"):
                weights[name] *= fade
            adam.step(gradients)
    return weights
