"""HP demand of the time before a scheduler looked: from Prometheus, or from a file of demand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Self

import numpy as np

from gfs.core.scheduler import Scheduler
from gfs.domain.units import HOUR
from gfs.forecasting.history import DAY_HOURS, DemandHistory, Floats, SeriesKey
from gfs.forecasting.meter import STEP, STEPS, DemandRecord

EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class PastDemand:
    """HP demand of all pools, step by step, up to a step."""

    pools: dict[str, dict[str, Floats]]
    """GPU model -> organization -> GPUs, in as many steps for all."""
    end: int
    """Number of the step after the last, since time 0 (of Unix, where times are real ones)."""

    @classmethod
    def of_history(cls, history: DemandHistory) -> Self:
        """Of hourly demand: each hour's maximum counts for all of the hour. Dated hours are counted from 1970."""
        day = (history.first_day - EPOCH).days if history.first_day is not None else 0
        pools: dict[str, dict[str, Floats]] = {}
        for key, gpus in zip(history.keys, history.gpus, strict=True):
            pool, steps = pools.setdefault(key.gpu_model, {}), np.repeat(gpus, STEPS)
            pool[key.organization] = pool[key.organization] + steps if key.organization in pool else steps
        return cls(pools, (day * DAY_HOURS + history.end) * STEPS)

    @property
    def steps(self) -> int:
        """How many steps are known."""
        return max((len(gpus) for pool in self.pools.values() for gpus in pool.values()), default=0)

    @property
    def hours(self) -> float:
        """How many hours are known."""
        return self.steps * STEP / HOUR

    def text(self) -> str:
        """What is known, in a sentence."""
        organizations = {name for pool in self.pools.values() for name in pool}
        many = f"{len(organizations)} organization{'s' * (len(organizations) != 1)}"
        return f"{self.hours / 24:.1f} days of HP demand by {many} were taken from Prometheus"

    def history(self) -> DemandHistory:
        """The maximum of every full hour, for times of Unix; an organization begins with its first demand."""
        keys = sorted(SeriesKey(name, model) for model, pool in self.pools.items() for name in pool if pool[name].any())
        begin = -(-(self.end - self.steps) // STEPS)
        hours = max(self.end // STEPS - begin, 0)
        skipped = begin * STEPS - (self.end - self.steps)
        rows = [self.pools[key.gpu_model][key.organization][skipped : skipped + hours * STEPS] for key in keys]
        gpus = np.array([row.reshape(hours, STEPS).max(axis=1) for row in rows]).reshape(len(keys), hours)
        first = np.where(gpus.any(axis=1), (gpus > 0).argmax(axis=1), hours) if hours else np.zeros(len(keys), np.int64)
        day = begin // DAY_HOURS
        return DemandHistory(
            tuple(keys), gpus, first.astype(np.int64), begin - day * DAY_HOURS, EPOCH + timedelta(days=day)
        )


def learn(scheduler: Scheduler, past: PastDemand, models: Iterable[str]) -> None:
    """Put past demand before what the pools of these GPU models have seen themselves."""
    for model in sorted(set(models) & past.pools.keys()):
        pool = scheduler.pools[model]
        pool.state.remember(DemandRecord).prepend(past.pools[model], past.end)
        pool.rebuild()
