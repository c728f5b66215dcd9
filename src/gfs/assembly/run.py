"""One simulation from a workload to its results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from gfs.assembly.definitions import SchedulerDefinition
from gfs.assembly.parameters import Parameters
from gfs.assembly.result import ForecastFigures, ReservationFigures, RunResult, Window
from gfs.assembly.schedulers import (
    build_scheduler,
    check_fits_quota,
    check_fits_resources,
    find_scheduler,
    has_leases,
    has_quota,
    quota_in_force,
)
from gfs.core.actions import START, Record
from gfs.core.ports import Policy
from gfs.core.scheduler import TickObserver
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.task import Task
from gfs.domain.units import HOUR
from gfs.domain.workload import Workload
from gfs.forecasting.online import Stopwatch
from gfs.forecasting.perfect import PERFECT, future_demand
from gfs.gc_paused import gc_paused
from gfs.policies.gfs.reservation import ReservationCost
from gfs.simulator.engine import Engine
from gfs.telemetry.decisions import AnyNote, DecisionLog
from gfs.telemetry.event_log import EventLog, QuotaLog
from gfs.telemetry.metrics import compute_metrics
from gfs.workloads.plausibility import check_run_length

Progress = Callable[[int], None]
"""Told now and then how many tasks have finished."""


def run_simulation(
    workload: Workload,
    scheduler: str | SchedulerDefinition,
    parameters: Parameters,
    *,
    window: Window = (None, None),
    seed: int = 0,
    check: bool = False,
    record_quota: bool = False,
    record_decisions: bool = False,
    progress: Progress | None = None,
) -> RunResult:
    """Run a workload through a scheduler to the end and work out the metrics from the event log.

    `record_quota`, `record_decisions`: keep the quota of every tick, and what was expected and weighed.
    """
    if seed < 0:
        raise InputError(f"seed = {seed}: must be 0 or more")
    if parameters.resources == "off":
        workload = workload.gpus_only()
    definition = find_scheduler(scheduler)
    check_run_length(workload, parameters.tick)
    log, quota_log, watch, reserved = EventLog(workload), QuotaLog(), Stopwatch(time.process_time), ReservationCost()
    notes: list[AnyNote] = []
    decisions = DecisionLog(notes.append)
    check_fits_quota(definition, workload, parameters)
    check_fits_resources(workload, parameters)
    built = build_scheduler(
        definition,
        workload.nodes,
        parameters,
        period=period_of(workload, window),
        guarantees=guarantees_of(workload),
        seed=seed,
        check=check,
        on_tick=_observers(quota_log.note if record_quota else None, decisions.tick if record_decisions else None),
        tell_alternatives=record_decisions,
        stopwatch=watch,
        reservation_cost=reserved,
        foresight=future_demand(workload) if parameters.forecaster == PERFECT else None,
    )
    rules = parameters.rules

    moves = record_quota and has_quota("adaptive", definition, parameters)  # others only at ticks

    def record(entry: Record) -> None:
        log.record(entry)
        now, kind, task, *_ = entry
        pool = built.pools[task.gpu_model]
        if moves and kind == START and task.is_spot:
            quota_log.follow(now, pool.state, pool.policy)
        if record_decisions:
            decisions.record(entry, pool.state, pool.policy)

    noted = record if moves or record_decisions else log.record
    engine = Engine(workload, built, noted, rules=rules, tick=parameters.tick, progress=progress)
    before = time.process_time()
    try:
        engine.run()
    finally:
        _tell_failures(watch)
    seconds = time.process_time() - before
    with gc_paused():  # there are millions of entries, and none of them is garbage
        events = log.table()
    quota = quota_log.table() if record_quota else None
    metrics = compute_metrics(
        events, workload, window=window, quota=quota, alpha=parameters.alpha, rules=rules, leases=has_leases(definition)
    )
    return RunResult(
        scheduler=definition.name,
        metrics=metrics,
        events=events,
        quota=quota,
        decisions=notes if record_decisions else None,
        quota_in_force=quota_in_force(definition, parameters),
        parameters=parameters,
        window=window,
        seed=seed,
        seconds=seconds,
        workload=workload,
        solver=built.solver,
        forecasting=ForecastFigures(watch.fits, watch.training, watch.forecasts, watch.forecasting, watch.failures)
        if watch.forecasts or watch.fits or watch.failures
        else None,
        reservations=ReservationFigures(reserved.tasks, reserved.gpu_seconds / HOUR) if reserved.tasks else None,
    )


def _observers(*observers: TickObserver | None) -> TickObserver | None:
    """Everyone who looks at ticks as one, or nobody."""
    some = [observer for observer in observers if observer is not None]
    if len(some) < 2:
        return some[0] if some else None

    def all_of_them(now: float, state: PoolState, policy: Policy) -> None:
        for observer in some:
            observer(now, state, policy)

    return all_of_them


def _tell_failures(watch: Stopwatch) -> None:
    """A forecaster that fails stops no decision, but whoever runs the simulation must know: one line for all."""
    if watch.failures:
        logging.getLogger("gfs").warning(
            f"the forecaster failed {watch.failures:,} times, and the spot quota was cautious or went by an earlier"
            f" model meanwhile. The last time: {watch.problem}"
        )


def with_task_defaults(workload: Workload, parameters: Parameters) -> Workload:
    """Give tasks that stand at the usual guarantee and checkpoint interval those of the parameters."""
    usual = Parameters()
    changes = {
        name: (getattr(usual, name), getattr(parameters, name))
        for name in ("guarantee_hours", "checkpoint_interval")
        if getattr(parameters, name) != getattr(usual, name)
    }
    if not changes:
        return workload

    def changed(task: Task) -> Task:
        values = {name: new for name, (old, new) in changes.items() if getattr(task, name) == old}
        return replace(task, **values) if values else task

    return replace(workload, tasks=tuple(changed(task) for task in workload.tasks))


def guarantees_of(workload: Workload) -> set[float]:
    """The guarantees that a trace's spot tasks ask for, in hours: what is on offer when it is simulated."""
    return {task.guarantee_hours for task in workload.tasks if task.is_spot}


def period_of(workload: Workload, window: Window) -> float:
    """T of the preemption cost: the window, or from the first submission to the last."""
    tasks = workload.tasks
    if not tasks:
        return HOUR
    start = tasks[0].submit_time if window[0] is None else window[0]
    end = tasks[-1].submit_time if window[1] is None else window[1]
    return max(end - start, HOUR)
