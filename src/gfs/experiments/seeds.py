"""Means over seeds, with the interval that holds the true mean 95 times in 100."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from gfs.batch.job import JobResult
from gfs.report.columns import NOTHING


class Mean(NamedTuple):
    """A mean over seeds."""

    value: float
    half: float
    """Half the width of its 95% interval (Student's t); 0 with one seed."""

    def text(self, digits: Callable[[float], str]) -> str:
        """Such as '12.3 ± 1.2'."""
        return digits(self.value) + (f" ± {digits(self.half)}" if self.half else "")

    def apart(self, other: Mean) -> bool:
        """Whether the intervals leave no doubt which is larger."""
        return abs(self.value - other.value) > self.half + other.half


def mean_of(values: Iterable[float]) -> Mean:
    """The mean of a value that differs by seed."""
    numbers = np.asarray(list(values), np.float64)
    if len(numbers) < 2:
        return Mean(float(numbers.mean()), 0.0)
    spread = float(numbers.std(ddof=1)) / np.sqrt(len(numbers))
    return Mean(float(numbers.mean()), float(t.ppf(0.975, len(numbers) - 1) * spread))


def metric(results: Iterable[JobResult], *path: str) -> Mean | None:
    """The mean of a metric such as ('spot', 'jqt_mean') over runs; None where a run has none."""
    values = []
    for result in results:
        value = result["metrics"]
        for step in path:
            value = value[step]
        if value is None:
            return None
        values.append(float(value))
    return mean_of(values)


def text_of(mean: Mean | None, digits: Callable[[float], str]) -> str:
    """A mean as text, a dash for none."""
    return NOTHING if mean is None else mean.text(digits)
