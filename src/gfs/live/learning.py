"""The basis of the spot quota: a cautious rule at first, then the forecast. Fits run in processes of their own."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from typing import Any

from gfs.core.events import Trained
from gfs.core.ports import FitRequest
from gfs.core.scheduler import PoolScheduler, Scheduler
from gfs.forecasting.meter import STEPS, DemandRecord
from gfs.forecasting.online import CAUTIOUS, NOTHING_KNOWN

log = logging.getLogger("gfs.live")


def forecaster_of(pool: PoolScheduler) -> str:
    """Returns the forecaster that the quota of a pool follows now; '': none."""
    return next((row.forecaster for row in pool.policy.quota.rows()), "")


def demand_hours(pool: PoolScheduler) -> float | None:
    """Returns the hours of known demand; None: the quota follows no forecast, and demand is not measured."""
    record: DemandRecord | None = pool.state.memory.get(DemandRecord)
    return record.steps / STEPS if record is not None else None


def is_cautious(pool: PoolScheduler) -> bool:
    """Whether the quota of a pool waits for a forecaster that has learned."""
    return forecaster_of(pool) in (CAUTIOUS, NOTHING_KNOWN)


def caution(pool: PoolScheduler, least_hours: float) -> str:
    """Returns why the quota of a pool is cautious; '': it follows a forecast, or needs none."""
    forecaster = forecaster_of(pool)
    if forecaster == NOTHING_KNOWN:
        return "the quota is cautious: no demand is known yet, so all GPUs are kept for HP"
    if forecaster != CAUTIOUS:
        return ""
    hours = demand_hours(pool) or 0.0
    known = f"{hours:.1f} of {least_hours:g} hours of demand are known"
    return f"the quota is cautious: {known if hours < least_hours else 'the forecaster is being trained'}"


class Learning:
    """Logs and announces when the quota of a pool begins to be cautious, and when it is forecast."""

    def __init__(self, scheduler: Scheduler, least_hours: float, announce: Callable[[str, str], None]) -> None:
        """`announce` takes reason and message of an event."""
        self._scheduler, self._least_hours, self._announce = scheduler, least_hours, announce
        self._known: dict[str, str] = {}

    def look(self) -> None:
        """Announce changes since the last look."""
        for model, pool in self._scheduler.pools.items():
            forecaster = forecaster_of(pool) if pool.state.nodes else ""
            state = CAUTIOUS if forecaster == NOTHING_KNOWN else forecaster
            if state in ("", self._known.get(model)):
                continue
            self._known[model] = state
            why = caution(pool, self._least_hours)
            message = f"pool {model}: {why or f'the spot quota follows the forecast of {forecaster}'}"
            log.info(message)
            self._announce("CautiousQuota" if why else "ForecastInForce", message)


class Trainer:
    """Runs each fit in a process of its own and hands the model back as an event."""

    def __init__(self, done: Callable[[Trained], None]) -> None:
        """`done` is called from another thread."""
        self._done, self._is_closed = done, False
        self.asked = self.fits = self.failures = 0
        self.last_fit = 0.0
        """Request time of the newest model; 0: there is none."""

    def train(self, request: FitRequest) -> None:
        """Begin a fit; the model comes later."""
        process = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        process.submit(request.fit).add_done_callback(partial(self._hand_back, request))
        process.shutdown(wait=False)  # it ends with the fit
        self.asked += 1

    def _hand_back(self, request: FitRequest, future: Future[Any]) -> None:
        error = future.exception()
        if self._is_closed:
            return
        if error is not None:
            self.failures += 1
            log.warning(f"a fit for pool {request.gpu_model} failed, the earlier model stays: {error}")
            return
        self.fits += 1
        self.last_fit = max(self.last_fit, request.asked_at)
        self._done(Trained(request.gpu_model, future.result(), request.asked_at))

    @property
    def under_way(self) -> int:
        """Number of fits that still run."""
        return self.asked - self.fits - self.failures

    def close(self) -> None:
        """Ignore fits that end later."""
        self._is_closed = True
