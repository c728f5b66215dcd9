"""What experiments look at in a run besides its metrics, small enough to be kept in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gfs.assembly.result import RunResult
from gfs.domain.units import DAY, HOUR
from gfs.forecasting.sources import history_of_events
from gfs.report.series import Prepared, TimeAxis, node_heat
from gfs.telemetry.runs import Floats, Ints, TaskColumns, numbers, pods_table, quota_by_pool, time_average

WEEK = 7 * DAY


def _prepared(result: RunResult) -> Prepared:
    return Prepared.of(result, result.workload, TaskColumns.of(result.workload))


def evictions(result: RunResult) -> dict[str, Any]:
    """Spot runs that ended and those evicted, by week of the trace and hour of the day."""
    of = _prepared(result)
    runs, spot = of.runs, of.tasks.spot[of.runs.task]
    first = of.metrics.span[0]
    week = ((runs.end - first) // WEEK).astype(np.int64)
    hour = (np.floor(runs.end / HOUR) % 24).astype(np.int64)
    weeks = max(1, int((of.metrics.span[1] - first) // WEEK))
    kept = spot & (week >= 0) & (week < weeks)
    place = week * 24 + hour

    def counted(which: Any) -> list[list[int]]:
        counts: list[list[int]] = np.bincount(place[which], minlength=24 * weeks).reshape(weeks, 24).tolist()
        return counts

    return {"ended": counted(kept), "evicted": counted(kept & runs.evicted)}


def waits_by_size(result: RunResult) -> dict[str, Any]:
    """Queuing time by GPUs of the task: mean and 90th percentile, of HP and of spot tasks."""
    of = _prepared(result)
    total = np.bincount(of.runs.task, of.runs.wait, len(of.tasks.spot))
    groups = ((0.0, 1.0, "<1"), (1.0, 2.0, "1"), (2.0, 4.0, "2-3"), (4.0, 8.0, "4-7"), (8.0, 9.0, "8"))
    rows: dict[str, Any] = {}
    for kind, which in (("HP", ~of.tasks.spot), ("spot", of.tasks.spot)):
        rows[kind] = []
        for low, high, label in (*groups, (9.0, np.inf, ">8")):
            mine = total[which & of.counted & (of.tasks.gpus >= low) & (of.tasks.gpus < high)]
            if len(mine):
                row = [label, len(mine), float(mine.mean()), float(np.quantile(mine, 0.9))]
                rows[kind].append(row)
    return rows


def heat(result: RunResult) -> dict[str, Any]:
    """Percent of each node's GPUs in use, hour by hour, in the three largest pools.

    In the second week, or in the first 168 hours of a trace of less than two.
    """
    workload, of = result.workload, _prepared(result)
    first, last = _submissions(of)
    begin = first + WEEK if last - first > 2 * WEEK - DAY else first
    begin = np.floor(begin / HOUR) * HOUR
    axis = TimeAxis(begin, HOUR, int(np.clip(np.ceil((of.metrics.span[1] - begin) / HOUR), 1, 168)))
    pools = []
    for model, cards in sorted(workload.capacity().items(), key=lambda pool: -pool[1])[:3]:
        mine = [node for node in workload.nodes if node.gpu_model == model]
        pool = replace(workload, nodes=tuple(replace(node, index=i) for i, node in enumerate(mine)))
        labels, percent = node_heat(of, result.events, pool, axis)
        pods = pods_table(result.events, pool, of.runs)
        start = of.runs.start[pods.run_row]
        end = start + of.runs.length[pods.run_row]
        held = time_average(start, end, pods.gpus, axis)[0]
        busy = pods.node[(start < begin + HOUR * axis.bins) & (end > begin)]
        pools.append(
            {
                "model": model,
                "cards": cards,
                "nodes": len(mine),
                "idle_nodes": len(mine) - len(np.unique(busy)),
                "labels": labels,
                "percent": percent.astype(int).tolist(),
                "hourly": np.round(100 * held / max(cards, 1), 3).tolist(),
            }
        )
    return {"first_hour": int(begin // HOUR), "pools": pools}


def pools(result: RunResult) -> dict[str, Any]:
    """By GPU model: cards, spot runs that ended, evictions, and the shares of the GPUs in use and asked for.

    Shares from the first submission to the last, after which a trace only fades out; asked for: what would be in
    use if every task started at once and there were GPUs for all.
    """
    of = _prepared(result)
    runs, tasks = of.runs, of.tasks
    first, last = _submissions(of)
    model = tasks.model[runs.task]
    inside = np.clip(runs.start + runs.length, first, last) - np.clip(runs.start, first, last)
    held = np.bincount(model, tasks.gpus[runs.task] * inside, len(tasks.models))
    inside = np.clip(tasks.submit + tasks.wanted, first, last) - tasks.submit
    asked = np.bincount(tasks.model, tasks.gpus * inside, len(tasks.models))
    spot = tasks.spot[runs.task] & runs.ended
    ended = np.bincount(model[spot], minlength=len(tasks.models))
    evicted = np.bincount(model[spot & runs.evicted], minlength=len(tasks.models))
    seconds = max(last - first, 1.0)
    return {
        name: {
            "cards": cards,
            "runs": int(ended[i]),
            "evictions": int(evicted[i]),
            "allocation": float(held[i]) / (cards * seconds),
            "asked": float(asked[i]) / (cards * seconds),
        }
        for i, (name, cards) in enumerate(result.workload.capacity().items())
    }


def _submissions(of: Prepared) -> tuple[float, float]:
    """The first and the last submission; in a trace of less than a day, to the end of the work if none waited.

    The same under every scheduler, so that shares of that time can be compared.
    """
    submit = of.tasks.submit
    first, last = float(submit.min()), float(submit.max())
    return first, last if last - first >= DAY else float((submit + of.tasks.wanted).max())


def quota(result: RunResult) -> dict[str, Any]:
    """The quota of the shortest guarantee in the largest pool, hour by hour, what led to it, and the actual demand."""
    table = result.quota
    assert table is not None
    largest = max(result.workload.capacity().items(), key=lambda pool: pool[1])[0]
    rows = quota_by_pool(table).get(largest, np.empty(0, np.int64))
    time = numbers(table["time"])[rows]
    step = np.flatnonzero(np.r_[True, np.diff(np.floor(time / HOUR)) > 0])
    columns = ("quota", "demand", "expected_demand", "spot_in_use", "idle", "eta", "inventory")
    found = {name: numbers(table[name])[rows][step].copy() for name in columns}
    bound, expected = found["demand"], found["expected_demand"]
    bound[~(np.isfinite(expected) & ((bound > 0) | (expected == 0)))] = np.nan  # a bound of 0: nobody looked ahead
    hour = np.floor(time[step] / HOUR).astype(np.int64)
    found["actual"] = _hp_demand(result, largest, hour)
    rounded = {n: [round(float(x), 3) if np.isfinite(x) else None for x in values] for n, values in found.items()}
    return {"pool": largest, "hour": hour.tolist(), **rounded}


def _hp_demand(result: RunResult, model: str, hour: Ints) -> Floats:
    """The HP demand of one pool in these hours, running or queued; NaN after the last submission."""
    actual = np.full(len(hour), np.nan)
    if any(not task.is_spot for task in result.workload.tasks):
        history = history_of_events(result.events)
        mine = [row for row, key in enumerate(history.keys) if key.gpu_model == model]
        known = (hour >= history.start) & (hour < history.end)
        actual[known] = history.gpus[mine].sum(axis=0)[hour[known] - history.start]
    return actual


VIEWS: dict[str, Callable[[RunResult], dict[str, Any]]] = {
    "evictions": evictions,
    "waits": waits_by_size,
    "heat": heat,
    "pools": pools,
    "quota": quota,
}
"""By name."""
