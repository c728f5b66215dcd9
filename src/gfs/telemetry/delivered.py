"""What spot tasks got while work was being submitted: useful GPU-hours, and those within their guarantee.

Every task of a simulation runs to its end, so over all of it any setting delivers the same. What tells settings
apart is how much they deliver in time: here until the last submission; in a trace of less than a day, until its
work would be done if no task waited. A run that lasts beyond it counts by the share of its time that lies before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gfs.domain.execution import ExecutionRules
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload
from gfs.telemetry.metrics import EPS, useful_and_wasted
from gfs.telemetry.metrics_prices import HOURS_PER_MONTH, default_prices, price_of
from gfs.telemetry.runs import Floats, TaskColumns, runs_table


@dataclass(frozen=True, slots=True)
class Delivered:
    """What spot tasks got in a month at this rate."""

    period_hours: float
    """Of the trace, as above: the same under every setting."""
    spot_gpu_hours: float
    """Useful GPU-hours of spot tasks a month: without work that was lost and without restarts."""
    guaranteed_gpu_hours: float
    """GPU-hours a month of guarantee periods that were completed."""
    worth: float
    """The useful GPU-hours at the given prices, US dollars a month."""
    wasted_worth: float
    """GPU-hours that spot tasks held and lost, at the same prices, US dollars a month."""


def delivered(
    events: pa.Table, workload: Workload, rules: ExecutionRules, prices: Mapping[str, float] | None = None
) -> Delivered:
    """Work it out from an event log; without `prices` at the assumed ones."""
    tasks, runs = TaskColumns.of(workload), runs_table(events, workload)
    if not len(runs.task):
        return Delivered(0.0, 0.0, 0.0, 0.0, 0.0)
    start, end = float(np.nanmin(runs.submitted)), float(np.nanmax(runs.submitted))
    if end - start < DAY:
        end = float(np.nanmax(tasks.submit + tasks.wanted))
    if end <= start:
        return Delivered(0.0, 0.0, 0.0, 0.0, 0.0)
    spot = tasks.spot[runs.task]
    length = runs.length
    inside = np.clip(np.minimum(runs.start + length, end) - runs.start, 0.0, None)
    share = np.divide(inside, length, out=np.zeros_like(length), where=length > 0) * spot
    useful, wasted = useful_and_wasted(runs, tasks, rules)
    promised = np.maximum(tasks.guarantee[runs.task], EPS)
    # One that finishes inside a guarantee period completes that one too (docs/concepts/metrics.md).
    whole = np.where(runs.finished, length, np.floor((length + EPS) / promised) * promised)
    table = default_prices() if prices is None else prices
    price = np.asarray([price_of(model, table) for model in tasks.models])[tasks.model[runs.task]]
    a_month = HOURS_PER_MONTH * HOUR / (end - start)

    def hours(gpu_seconds: Floats) -> float:
        return float((gpu_seconds * share).sum()) / HOUR * a_month

    return Delivered(
        period_hours=(end - start) / HOUR,
        spot_gpu_hours=hours(useful),
        guaranteed_gpu_hours=hours(tasks.gpus[runs.task] * whole),
        worth=hours(useful * price),
        wasted_worth=hours(wasted * price),
    )
