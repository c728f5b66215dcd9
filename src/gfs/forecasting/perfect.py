"""The limit that no forecaster can pass: HP demand as it will really be. For simulations only.

A simulation knows every task beforehand. What HP tasks will ask for, from their submission for as long as they run,
stands in the place of a forecast (`forecaster=perfect`): how much is left to gain by forecasting better. Waiting HP
tasks would hold their GPUs a little later; they hardly wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfs.domain.workload import Workload
from gfs.forecasting.history import Floats
from gfs.forecasting.meter import STEP, STEPS
from gfs.forecasting.sources import peaks_of, spans_of

PERFECT = "perfect"


@dataclass(frozen=True, slots=True, eq=False)
class FutureDemand:
    """HP demand of one pool, as it will be."""

    organizations: tuple[str, ...]
    peaks: Floats
    """Organizations, and last their sum, x steps: the most GPUs asked for in the hour that begins with the step."""

    def hours(self, now: float, hours: int) -> Floats:
        """Rows x hours: the peaks of the coming hours, from the beginning of the present step."""
        steps = int(now // STEP) + STEPS * np.arange(hours)
        seen = steps < self.peaks.shape[1]
        found = np.zeros((len(self.peaks), hours))
        found[:, seen] = self.peaks[:, steps[seen]]
        return found


NO_DEMAND = FutureDemand((), np.zeros((1, 0)))


@dataclass(frozen=True, slots=True, eq=False)
class PerfectForecast:
    """What will be, in the form of a forecast: expected and bound are the same."""

    organizations: tuple[str, ...]
    mean: Floats
    total: Floats
    """Of all organizations together, hour by hour."""
    forecaster: str = PERFECT

    @property
    def upper(self) -> Floats:
        """Organizations x hours."""
        return self.mean

    def total_peak(self, hours: int, p: float | None = None) -> float:
        """What all organizations together will ask for at most over so many hours, whatever the probability."""
        return float(self.total[:hours].max(initial=0.0))


class PerfectForecaster:
    """Sees what HP tasks will ask for."""

    def __init__(self, future: FutureDemand, hours: int) -> None:
        self._future = future
        self._hours = hours

    def prepare(self, now: float) -> Callable[[], PerfectForecast]:
        """HP demand from `now` on, as it will be."""
        return lambda: self.forecast(now)

    def forecast(self, now: float) -> PerfectForecast:
        """The same at once."""
        demand = self._future.hours(now, self._hours)
        return PerfectForecast(self._future.organizations, demand[:-1], demand[-1])

    def trained(self, model: Any, asked_at: float) -> None:
        """There is nothing to learn."""


def future_demand(workload: Workload) -> Mapping[str, FutureDemand]:
    """The HP demand of each pool of a workload."""
    return {model: _of_pool(workload, model) for model in workload.capacity()}


def _of_pool(workload: Workload, model: str) -> FutureDemand:
    tasks = [task for task in workload.tasks if task.gpu_model == model and not task.is_spot]
    if not tasks:
        return NO_DEMAND
    names = tuple(dict.fromkeys(task.organization for task in tasks))
    row = {name: i for i, name in enumerate(names)}
    rows = [row[task.organization] for task in tasks] + [len(names)] * len(tasks)  # each, and all together
    spans = spans_of([*tasks, *tasks], np.array(rows, np.int64), workload)
    in_steps = peaks_of(spans, len(names) + 1, 0, int(spans.end.max() // STEP) + 1, STEP)
    padded = np.pad(in_steps, ((0, 0), (0, STEPS - 1)))
    return FutureDemand(names, np.lib.stride_tricks.sliding_window_view(padded, STEPS, axis=1).max(axis=2))
