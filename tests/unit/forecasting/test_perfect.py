"""The perfect forecast of a simulation: what HP tasks will ask for, hour by hour from now."""

from __future__ import annotations

import numpy as np
import pytest

from builders import hp, nodes, spot, workload
from gfs import InputError, Parameters, simulate
from gfs.assembly.schedulers import build_scheduler
from gfs.domain.units import HOUR
from gfs.forecasting.perfect import PerfectForecaster, future_demand

CASE = workload(
    nodes(8, 8),
    [
        hp("a", gpus=4, at=600, lasting=1800, org="x"),
        hp("b", gpus=2, at=2400, lasting=3600, org="x"),
        hp("c", gpus=3, at=5000, lasting=100, org="y"),
        spot("s", gpus=8, lasting=9000),
    ],
)


def test_demand_is_the_peak_of_each_hour_that_begins_now() -> None:
    # x: 4 GPUs from 600 to 2400, then 2 until 6000 (they never overlap); y: 3 GPUs from 5000 to 5100.
    forecast = PerfectForecaster(future_demand(CASE)["A100"], hours=2).forecast(0.0)
    assert forecast.organizations == ("x", "y")
    assert forecast.mean.tolist() == [[4, 2], [0, 3]]
    assert forecast.upper is forecast.mean
    assert forecast.total_peak(1) == 4
    assert forecast.total_peak(2, 0.5) == 5  # 2 + 3 at 5000
    later = PerfectForecaster(future_demand(CASE)["A100"], hours=2).forecast(2400.0)
    assert later.mean.tolist() == [[2, 0], [3, 0]]
    assert PerfectForecaster(future_demand(CASE)["A100"], hours=3).forecast(9 * HOUR).total_peak(3) == 0


def test_sum_and_organizations_are_those_of_a_count_second_by_second() -> None:
    chance = np.random.default_rng(0)
    drafts = [
        hp(f"h{i}", gpus=int(chance.integers(1, 9)), at=float(chance.integers(0, 9000)),
           lasting=float(chance.integers(1, 5000)), org="xyz"[i % 3])
        for i in range(40)
    ]  # fmt: skip
    case = workload(nodes(*[8] * 40), drafts)
    seconds = np.zeros((4, 30_000))
    for task in case.tasks:
        begin = int(task.submit_time)
        for row in ("xyz".index(task.organization), 3):
            seconds[row, begin : begin + int(case.durations[task.index])] += task.gpus
    future = future_demand(case)["A100"]
    order = [*(future.organizations.index(name) for name in "xyz"), 3]
    for now in range(0, 18_000, 300):
        hours = seconds[:, now : now + 7200].reshape(4, 2, 3600)
        assert future.hours(now, 2)[order].tolist() == hours.max(axis=2).tolist()


@pytest.mark.parametrize("scheduler", ["gfs", "gfs-d", "gfs-e"])
def test_spot_waits_for_what_will_come(scheduler: str) -> None:
    # In 10 minutes an HP task takes the whole pool for an hour: who knows that does not start a spot task before it.
    case = workload(nodes(8), [hp("h", gpus=8, at=600, lasting=3600), spot("s", gpus=4, at=10, lasting=1000)])
    result = simulate(case, scheduler=scheduler, forecaster="perfect", eta_max=1.0)
    assert result.metrics.spot.evictions == 0
    assert result.metrics.spot.jqt_mean >= 4190


def test_a_live_cluster_knows_no_future() -> None:
    parameters = Parameters(forecaster="perfect")
    with pytest.raises(InputError, match="only a simulation knows the future"):
        build_scheduler("gfs", CASE.nodes, parameters, period=HOUR)
