"""Demand of the days before, as a controller would have seen and saved it."""

from __future__ import annotations

from collections import defaultdict
from math import ceil
from pathlib import Path

import numpy as np

from gfs.assembly.parameters import Parameters
from gfs.assembly.snapshot import save_state
from gfs.domain.workload import Workload
from gfs.forecasting.history import Floats
from gfs.forecasting.meter import STEP
from gfs.live.bench.submission import object_name
from gfs.live.history import PastDemand, learn
from gfs.live.service import STATE, new_scheduler
from gfs.live.settings import LiveSettings


def past_demand(workload: Workload, begin: float, end: float, now: float) -> PastDemand:
    """The HP demand of a trace from begin to end, as if that were now. Nobody waited."""
    size = int((end - begin) // STEP)
    pools: dict[str, dict[str, Floats]] = defaultdict(lambda: defaultdict(lambda: np.zeros(size)))
    for task in workload.tasks:
        if not task.is_spot:
            first = int((task.submit_time - begin) // STEP)
            last = ceil((task.submit_time + workload.durations[task.index] - begin) / STEP)
            pools[task.gpu_model][object_name(task.organization)][max(first, 0) : max(last, 0)] += task.gpus
    return PastDemand({model: dict(pool) for model, pool in pools.items()}, int(now // STEP))


def save_past(past: PastDemand, settings: LiveSettings, parameters: Parameters, folder: Path, now: float) -> None:
    """A state that knows this demand and nothing else."""
    scheduler = new_scheduler(settings, parameters)
    learn(scheduler, past, set(past.pools))
    folder.mkdir(parents=True, exist_ok=True)
    save_state(scheduler, folder / STATE, now=now, name=settings.scheduler)
