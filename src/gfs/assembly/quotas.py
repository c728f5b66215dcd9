"""The quota parts there are; any scheduler can be given any of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from math import ceil

from gfs.assembly.context import Context
from gfs.core.ports import Quota
from gfs.domain.errors import InputError
from gfs.domain.units import HOUR
from gfs.forecasting.meter import DemandMeter
from gfs.forecasting.online import OnlineForecaster
from gfs.forecasting.registry import find_model
from gfs.quota.adaptive import AdaptiveQuota
from gfs.quota.feedback import EvictionFeedback, Feedback, NoFeedback, Rule
from gfs.quota.fixed import FixedQuota
from gfs.quota.forecast import ForecastQuota
from gfs.quota.inventory import AGGREGATES
from gfs.quota.unlimited import UnlimitedQuota
from gfs.quota.waits import SpotWaits

GUARANTEES = (1.0, 2.0, 4.0)
"""Hours of guarantee that there is always a quota for, whatever the trace asks for."""
FURTHEST = 168.0
"""Hours: nobody knows demand further ahead than a week, and the models grow with what they look at."""


def build_quota(context: Context, own: str) -> Quota:
    """The quota the parameters ask for, or else the scheduler's own."""
    return _QUOTAS[context.parameters.quota or own](context)


def _fixed(context: Context) -> Quota:
    return FixedQuota(context.pool, context.parameters.quota_share, context.guarantees)


def _forecast(context: Context) -> Quota:
    """The closed loop."""
    return _by_forecast(context, context.parameters.forecaster, context.parameters.aggregate, _closed)


def _weekly_peak(context: Context) -> Quota:
    """No forecast but the peak of the last week; the loop is closed."""
    return _by_forecast(context, "weekly-peak", context.parameters.aggregate, _closed)


def _open_loop(context: Context) -> Quota:
    """Nothing corrects the forecast."""
    return _by_forecast(context, context.parameters.forecaster, context.parameters.aggregate, _open)


def _adaptive(context: Context) -> Quota:
    """The level of a bound on the pool's total peak follows the share of broken guarantees."""
    waits, guarantees = SpotWaits(), list(context.guarantees)
    context.observers.append(waits)
    demand = _demand(context, "orgquantile", guarantees)
    return AdaptiveQuota(
        context.pool, demand, context.ledger, waits, p=context.parameters.p, guarantees=guarantees
    )


def _by_forecast(
    context: Context, forecaster: str, aggregate: str, feedback: Callable[[Context, SpotWaits], Feedback]
) -> Quota:
    waits, guarantees = SpotWaits(), _guarantees(context)
    context.observers.append(waits)
    demand = _demand(context, forecaster, guarantees)
    rule = AGGREGATES[aggregate]
    return ForecastQuota(context.pool, demand, feedback(context, waits), aggregate=rule, guarantees=guarantees)


def _guarantees(context: Context) -> list[float]:
    return sorted({*GUARANTEES, *context.guarantees})


def _demand(context: Context, forecaster: str, guarantees: list[float]) -> OnlineForecaster:
    """A forecaster that learns from what is seen in the pool."""
    parameters, pool = context.parameters, context.pool
    if guarantees[-1] > FURTHEST:
        raise InputError(
            f"a guarantee of {guarantees[-1]:,g} hours: demand is forecast for {FURTHEST:g} hours at most."
            " Shorten it, or choose another quota: quota=fixed or quota=none"
        )
    day = date.fromisoformat(parameters.first_day) if parameters.first_day else None
    meter, model = DemandMeter(pool.gpu_model, day), find_model(forecaster)
    context.observers.append(meter)
    return OnlineForecaster(
        meter,
        model.load(country=parameters.country),
        capacity=pool.capacity,
        p=parameters.p,
        hours=ceil(guarantees[-1]),
        least_hours=ceil(parameters.history_hours),
        retrain=parameters.retrain_hours * HOUR,
        hourly=model.hourly,
        stopwatch=context.stopwatch,
    )


def _closed(context: Context, waits: SpotWaits) -> Feedback:
    parameters = context.parameters
    rule = Rule(1 - parameters.p, parameters.theta, parameters.eta_min, parameters.eta_max)
    return EvictionFeedback(context.ledger, waits, rule)


def _open(context: Context, waits: SpotWaits) -> Feedback:
    return NoFeedback(context.ledger, waits)


_QUOTAS: dict[str, Callable[[Context], Quota]] = {
    "none": lambda context: UnlimitedQuota(),
    "fixed": _fixed,
    "forecast": _forecast,
    "weekly-peak": _weekly_peak,
    "open-loop": _open_loop,
    "adaptive": _adaptive,
}
