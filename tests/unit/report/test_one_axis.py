"""Runs of different lengths in one chart: the panels share their time axis, so they must share its unit."""

from __future__ import annotations

import pytest

from builders import hp, nodes, spot, workload
from gfs import simulate
from gfs.domain.units import DAY
from gfs.report.charts import allocation_chart
from gfs.report.series import Prepared
from gfs.telemetry.runs import TaskColumns


def test_panels_of_short_and_long_runs_have_one_axis() -> None:
    # Under static spot tasks hold 4 of 8 GPUs: seven tasks of a day follow one another. Without a quota two run at a
    # time, and all is over after four days. Days on one panel and hours on the other would be drawn as the same.
    jobs = [hp("h", gpus=1, lasting=3600), *(spot(f"s{i}", gpus=4, lasting=DAY) for i in range(7))]
    work = workload(nodes(8), jobs)
    long, short = simulate(work, scheduler="static", quota_share=0.5), simulate(work, scheduler="yarn-cs")
    columns = TaskColumns.of(work)
    results = [Prepared.of(each, work, columns) for each in (long, short)]
    assert [each.axis().in_days for each in results] == [True, False]
    chart = allocation_chart(results, work)
    assert len({(trace.x0, trace.dx) for trace in chart.data}) == 1
    spot_hours = [sum(trace.y) * 8 / 100 for trace in chart.data if trace.name == "spot"]
    assert spot_hours == pytest.approx([7 * 24 * 4, 7 * 24 * 4], rel=1e-3)  # all of it, on both
