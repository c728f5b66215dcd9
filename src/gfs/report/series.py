"""The series behind the charts of a comparison, small enough to embed in a page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from math import ceil
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gfs.assembly.result import RunResult
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload
from gfs.telemetry.metrics import Metrics
from gfs.telemetry.runs import (
    Bins,
    Bools,
    Floats,
    Ints,
    Runs,
    TaskColumns,
    numbers,
    pods_table,
    quota_by_pool,
    runs_table,
    time_average,
)

MOST_POINTS: Final = 480
"""Points a line has at most: about what a screen can show."""
MOST_ROWS: Final = 96
"""Rows a heat map has at most; neighbouring nodes of one pool share a row beyond it."""
QUANTILES: Final = 200


@dataclass(frozen=True, slots=True, eq=False)
class TimeAxis(Bins):
    """Equal bins over a span: whole hours, or whole parts of one for a short span."""

    first_day: date | None = None
    """The day that time 0 begins, if it is known: then the axis shows dates."""

    @classmethod
    def over(cls, span: tuple[float, float], most: int = MOST_POINTS, first_day: date | None = None) -> TimeAxis:
        """Bins of an hour, of more if there would be too many, of minutes if the whole is short."""
        seconds = max(span[1] - span[0], 1.0)
        width = HOUR * max(1, ceil(seconds / HOUR / most)) if seconds > 48 * HOUR else _fine(seconds, most)
        return cls(span[0], width, max(1, ceil(seconds / width - 1e-9)), first_day)

    @property
    def in_days(self) -> bool:
        """Long spans read in days, short ones in hours."""
        return self.width * self.bins > 4 * DAY

    @property
    def layout(self) -> dict[str, Any]:
        """How a chart draws it."""
        if self.first_day is not None:
            return {"type": "date", "title_text": "date"}
        return {"title_text": "time [days]" if self.in_days else "time [hours]"}

    @property
    def steps(self) -> dict[str, Any]:
        """The middle of the first bin and the way to the next, as a chart takes them."""
        middle = self.origin + self.width / 2
        if self.first_day is not None:
            begin = datetime.combine(self.first_day, time()) + timedelta(seconds=middle)
            return {"x0": begin.isoformat(sep=" ", timespec="seconds"), "dx": 1000 * self.width}
        unit = DAY if self.in_days else HOUR
        return {"x0": middle / unit, "dx": self.width / unit}

    @property
    def resolution(self) -> str:
        """What one point stands for, in words."""
        if self.width == HOUR:
            return "hourly averages"
        size = f"{self.width / HOUR:g} hours" if self.width > HOUR else f"{self.width / 60:g} minutes"
        return f"averages over {size}"


def _fine(seconds: float, most: int) -> float:
    """Hours as a rule; minutes for a span of less than a day, where hours would show a handful of points."""
    if seconds > DAY:
        return HOUR
    return next((w for w in (60.0, 300.0, 900.0) if seconds / w <= min(most, 120)), HOUR)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A result with its log already folded into runs."""

    name: str
    metrics: Metrics
    runs: Runs
    tasks: TaskColumns
    counted: Bools
    """Per task: submitted inside the window, and finished."""
    first_day: date | None = None

    @classmethod
    def of(cls, result: RunResult, workload: Workload, tasks: TaskColumns) -> Prepared:
        """Fold the log of a result once for all charts."""
        runs = runs_table(result.events, workload)
        first, last = result.metrics.span
        counted = (runs.submitted >= first - 1e-6) & (runs.submitted <= last + 1e-6)
        finished = np.zeros(len(counted), np.bool_)
        finished[runs.task[runs.finished]] = True
        return cls(result.scheduler, result.metrics, runs, tasks, counted & finished, result.parameters.day)

    def axis(self, most: int = MOST_POINTS) -> TimeAxis:
        """The time that it covers."""
        return TimeAxis.over(self.metrics.span, most, self.first_day)


def allocation(of: Prepared, axis: TimeAxis, cards: int) -> Floats:
    """Percent of all GPUs held by HP and by spot tasks: shape (2, bins)."""
    runs, tasks = of.runs, of.tasks
    held = time_average(
        runs.start,
        np.minimum(runs.start + runs.length, of.metrics.span[1]),
        tasks.gpus[runs.task],
        axis,
        group=tasks.spot[runs.task].astype(np.int64),
        groups=2,
    )
    # The last bin of a run may reach beyond its span: measure it against the part inside.
    left = of.metrics.span[1] - axis.origin - axis.width * np.arange(axis.bins)
    share: Floats = 100.0 * held / max(cards, 1) * (axis.width / np.clip(left, 1e-9, axis.width))
    share[:, left <= 0] = 0.0
    return share


def waits(of: Prepared, *, spot: bool) -> tuple[Floats, Floats]:
    """Quantiles of the queuing time of counted tasks: seconds, and the percent that waited no longer."""
    total = np.bincount(of.runs.task, of.runs.wait, len(of.tasks.spot))
    values = total[of.counted & (of.tasks.spot == spot)]
    if not len(values):
        return np.empty(0), np.empty(0)
    # More points towards the end: the long waits are what a reader looks for.
    shares = np.unique(np.concatenate([np.linspace(0, 1, QUANTILES), 1 - np.geomspace(1e-4, 0.1, 40)]))
    return np.quantile(values, shares), 100.0 * shares


def evictions_by_hour(of: Prepared) -> Ints:
    """Spot runs evicted in each of the 24 hours of the day, inside the span; time 0 is midnight."""
    first, last = of.metrics.span
    end = of.runs.end[of.runs.evicted & of.tasks.spot[of.runs.task]]
    end = end[(end >= first) & (end <= last)]
    return np.bincount((np.floor(end / HOUR) % 24).astype(np.int64), minlength=24)


def node_heat(of: Prepared, events: pa.Table, workload: Workload, axis: TimeAxis) -> tuple[list[str], Floats]:
    """Percent of each node's GPUs allocated per bin: row labels and an array (rows, bins)."""
    models = list(workload.capacity())
    rank = {m: i for i, m in enumerate(models)}
    order = sorted(workload.nodes, key=lambda n: (rank[n.gpu_model], n.index))
    per_row = max(1, ceil(len(order) / MOST_ROWS))
    row_of = np.zeros(len(order), np.int64)
    labels: list[str] = []
    cards: list[int] = []
    in_row, model = 0, ""
    for node in order:
        if node.gpu_model != model or in_row == per_row:
            prefix = f"{node.gpu_model} " if len(models) > 1 else ""
            labels.append(f"{prefix}{node.name}" + (" …" if per_row > 1 else ""))
            cards.append(0)
            in_row, model = 0, node.gpu_model
        row_of[node.index] = len(labels) - 1
        cards[-1] += node.gpus
        in_row += 1
    if not labels:
        return [], np.empty((0, axis.bins))
    pods = pods_table(events, workload, of.runs)
    start = of.runs.start[pods.run_row]
    end = np.minimum(start + of.runs.length[pods.run_row], of.metrics.span[1])
    held = time_average(start, end, pods.gpus, axis, row_of[pods.node], len(labels))
    return labels, np.round(100.0 * held / np.maximum(np.asarray(cards, np.float64)[:, None], 1.0))


def quota_over_time(quota: pa.Table, axis: TimeAxis) -> tuple[Floats, Floats]:
    """Quota and spot GPUs in use, all pools together, shortest guarantee of each, per bin."""
    time = numbers(quota["time"])
    columns = [np.nan_to_num(numbers(quota[c]), posinf=0.0) for c in ("quota", "spot_in_use")]
    totals = [np.zeros(axis.bins), np.zeros(axis.bins)]
    end = axis.origin + axis.width * axis.bins
    for rows in quota_by_pool(quota).values():
        until = np.append(time[rows][1:], end)
        for total, column in zip(totals, columns, strict=True):
            total += time_average(time[rows], until, column[rows], axis)[0]
    return totals[0], totals[1]
