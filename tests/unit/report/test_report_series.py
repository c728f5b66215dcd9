"""The series behind the charts, worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from gfs.assembly.parameters import Parameters
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.report.series import (
    Prepared,
    TimeAxis,
    allocation,
    evictions_by_hour,
    node_heat,
    quota_over_time,
    waits,
)
from gfs.telemetry.metrics import Metrics, compute_metrics
from gfs.telemetry.runs import TaskColumns


@dataclass(frozen=True)
class Outcome:
    scheduler: str
    metrics: Metrics
    events: pa.Table
    quota: pa.Table | None = None
    parameters: Parameters = field(default_factory=Parameters)


# One spot task of 4 of the 8 cards: waits 1800 s, runs from 0:30 to 1:30.
WORLD = Workload(
    (Task(0, "s", "o", "A100", Priority.SPOT, 1, 4.0, 0.0),), (NodeSpec(0, "n0", "A100", 8),), "one", (3600.0,)
)
ONE_EVENTS = pa.table(
    {
        "time": [0.0, 1800.0, 5400.0],
        "event": ["submit", "start", "finish"],
        "task": ["s"] * 3,
        "run": [0, 1, 1],
        "node": ["", "n0", "n0"],
        "gpus": [4.0] * 3,
    }
)
ONE = Outcome("one", compute_metrics(ONE_EVENTS, WORLD, window=(0.0, 7200.0)), ONE_EVENTS)


def test_series_are_exact() -> None:
    one = Prepared.of(ONE, WORLD, TaskColumns.of(WORLD))
    axis = TimeAxis(0.0, 3600.0, 2)
    hp, spot = allocation(one, axis, 8)
    assert hp.tolist() == [0.0, 0.0]
    assert spot.tolist() == [25.0, 25.0]  # half the cards for half of each hour
    labels, heat = node_heat(one, ONE_EVENTS, WORLD, axis)
    assert (labels, heat.tolist()) == (["n0"], [[25.0, 25.0]])
    seconds, share = waits(one, spot=True)
    assert set(seconds) == {1800.0}
    assert share[-1] == 100.0
    assert len(waits(one, spot=False)[0]) == 0
    assert evictions_by_hour(one).sum() == 0


def test_evictions_fall_into_the_hour_of_day() -> None:
    events = pa.table(
        {
            "time": [0.0, 0.0, 90_000.0, 90_000.0, 93_640.0],
            "event": ["submit", "start", "evict", "start", "finish"],
            "task": ["s"] * 5,
            "run": [0, 1, 1, 2, 2],
        }
    )
    result = Outcome("x", compute_metrics(events, WORLD), events)
    by_hour = evictions_by_hour(Prepared.of(result, WORLD, TaskColumns.of(WORLD)))
    assert by_hour.tolist() == [0, 1] + [0] * 22  # 90,000 s = one day and one hour


def test_the_last_bin_is_measured_against_its_part_inside_the_span() -> None:
    short = replace(ONE, metrics=replace(ONE.metrics, span=(0.0, 5400.0)))
    spot = allocation(Prepared.of(short, WORLD, TaskColumns.of(WORLD)), TimeAxis(0.0, 3600.0, 2), 8)[1]
    assert spot.tolist() == [25.0, 50.0]


def test_many_nodes_share_rows() -> None:
    wide = Workload((), tuple(NodeSpec(i, f"n{i}", "A100" if i < 150 else "T4", 8) for i in range(200)))
    nothing = ONE_EVENTS.slice(0, 0)
    result = Outcome("x", compute_metrics(nothing, wide), nothing)
    labels, heat = node_heat(Prepared.of(result, wide, TaskColumns.of(wide)), nothing, wide, TimeAxis(0.0, 3600.0, 2))
    assert len(labels) == 67  # three nodes a row: 50 rows of A100, 17 of T4
    assert (labels[0], labels[50]) == ("A100 n0 …", "T4 n150 …")
    assert heat.shape == (67, 2)


def test_quota_over_time() -> None:
    quota = pa.table(
        {
            "time": [0.0, 1800.0],
            "gpu_model": ["A100", "A100"],
            "guarantee_hours": [1.0, 1.0],
            "quota": [4.0, 8.0],
            "spot_in_use": [0.0, 2.0],
        }
    )
    limit, used = quota_over_time(quota, TimeAxis(0.0, 3600.0, 2))
    assert (limit.tolist(), used.tolist()) == ([6.0, 8.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("seconds", "width"),
    [(3600.0, 60.0), (10 * 3600.0, 300.0), (36 * 3600.0, 3600.0), (91 * 86_400.0, 5 * 3600.0)],
)
def test_time_axis_has_readable_bins(seconds: float, width: float) -> None:
    axis = TimeAxis.over((0.0, seconds))
    assert axis.width == width
    assert axis.bins * axis.width >= seconds
    assert axis.bins <= 480
