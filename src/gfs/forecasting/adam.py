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
    """Changes the given weights in place, `steps` times."""

    def __init__(self, weights: Parameters, rate: float, steps: int) -> None:
        self._weights = weights
        self._first_rate, self._steps, self._done = rate, steps, 0
        self._first = {name: np.zeros_like(value) for name, value in weights.items()}
        self._second = {name: np.zeros_like(value) for name, value in weights.items()}

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return self._first_rate * (1 - self._done / self._steps)

    def step(self, gradients: Parameters) -> None:
        """One step against the gradients."""
        rate = self.rate
        self._done += 1
        for name, gradient in gradients.items():
            first, second = self._first[name], self._second[name]
            first += (1 - FIRST_MOMENT) * (gradient - first)
            second += (1 - SECOND_MOMENT) * (gradient**2 - second)
            size = np.sqrt(second / (1 - SECOND_MOMENT**self._done)) + TINY
            self._weights[name] -= rate * first / (1 - FIRST_MOMENT**self._done) / size
