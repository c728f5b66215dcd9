"""The forecast spot quota of a cluster that another scheduler runs (docs/guides/export-the-quota.md).

The very parts of `gfs` are put together (`quota=forecast-no-feedback`), told of past demand and of one tick, and asked
for their quota. What is not known from outside counts as on an idle cluster: nobody tells of evictions, so eta is 1,
and GPUs that HP tasks hold at this moment are not subtracted (whoever enforces the quota cannot give them away twice).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor
from typing import Any

import msgspec
import numpy as np

from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import Tick
from gfs.core.ports import QuotaRow
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.units import DAY, HOUR, MICRO, format_clock
from gfs.forecasting.meter import STEP
from gfs.forecasting.online import CAUTIOUS, ForecastMemory, Stopwatch
from gfs.forecasting.past import PastDemand, learn

NOBODY = "(nobody)"
"""The organization of a pool without demand, which wants nothing."""


@dataclass(frozen=True, slots=True)
class OutsideQuota:
    """What spot tasks of one pool may hold, and why."""

    gpu_model: str
    capacity: int
    row: QuotaRow
    p: float
    now: float
    dated: bool
    """Whether times are those of Unix."""

    @property
    def gpus(self) -> int:
        """Whole GPUs."""
        return floor(self.row.quota + 0.5 / MICRO)

    @property
    def demand(self) -> int:
        """The bound on HP demand, in whole GPUs; it may exceed the pool."""
        return ceil(self.row.demand - 0.5 / MICRO)

    def text(self) -> str:
        """'A100: forecast peak 412 of 512 GPUs at 17:00 UTC, p 0.9: 100 GPUs for spot for 1 h'."""
        peak = self.now + (max(self.row.peak_hour, 1) - 1) * HOUR
        clock = f"{datetime.fromtimestamp(peak, UTC):%H:%M} UTC" if self.dated else format_clock(peak)
        many = f"{self.gpus:,} GPU{'s' * (self.gpus != 1)}" if self.gpus else "no GPU"
        how = " (cautious: less than a day of demand is known)" if self.row.forecaster == CAUTIOUS else ""
        return (
            f"{self.gpu_model}: forecast peak {self.demand:,} of {self.capacity:,} GPUs at {clock}, p {self.p:g}{how}:"
            f" {many} for spot for {self.row.guarantee_hours:g} h"
        )


class QuotaForecaster:
    """Works out the quota again and again; the fitted model is kept as long as the parameters say."""

    def __init__(self, parameters: Parameters, guarantee_hours: float) -> None:
        self._parameters = msgspec.structs.replace(parameters, quota="forecast-no-feedback")
        self._hours = guarantee_hours
        self._models: dict[str, Any] = {}
        """GPU model -> what its forecaster remembers."""

    def quota(self, nodes: Sequence[NodeSpec], past: PastDemand, *, dated: bool) -> list[OutsideQuota]:
        """The quota of every pool at the end of this demand, by GPU model."""
        known = {node.gpu_model for node in nodes}
        if strange := sorted(past.pools.keys() - known):
            raise InputError(
                f"there is demand for GPU model {', '.join(strange)}, of which there is no node (nodes have"
                f" {', '.join(sorted(known)) or 'no GPU'}): write models alike in both"
            )
        size = max(past.steps, 1)
        pools = {model: past.pools.get(model) or {NOBODY: np.zeros(size)} for model in known}
        watch = Stopwatch()
        parameters = msgspec.structs.replace(self._parameters, first_day="1970-01-01") if dated else self._parameters
        scheduler = build_scheduler(
            "gfs", nodes, parameters, period=30 * DAY, guarantees=(self._hours,), stopwatch=watch
        )
        for model, memory in self._models.items():
            if model in scheduler.pools:
                scheduler.pools[model].state.memory[ForecastMemory] = memory
        learn(scheduler, PastDemand(pools, past.end), known)
        now = past.end * STEP
        scheduler.handle(now, [Tick()])
        if watch.failures:
            raise InputError(f"the demand cannot be forecast: {watch.problem}. Choose another forecaster with --model")
        found = []
        for model, pool in sorted(scheduler.pools.items()):
            self._models[model] = pool.state.memory[ForecastMemory]
            row = next(row for row in pool.policy.quota.rows() if row.guarantee_hours == self._hours)
            found.append(OutsideQuota(model, round(pool.state.pool.capacity), row, parameters.p, now, dated))
        return found
