"""Adam, the optimiser of both models that are trained by gradients, with a learning rate that falls linearly to 0."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Reals: TypeAlias = npt.NDArray[Any]
Parameters: TypeAlias = dict[str, Reals]
"""Name -> weights. The same names hold gradients and moments."""

FIRST_MOMENT, SECOND_MOMENT, TINY = 0.9, 0.999, 1e-8
"""Adam's usual constants."""


class Adam:
    """Changes the given weights, `steps` times; from the first step on the dict has other arrays."""

    def __init__(self, weights: Parameters, rate: float, steps: int) -> None:
        self._weights = weights
        self._first_rate, self._steps, self._done = rate, steps, 0
        self._groups: list[_Group] = []

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return self._first_rate * (1 - self._done / self._steps)

    def step(self, gradients: Parameters) -> None:
        """One step against the gradients."""
        if not self._groups:
            types = sorted({gradient.dtype for gradient in gradients.values()}, key=str)
            names = [[name for name, gradient in gradients.items() if gradient.dtype == each] for each in types]
            self._groups = [_Group(self._weights, each) for each in names]
        rate = self.rate
        self._done += 1
        for group in self._groups:
            group.step(gradients, rate, self._done)


class _Group:
    """Weights whose gradients have the same precision: one array has them all, so that a step is a few operations."""

    def __init__(self, weights: Parameters, names: list[str]) -> None:
        """`weights` has the parts of the array from now on."""
        self._names = names
        self._weights = np.concatenate([weights[name].ravel() for name in names])
        self._first, self._second = np.zeros_like(self._weights), np.zeros_like(self._weights)
        parts = np.split(self._weights, np.cumsum([weights[name].size for name in names])[:-1])
        for name, part in zip(names, parts, strict=True):
            weights[name] = part.reshape(weights[name].shape)

    def step(self, gradients: Parameters, rate: float, number: int) -> None:
        """The step of this number. What is read here is not needed any more: sums are made in its place."""
        first, second = self._first, self._second
        gradient = np.concatenate([gradients[name].ravel() for name in self._names])
        squared = gradient**2
        gradient -= first
        gradient *= 1 - FIRST_MOMENT
        first += gradient
        squared -= second
        squared *= 1 - SECOND_MOMENT
        second += squared
        size = second / (1 - SECOND_MOMENT**number)
        np.sqrt(size, out=size)
        size += TINY
        change = rate * first
        change /= 1 - FIRST_MOMENT**number
        change /= size
        self._weights -= change
