"""A second estimate of the median: a small network, for what a linear regression cannot follow.

One layer of rectified units reads the features of all fitted hours ahead at once, of any organization, and the hour
of the day as waves; the medians of these hours are sums of the units. It is trained on absolute errors (squared near
0). The sums start at 0, so a network that had little to learn from predicts the last value. Its errors differ from
those of the regression: the mean of both is better than each
(docs/concepts/demand-forecast.md#does-the-network-earn-its-lines).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from gfs.forecasting.adam import Adam, Parameters
from gfs.forecasting.history import DAY_HOURS, Ints
from gfs.forecasting.orgquantile.features import PER_HOUR, Single
from gfs.forecasting.orgquantile.regression import ONE_CORE

SEED = 0
UNITS = 48
WAVES = np.arange(1, 5)
"""Waves per day."""
FURTHEST = 4.0
"""Standard deviations from the mean at which inputs are cut off."""
PASSES = 8
BATCH = 512
RATE = 0.008
SQUARED = 0.1
"""Scales: smaller errors count by their square."""


@dataclass(frozen=True, slots=True, eq=False)
class MedianNetwork:
    """What was learned. The scale of the inputs is part of the weights."""

    lowest: Single
    """Inputs x 1: what lies below counts as this."""
    highest: Single
    inward: Single
    """Units x inputs."""
    start: Single
    """Hours of the day x units x 1."""
    outward: Single
    """Hours ahead x units."""
    constant: Single
    """Hours ahead x 1."""

    def offsets(self, values: Single, hour: int) -> Single:
        """Medians at an origin in this hour (number): features as they are -> hours ahead x columns."""
        inputs = _inputs(values[: len(self.outward)])
        np.minimum(np.maximum(inputs, self.lowest, out=inputs), self.highest, out=inputs)
        units = np.empty((len(self.inward), inputs.shape[1]), dtype=np.float32)
        block = ONE_CORE // self.inward.size  # columns that a linear algebra library multiplies on one core
        for begin in range(0, inputs.shape[1], block):
            units[:, begin : begin + block] = np.matmul(self.inward, inputs[:, begin : begin + block])
        units += self.start[hour % DAY_HOURS]
        offsets: Single = np.matmul(self.outward, np.maximum(units, 0.0, out=units)) + self.constant
        return offsets


def fit_network(x: Single, y: Single, weight: Single, origins: Ints) -> MedianNetwork:
    """Learn from hours ahead x features x rows, and hours ahead x rows of targets."""
    inputs = _inputs(x)
    mean = inputs.mean(axis=1, keepdims=True)
    scale = inputs.std(axis=1, keepdims=True) + np.float32(1e-3)
    inputs -= mean
    inputs /= scale
    np.minimum(np.maximum(inputs, -FURTHEST, out=inputs), FURTHEST, out=inputs)
    angle = 2 * np.pi * np.arange(DAY_HOURS)[:, None] * WAVES / DAY_HOURS
    waves = np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)
    rows = np.concatenate([inputs.T, waves[origins % DAY_HOURS]], axis=1)
    with threadpool_limits(1, user_api="blas"):
        weights = _trained(rows, np.ascontiguousarray(y.T), weight / weight.mean())
    of_features, of_waves = weights["inward"][: len(inputs)] / scale, weights["inward"][len(inputs) :]
    return MedianNetwork(
        mean - np.float32(FURTHEST) * scale,
        mean + np.float32(FURTHEST) * scale,
        np.ascontiguousarray(of_features.T),
        (weights["start"] + waves @ of_waves - mean[:, 0] @ of_features)[..., None],
        np.ascontiguousarray(weights["outward"].T),
        weights["constant"][:, None],
    )


def _inputs(values: Single) -> Single:
    """All features of the first hour ahead but the constant, and of the others what differs: a new array."""
    return np.concatenate([values[0, 1:], *values[1:, PER_HOUR]])


def _trained(x: Single, y: Single, weight: Single) -> Parameters:
    """Weights and constants of the units, and of their sums: rows x inputs, rows x hours ahead, per row."""
    generator = np.random.default_rng(SEED)
    count, inputs = x.shape
    batches = count // BATCH
    order = generator.permutation(count)[: batches * BATCH].reshape(batches, BATCH)
    x, y, weight = x[order], y[order], weight[order]
    weights: Parameters = {
        "inward": (generator.standard_normal((inputs, UNITS)) / np.sqrt(inputs)).astype(np.float32),
        "start": np.zeros(UNITS, dtype=np.float32),
        "outward": np.zeros((UNITS, y.shape[-1]), dtype=np.float32),
        "constant": np.zeros(y.shape[-1], dtype=np.float32),
    }
    adam = Adam(weights, RATE, PASSES * batches)
    for _ in range(PASSES):
        for place in generator.permutation(batches):
            adam.step(_gradients(weights, x[place], y[place], weight[place]))
    return weights


def _gradients(weights: Parameters, x: Single, y: Single, weight: Single) -> Parameters:
    """Of the mean loss of some rows."""
    units = np.maximum(x @ weights["inward"] + weights["start"], 0.0)
    error = units @ weights["outward"] + weights["constant"] - y
    by_sum = np.minimum(np.maximum(error / np.float32(SQUARED), -1.0), 1.0) * (weight / weight.size)[:, None]
    by_unit = by_sum @ weights["outward"].T * (units > 0)
    return {
        "inward": x.T @ by_unit,
        "start": by_unit.sum(axis=0),
        "outward": units.T @ by_sum,
        "constant": by_sum.sum(axis=0),
    }
