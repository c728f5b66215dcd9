"""A second opinion on the median: a small network, which bends where the fits are straight.

One layer of rectified units reads the features of all fitted hours ahead at once, of any organization, and the
hour of the day as waves; the medians of these hours are sums of the units. Absolute errors (rounded off near 0)
are made small by Adam with a falling rate. The sums start at 0, so a network that had little to learn from says
that the last value stays. It errs otherwise than the fits: their mean is better than each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfs.forecasting.history import DAY_HOURS, Ints
from gfs.forecasting.orgquantile.features import PER_HOUR, Single
from gfs.forecasting.orgquantile.regression import ONE_CORE

SEED = 0
UNITS = 48
WAVES = np.arange(1, 5)
"""Turns a day."""
FURTHEST = 4.0
"""Standard deviations: inputs further from their mean count as so far."""
PASSES = 8
BATCH = 512
RATE = 0.008
MOMENTUM, MEMORY = 0.9, 0.999
ROUNDED = 0.1
"""Units of the features: smaller errors count by their square."""


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """What was learned. The scale of the inputs is part of the numbers."""

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
        units = np.matmul(self.inward, inputs)
        units += self.start[hour % DAY_HOURS]
        offsets: Single = np.matmul(self.outward, np.maximum(units, 0.0, out=units)) + self.constant
        return offsets


def fit_network(x: Single, y: Single, weight: Single, origins: Ints) -> Network:
    """Learn from hours ahead x features x rows, and hours ahead x rows of outcomes."""
    inputs = _inputs(x)
    mean = inputs.mean(axis=1, keepdims=True)
    scale = inputs.std(axis=1, keepdims=True) + np.float32(1e-3)
    inputs -= mean
    inputs /= scale
    np.minimum(np.maximum(inputs, -FURTHEST, out=inputs), FURTHEST, out=inputs)
    waves = _waves(np.arange(DAY_HOURS))
    rows = np.concatenate([inputs.T, waves[origins % DAY_HOURS]], axis=1)
    inward, start, outward, constant = _trained(rows, np.ascontiguousarray(y.T), weight / weight.mean())
    of_features, of_waves = inward[: len(inputs)] / scale, inward[len(inputs) :]
    return Network(
        mean - np.float32(FURTHEST) * scale,
        mean + np.float32(FURTHEST) * scale,
        np.ascontiguousarray(of_features.T),
        (start + waves @ of_waves - mean[:, 0] @ of_features)[..., None],
        np.ascontiguousarray(outward.T),
        constant[:, None],
    )


def _inputs(values: Single) -> Single:
    """All features of the first hour ahead but the constant, and of the others what differs: a new array."""
    return np.concatenate([values[0, 1:], *values[1:, PER_HOUR]])


def _waves(hours: Ints) -> Single:
    angle = 2 * np.pi * hours[:, None] * WAVES / DAY_HOURS
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


def _trained(x: Single, y: Single, weight: Single) -> tuple[Single, Single, Single, Single]:
    """Weights and constants of the units, and of their sums: rows x inputs, rows x hours ahead, per row."""
    random = np.random.default_rng(SEED)
    count, inputs = x.shape
    block = max(1, ONE_CORE // (inputs * UNITS))  # rows so few that a linear algebra library stays on one core
    batch = block * (BATCH // block)
    batches = count // batch
    order = random.permutation(count)[: batches * batch].reshape(batches, -1, block)
    x, y, weight = x[order], y[order], weight[order]
    numbers = [
        (random.standard_normal((inputs, UNITS)) / np.sqrt(inputs)).astype(np.float32),
        np.zeros(UNITS, dtype=np.float32),
        np.zeros((UNITS, y.shape[-1]), dtype=np.float32),
        np.zeros(y.shape[-1], dtype=np.float32),
    ]
    adam = _Adam(numbers, PASSES * batches)
    for _ in range(PASSES):
        for place in random.permutation(batches):
            adam.step(_slopes(numbers, x[place], y[place], weight[place]))
    return numbers[0], numbers[1], numbers[2], numbers[3]


def _slopes(numbers: list[Single], x: Single, y: Single, weight: Single) -> list[Single]:
    """How the mean loss of some rows (blocks x rows x ...) changes with each number."""
    inward, start, outward, constant = numbers
    units = np.maximum(np.matmul(x, inward) + start, 0.0)
    error = np.matmul(units, outward) + constant - y
    slope = np.minimum(np.maximum(error / np.float32(ROUNDED), -1.0), 1.0) * (weight / weight.size)[..., None]
    back = np.matmul(slope, outward.T) * (units > 0)
    return [
        np.matmul(x.transpose(0, 2, 1), back).sum(axis=0),
        back.sum(axis=(0, 1)),
        np.matmul(units.transpose(0, 2, 1), slope).sum(axis=0),
        slope.sum(axis=(0, 1)),
    ]


class _Adam:
    """Steps against the slope, each number's as long as its slope is steady; shorter towards the end."""

    def __init__(self, numbers: list[Single], steps: int) -> None:
        self._numbers, self._steps, self._done = numbers, steps, 0
        self._mean = [np.zeros_like(number) for number in numbers]
        self._square = [np.zeros_like(number) for number in numbers]

    def step(self, slopes: list[Single]) -> None:
        """Change the numbers in place."""
        self._done += 1
        known = np.sqrt(1 - MEMORY**self._done) / (1 - MOMENTUM**self._done)
        length = np.float32(RATE * (1 - self._done / self._steps) * known)
        for number, mean, square, slope in zip(self._numbers, self._mean, self._square, slopes, strict=True):
            mean += np.float32(1 - MOMENTUM) * (slope - mean)
            square += np.float32(1 - MEMORY) * (slope * slope - square)
            number -= length * mean / (np.sqrt(square) + np.float32(1e-8))
