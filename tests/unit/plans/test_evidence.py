"""Sums by pool and block are those of the metrics, from the same log."""

from __future__ import annotations

import numpy as np
import pytest

from builders import hp, nodes, spot, workload
from gfs import Parameters, generate
from gfs.assembly.run import run_simulation
from gfs.plans.evidence import DAY, block_edges, from_json, sums_by_pool, to_json, total
from gfs.plans.runs import tasks_span
from gfs.telemetry.runs import runs_table


@pytest.mark.parametrize("scheduler", ["gfs-plus", "static"])
def test_all_blocks_together_are_the_metrics_of_the_run(scheduler: str) -> None:
    trace = generate("demo", nodes=8, days=5, seed=3, spot_scale=2)
    result = run_simulation(trace, scheduler, Parameters(quota="fixed", quota_share=0.3))
    first, span = tasks_span(trace)
    edges = block_edges(first, first + span)
    pools = sums_by_pool(result.events, trace, Parameters().rules, edges)
    assert list(pools) == ["A100"]
    assert len(pools["A100"]) == len(edges) >= 4
    sums, figures = total(pools["A100"]), result.metrics.figures()
    assert figures["spot_evictions"] > 50
    assert (sums.runs, sums.evictions) == (figures["spot_runs"], figures["spot_evictions"])
    assert sums.broken == pytest.approx(1 - figures["spot_guarantee_hit_rate"])
    assert sums.spot_wait == pytest.approx(figures["spot_jqt_mean"])
    assert sums.wait("hp", "mean") == pytest.approx(figures["hp_jqt_mean"])
    assert sums.wasted_gpu_hours == pytest.approx(figures["spot_wasted_gpu_hours"])
    runs = runs_table(result.events, trace)
    waits = np.bincount(runs.task, runs.wait)[[task.index for task in trace.tasks if task.is_spot]]
    for which in (50, 95, 99):
        exact = np.percentile(waits, which, method="inverted_cdf")
        assert sums.wait("spot", f"p{which}") == pytest.approx(exact, rel=0.005)  # three digits
    assert from_json(to_json(pools)) == pools


def test_a_task_belongs_to_its_pool_and_to_the_block_in_which_it_came() -> None:
    """An HP task of pool A10 waits 100 s on day 0; a spot task of A100 comes on day 1 and is done at once."""
    machines = [*nodes(8), *nodes(8, model="A10", prefix="a", first=1)]
    drafts = [
        hp("first", gpus=8, lasting=100, model="A10"),
        hp("second", gpus=8, lasting=10, model="A10"),
        spot("later", at=DAY + 5, lasting=50),
    ]
    trace = workload(machines, drafts)
    result = run_simulation(trace, "static", Parameters(quota="none"))
    pools = sums_by_pool(result.events, trace, Parameters().rules, [0.0, DAY])
    assert [one.hp_waits for one in pools["A10"]] == [{"0": 1, "100": 1}, {}]
    assert [one.runs for one in pools["A10"]] == [0, 0]
    assert [(one.runs, one.guarantees, one.spot_waits) for one in pools["A100"]] == [(0, 0, {}), (1, 1, {"0": 1})]
