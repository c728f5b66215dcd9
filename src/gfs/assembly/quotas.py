"""How each quota is built; any scheduler can be given any of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any, cast

from gfs.assembly.context import Context, QuotaDefinition
from gfs.assembly.parameters import QUOTA_GROUP
from gfs.core.ports import Quota
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.task import Task
from gfs.domain.text import suggestion
from gfs.domain.units import HOUR
from gfs.entry_points import find_offers, the_offer
from gfs.forecasting.meter import DemandMeter, DemandRecord
from gfs.forecasting.online import ForecastMemory, OnlineForecaster
from gfs.forecasting.perfect import NO_DEMAND, PERFECT, PerfectForecaster
from gfs.forecasting.registry import find_model
from gfs.quota.adaptive import AdaptiveQuota, ReserveMemory
from gfs.quota.feedback import (
    BrokenRates,
    EarlierCounts,
    EarlierPromises,
    EtaMemory,
    EvictionFeedback,
    EvictionRates,
    Feedback,
    NoFeedback,
    Rule,
)
from gfs.quota.forecast import ForecastQuota
from gfs.quota.inventory import AGGREGATES
from gfs.quota.static import FixedMemory, FixedQuota, UnlimitedQuota
from gfs.quota.table import DemandForecaster, QuotaMemory
from gfs.quota.waits import EndedWaits, SpotWaits

GUARANTEES = (1.0, 2.0, 4.0)
"""Hours of guarantee that there is always a quota for, whatever the trace asks for."""
ADAPTIVE = "adaptive"
LONGEST_GUARANTEE = 168.0
"""Hours that demand is forecast at most: models for more grow large, and forecasts beyond a week tell little."""


def build_quota(context: Context, own: str) -> Quota:
    """The quota that was given, or the one that the parameters ask for, or else the scheduler's own."""
    if context.own_quota is not None:
        return context.own_quota.build(context)
    name = context.parameters.quota or own
    return _QUOTAS[name](context) if name in _QUOTAS else find_quota(name).build(context)


def find_quota(name: str) -> QuotaDefinition:
    """The quota that an installed distribution offers under this name."""
    offer = the_offer("quota", name, find_offers(QUOTA_GROUP))
    if offer is None:
        raise InputError(f"unknown quota {name!r}: {suggestion(name, _QUOTAS)}")
    try:
        definition = as_quota(offer.import_it())
        if definition.name != name:
            raise InputError(f"it calls itself {definition.name!r}: entry point and definition must have one name")
    except InputError as error:
        raise InputError(f"quota {name!r} of {offer.source} cannot be used: {error}") from error
    return definition


def as_quota(thing: Any) -> QuotaDefinition:
    """The object itself if it can be used as a quota; else an InputError that says what it lacks."""
    if isinstance(thing, type):
        raise InputError(f"{thing.__name__} is a class: give an object of it")
    lacking = [word for word in ("name", "summary") if not isinstance(getattr(thing, word, None), str)]
    if not callable(getattr(thing, "build", None)):
        lacking.append("build(context)")
    if lacking:
        raise InputError(f"an object of type {type(thing).__name__} is no quota: it lacks {', '.join(lacking)}")
    if thing.name in _QUOTAS or not re.fullmatch(r"[^\s,+]+", thing.name):
        raise InputError(f"its name {thing.name!r} is that of a built-in quota, or cannot be typed: choose another")
    return cast(QuotaDefinition, thing)


def _fixed(context: Context) -> Quota:
    memory = context.state.remember(FixedMemory)
    return FixedQuota(context.pool, context.parameters.quota_share, context.guarantees, memory)


def _adaptive(context: Context) -> Quota:
    """A reserve of idle GPUs follows the share of broken guarantees."""
    state = context.state
    return AdaptiveQuota(
        context.pool,
        BrokenRates(state.ledger, state.remember(EarlierPromises)),
        _waits(context),
        p=context.parameters.p,
        guarantees=context.guarantees,
        memory=_reserve(context),
    )


def _reserve(context: Context) -> ReserveMemory:
    return context.state.remember(ReserveMemory)


def caution(context: Context, own: str) -> Callable[[], float]:
    """How careful a placer is to be with what HP may need: as the adaptive quota is, where that is in force; else 1."""
    if context.own_quota is not None or (context.parameters.quota or own) != ADAPTIVE:
        return lambda: 1.0
    reserve = _reserve(context)
    return lambda: reserve.caution


def _by_forecast(context: Context, forecaster: str, feedback: Callable[[Context, SpotWaits], Feedback]) -> Quota:
    """A forecast of HP demand and what corrects it (docs/concepts/spot-quota.md)."""
    waits, guarantees = _waits(context), sorted({*GUARANTEES, *context.guarantees})
    return ForecastQuota(
        context.pool,
        _demand(context, forecaster, guarantees, context.parameters.p),
        feedback(context, waits),
        aggregate=AGGREGATES[context.parameters.aggregate],
        guarantees=guarantees,
        memory=context.state.remember(QuotaMemory),
    )


def _waits(context: Context) -> SpotWaits:
    state = context.state
    waits = SpotWaits(state.remember(EndedWaits), state.waiting.values())
    state.listen(waits)
    return waits


def _rates(context: Context) -> EvictionRates:
    return EvictionRates(context.state.ledger, context.state.remember(EarlierCounts))


def _demand(context: Context, forecaster: str, guarantees: list[float], p: float) -> DemandForecaster:
    """A forecaster that learns from what is seen in the pool; its bounds hold with probability p."""
    parameters, pool, state = context.parameters, context.pool, context.state
    if guarantees[-1] > LONGEST_GUARANTEE:
        raise InputError(
            f"a guarantee of {guarantees[-1]:,g} hours: demand is forecast for {LONGEST_GUARANTEE:g} hours at most."
            " Shorten it, or choose another quota: quota=fixed or quota=none"
        )
    if forecaster == PERFECT and context.own_forecaster is None:
        if context.foresight is None:
            raise InputError("forecaster = perfect: only a simulation knows the future; choose another forecaster")
        return PerfectForecaster(context.foresight.get(pool.gpu_model, NO_DEMAND), ceil(guarantees[-1]))
    if (estimator := context.own_forecaster) is not None:
        hourly = bool(getattr(estimator, "hourly", False))
    else:
        model = find_model(forecaster)
        estimator, hourly = model.load(country=parameters.country), model.hourly
    meter = DemandMeter(
        pool.gpu_model,
        parameters.day,
        parameters.history_days,
        cluster=parameters.cluster,
        record=state.remember(DemandRecord),
        tasks=_tasks(state),
    )
    state.listen(meter)
    return OnlineForecaster(
        meter=meter,
        estimator=estimator,
        capacity=pool.capacity,
        p=p,
        hours=ceil(guarantees[-1]),
        least_hours=ceil(parameters.history_hours),
        retrain=parameters.retrain_hours * HOUR,
        hourly=hourly,
        stopwatch=context.stopwatch,
        memory=state.remember(ForecastMemory),
        train=context.train,
        gpu_model=pool.gpu_model,
        pools=context.forecasters,
    )


def _tasks(state: PoolState) -> Iterator[Task]:
    """All that run or wait."""
    yield from (run.task for run in state.runs.values())
    yield from (waiting.task for waiting in state.waiting.values())


def _eviction_feedback(context: Context, waits: SpotWaits) -> Feedback:
    parameters = context.parameters
    rule = Rule(1 - parameters.p, parameters.theta, parameters.eta_min, parameters.eta_max)
    return EvictionFeedback(_rates(context), waits, rule, context.state.remember(EtaMemory))


def _no_feedback(context: Context, waits: SpotWaits) -> Feedback:
    return NoFeedback(_rates(context), waits)


_QUOTAS: dict[str, Callable[[Context], Quota]] = {
    "none": lambda context: UnlimitedQuota(),
    "fixed": _fixed,
    # the forecast, or the peak of the last week in its place, corrected by evictions and waits, or not
    "forecast": lambda context: _by_forecast(context, context.parameters.forecaster, _eviction_feedback),
    "weekly-peak": lambda context: _by_forecast(context, "weekly-peak", _eviction_feedback),
    "forecast-no-feedback": lambda context: _by_forecast(context, context.parameters.forecaster, _no_feedback),
    ADAPTIVE: _adaptive,
}
