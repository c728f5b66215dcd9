"""Every metric (docs/concepts/metrics.md) against numbers worked out by hand.

The story all cases share, on two nodes of 8 A100 (n0, n1) and one of 4 T4 (m0):

    s1  spot, 2 pods x 8 A100, submitted 0, 7200 s of work, checkpoint every 3600 s
        run 1: 0 to 5400 on n0 and n1, evicted for h1; 3600 s are saved, 1800 s are lost
        run 2: 9030 to 12690 = 60 s restart (more than 8 GPUs) + the other 3600 s
    h1  HP, 1 x 8 A100, submitted 5400, 3600 s of work: 5430 (30 s of grace) to 9030 on n0
    s2  spot, half a T4, submitted 100, 1000 s of work: 100 to 1100
    h2  HP, 1 x 2 T4, submitted 12000, 690 s of work: 12000 to 12690
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import needs
from gfs.domain.errors import InputError
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.telemetry.metrics import compute_metrics
from gfs.telemetry.prices import default_prices, monthly_benefit, price_of
from gfs.telemetry.runs import runs_table
from logs import AUDITOR, Row, agrees_with_auditor, log, scrambled

S1 = Task(0, "s1", "lab", "A100", Priority.SPOT, 2, 8.0, 0.0)
S2 = Task(1, "s2", "lab", "T4", Priority.SPOT, 1, 0.5, 100.0)
H1 = Task(2, "h1", "ads", "A100", Priority.HP, 1, 8.0, 5400.0)
H2 = Task(3, "h2", "ads", "T4", Priority.HP, 1, 2.0, 12000.0)
WORK = {"s1": 7200.0, "s2": 1000.0, "h1": 3600.0, "h2": 690.0}
NODES = (NodeSpec(0, "n0", "A100", 8), NodeSpec(1, "n1", "A100", 8), NodeSpec(2, "m0", "T4", 4))


def world(*tasks: Task) -> Workload:
    """These tasks, with the work that the story gives them."""
    return Workload(tasks, NODES, durations=tuple(WORK[task.name] for task in tasks))


STORY = world(S1, S2, H1, H2)
ALL = "0+1+2+3+4+5+6+7"
LOG: list[Row] = [
    (0.0, "submit", "s1", 0, "", ""),
    (0.0, "start", "s1", 1, "n0", ALL),
    (0.0, "start", "s1", 1, "n1", ALL),
    (100.0, "submit", "s2", 0, "", ""),
    (100.0, "start", "s2", 1, "m0", "0:0.5"),
    (1100.0, "finish", "s2", 1, "m0", "0:0.5"),
    (5400.0, "submit", "h1", 0, "", ""),
    (5400.0, "evict", "s1", 1, "n0", ALL),
    (5400.0, "evict", "s1", 1, "n1", ALL),
    (5430.0, "start", "h1", 1, "n0", ALL),
    (9030.0, "finish", "h1", 1, "n0", ALL),
    (9030.0, "start", "s1", 2, "n0", ALL),
    (9030.0, "start", "s1", 2, "n1", ALL),
    (12000.0, "submit", "h2", 0, "", ""),
    (12000.0, "start", "h2", 1, "m0", "1+2"),
    (12690.0, "finish", "h2", 1, "m0", "1+2"),
    (12690.0, "finish", "s1", 2, "n0", ALL),
    (12690.0, "finish", "s1", 2, "n1", ALL),
]


@pytest.mark.parametrize("encoded", [False, True], ids=["plain text", "dictionary-encoded"])
def test_the_whole_story(encoded: bool) -> None:
    m = compute_metrics(log(LOG, STORY, encoded=encoded), STORY)

    assert m.hp.tasks == 2
    assert m.hp.jct_mean == pytest.approx(2160.0)  # (3630 + 690) / 2
    assert m.hp.jct_p99 == pytest.approx(3600.6)  # 690 + 0.99 x (3630 - 690)
    assert m.hp.jqt_mean == pytest.approx(15.0)  # (30 + 0) / 2
    assert m.hp.jqt_p99 == pytest.approx(29.7)
    assert m.hp.jqt_p50 == pytest.approx(15.0)
    assert m.hp.jqt_max == pytest.approx(30.0)
    assert m.hp.slowdown_mean == pytest.approx((3630 / 3600 + 1) / 2)

    assert m.spot.tasks == 2
    assert m.spot.jct_mean == pytest.approx(6845.0)  # (12690 + 1000) / 2
    assert m.spot.jct_p99 == pytest.approx(12573.1)  # 1000 + 0.99 x 11690
    assert m.spot.jqt_mean == pytest.approx(1815.0)  # s1: 0 + (9030 - 5400) = 3630; s2: 0
    assert m.spot.jqt_p99 == pytest.approx(3593.7)
    assert m.spot.slowdown_mean == pytest.approx(1.38125)  # (12690 / 7200 + 1) / 2
    assert (m.spot.runs, m.spot.evictions) == (3, 1)
    assert m.spot.eviction_rate == pytest.approx(1 / 3)
    # 16 GPUs x (1800 s lost + 60 s restart) = 29,760 GPU-s
    assert m.spot.wasted_gpu_hours == pytest.approx(29760 / 3600)
    # Periods of 1 h: run 1 of s1 lasts 1.5 h and is evicted: 1; its run 2 finishes after 3660 s: 2; s2: 1.
    assert m.spot.guarantee_periods == 4
    assert m.spot.evictions_per_guarantee_period == pytest.approx(1 / 5)
    assert m.spot.guarantee_hit_rate == 1.0  # the eviction came after the first hour

    # s1 16 x 7200 + h1 8 x 3600 + s2 0.5 x 1000 + h2 2 x 690 = 145,880 GPU-s
    assert m.useful_gpu_hours == pytest.approx(145880 / 3600)
    assert m.span == (0.0, 12690.0)
    # A100: s1 16 x (5400 + 3660) + h1 8 x 3600 = 173,760; T4: 0.5 x 1000 + 2 x 690 = 1,880
    assert m.allocation_rate == pytest.approx({"A100": 173760 / (16 * 12690), "T4": 1880 / (4 * 12690)})
    assert m.allocation_rate_total == pytest.approx(175640 / (20 * 12690))
    # Of these 145,880 are useful and 29,760 wasted, all of the latter on A100: s1 16 x 7200 + h1 8 x 3600 = 144,000
    assert m.goodput_rate == pytest.approx({"A100": 144000 / (16 * 12690), "T4": 1880 / (4 * 12690)})
    assert m.goodput_rate_total == pytest.approx(145880 / (20 * 12690))
    assert m.wasted_rate == pytest.approx({"A100": 29760 / (16 * 12690), "T4": 0.0})
    assert m.wasted_rate_total == pytest.approx(29760 / (20 * 12690))
    assert m.objective == pytest.approx(1 / 3 - 0.5 * 145880 / (20 * 12690))
    assert m.quota_use is None


def test_the_objective_of_less_than_one_gpu_hour() -> None:
    """One GPU for half an hour, all of it of use; then a log in which no time passes."""
    h = Task(0, "h", "ads", "T4", Priority.HP, 1, 1.0, 0.0)
    work = Workload((h,), (NodeSpec(0, "m0", "T4", 1),), durations=(1800.0,))
    submitted: Row = (0.0, "submit", "h", 0, "", "")
    rows: list[Row] = [submitted, (0.0, "start", "h", 1, "m0", "0"), (1800.0, "finish", "h", 1, "m0", "0")]
    assert compute_metrics(log(rows, work), work, alpha=0.5).objective == pytest.approx(-0.5 * 0.5 / 0.5)
    assert compute_metrics(log([submitted], work), work).objective == 0.0


def test_a_window_cuts_goodput_to_what_is_useful_inside_it() -> None:
    """s1 keeps its first hour of run 1 and loses the last half; its run 2 restarts for 60 s first."""
    inside = compute_metrics(log(LOG, STORY), STORY, window=(1800.0, 5400.0))
    assert inside.goodput_rate["A100"] == pytest.approx(16 * 1800 / (16 * 3600))
    assert inside.wasted_rate["A100"] == pytest.approx(16 * 1800 / (16 * 3600))
    restart = compute_metrics(log(LOG, STORY), STORY, window=(9030.0, 9150.0))
    assert restart.goodput_rate["A100"] == restart.wasted_rate["A100"] == pytest.approx(0.5)


def test_a_window_counts_by_submission_and_cuts_allocation() -> None:
    m = compute_metrics(log(LOG, STORY), STORY, window=(100.0, 6000.0))
    assert (m.hp.tasks, m.spot.tasks) == (1, 1)  # h1 and s2
    assert m.hp.jct_mean == pytest.approx(3630.0)
    assert (m.spot.runs, m.spot.evictions, m.spot.wasted_gpu_hours) == (1, 0, 0.0)
    # 100 to 6000: s1 holds 16 for 5300 s, h1 8 for 570 s; s2 half a card for 1000 s
    assert m.allocation_rate == pytest.approx({"A100": 89360 / (16 * 5900), "T4": 500 / (4 * 5900)})
    assert m.useful_gpu_hours == pytest.approx((28800 + 500) / 3600)


def test_a_window_open_at_one_side() -> None:
    m = compute_metrics(log(LOG, STORY), STORY, window=(None, 6000.0))
    assert m.span == (0.0, 6000.0)
    assert m.spot.tasks == 2
    m = compute_metrics(log(LOG, STORY), STORY, window=(100.0, None))
    assert m.span == (100.0, 12690.0)
    assert m.spot.tasks == 1


def test_checkpoint_on_grace_loses_only_the_restart() -> None:
    m = compute_metrics(log(LOG, STORY), STORY, rules=ExecutionRules(checkpoint_on_grace=True))
    assert m.spot.wasted_gpu_hours == pytest.approx(16 * 60 / 3600)


def test_restart_overhead_is_configurable() -> None:
    m = compute_metrics(log(LOG, STORY), STORY, rules=ExecutionRules(restart_overhead_large=100.0))
    assert m.spot.wasted_gpu_hours == pytest.approx(16 * (1800 + 100) / 3600)


@pytest.mark.parametrize(
    ("interval", "lost"),
    [
        (0.0, 0.0),  # saves all the time
        (600.0, 0.0),  # 5400 = 9 x 600: everything is saved
        (5000.0, 400.0),
        (7200.0, 5400.0),  # no checkpoint yet
        (float("inf"), 5400.0),  # never a checkpoint
    ],
)
def test_a_task_has_its_own_checkpoint_interval(interval: float, lost: float) -> None:
    workload = world(replace(S1, checkpoint_interval=interval), S2, H1, H2)
    m = compute_metrics(log(LOG, workload), workload)
    assert m.spot.wasted_gpu_hours == pytest.approx(16 * (lost + 60) / 3600)


def test_a_guarantee_of_two_hours_is_broken_after_one_and_a_half() -> None:
    workload = world(replace(S1, guarantee_hours=2.0), S2, H1, H2)
    spot = compute_metrics(log(LOG, workload), workload).spot
    assert spot.guarantee_hit_rate == pytest.approx(2 / 3)  # one of three runs
    # 5400 s evicted: 0 periods of 2 h; 3660 s finished: 1; s2: 1
    assert spot.guarantee_periods == 2
    assert spot.evictions_per_guarantee_period == pytest.approx(1 / 3)


def test_quota_use_is_a_time_average_of_the_shortest_guarantee() -> None:
    quota = pa.table(
        {
            "time": [0.0, 0.0, 300.0, 300.0, 600.0, 600.0],
            "gpu_model": ["A100"] * 6,
            "guarantee_hours": [1.0, 4.0] * 3,
            "inventory": [16.0] * 6,
            "eta": [1.0] * 6,
            "quota": [10.0, 99.0, 0.0, 99.0, 4.0, 99.0],
            "spot_in_use": [5.0, 0.0, 0.0, 0.0, 4.0, 0.0],
            "idle": [11.0] * 6,
        }
    )
    m = compute_metrics(log(LOG, STORY), STORY, quota=quota)
    # 300 s at 5/10, 300 s without a quota left out, then 12690 - 600 s at 4/4
    assert m.quota_use == pytest.approx((300 * 0.5 + 12090) / (300 + 12090))
    assert compute_metrics(log(LOG, STORY), STORY, quota=quota.slice(0, 0)).quota_use is None


@pytest.mark.parametrize("tasks", [(), (S1, S2, H1, H2)], ids=["no tasks", "nothing happened yet"])
def test_an_empty_log_gives_zeros(tasks: tuple[Task, ...]) -> None:
    workload = world(*tasks)
    m = compute_metrics(log([], workload), workload)
    assert (m.hp.tasks, m.hp.jct_mean, m.spot.jqt_p99, m.spot.eviction_rate) == (0, 0.0, 0.0, 0.0)
    assert m.allocation_rate == {"A100": 0.0, "T4": 0.0}
    assert m.objective == 0.0
    assert "NaN" not in json.dumps(m.to_dict())


def test_only_hp_leaves_spot_at_zero() -> None:
    workload = world(replace(H2, index=0))
    rows = [r for r in LOG if r[2] == "h2"]
    m = compute_metrics(log(rows, workload), workload)
    assert (m.hp.tasks, m.spot.tasks, m.spot.runs, m.spot.guarantee_hit_rate) == (1, 0, 0, 0.0)


def test_no_nodes_and_a_task_of_no_length_do_not_divide_by_zero() -> None:
    task = replace(S2, index=0)
    rows: list[Row] = [
        (100.0, e, "s2", r, n, c)
        for e, r, n, c in [("submit", 0, "", ""), ("start", 1, "m0", "0:0.5"), ("finish", 1, "m0", "0:0.5")]
    ]
    workload = Workload((task,), (), durations=(0.0,))
    m = compute_metrics(log(rows, workload), workload)
    assert (m.spot.tasks, m.spot.slowdown_mean, m.allocation_rate, m.objective) == (1, 0.0, {}, 0.0)
    assert (m.allocation_rate_total, m.goodput_rate_total, m.wasted_rate_total) == (0.0, 0.0, 0.0)
    workload = Workload((task,), STORY.nodes, durations=(0.0,))
    m = compute_metrics(log(rows, workload), workload, window=(100.0, 100.0))
    assert m.allocation_rate == {"A100": 0.0, "T4": 0.0}
    assert (m.allocation_rate_total, m.goodput_rate_total, m.wasted_rate_total) == (0.0, 0.0, 0.0)


def test_a_run_that_still_lasts_takes_cards_and_nothing_else() -> None:
    m = compute_metrics(log(LOG[:13], STORY), STORY)  # up to the second start of s1 at 9030
    assert (m.spot.tasks, m.spot.runs, m.spot.evictions) == (1, 2, 1)
    assert m.allocation_rate["A100"] == pytest.approx((16 * 5400 + 8 * 3600) / (16 * 9030))


def test_json_keys() -> None:
    said = compute_metrics(log(LOG, STORY), STORY).to_dict()
    assert {"tasks", "jct_mean", "jct_p99", "jqt_mean", "jqt_p99"} <= set(said["hp"])
    assert set(said["hp"]) | {"runs", "evictions", "eviction_rate", "wasted_gpu_hours"} <= set(said["spot"])
    assert said["allocation_rate"].keys() == {"A100", "T4"}
    assert json.loads(json.dumps(said)) == said


def test_runs_table() -> None:
    runs = runs_table(log(LOG, STORY), STORY)
    assert runs.task.tolist() == [0, 0, 1, 2, 3]
    assert runs.run.tolist() == [1, 2, 1, 1, 1]
    assert runs.start.tolist() == [0.0, 9030.0, 100.0, 5430.0, 12000.0]
    assert runs.end.tolist() == [5400.0, 12690.0, 1100.0, 9030.0, 12690.0]
    assert runs.evicted.tolist() == [True, False, False, False, False]
    assert runs.wait.tolist() == [0.0, 3630.0, 0.0, 30.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(0.0, "submit", "nobody", 0, "", "")], "'nobody'"),
        ([(0.0, "finish", "s1", 1, "n0", ALL)], "never started"),
        ([(0.0, "start", "s1", 2, "n0", ALL)], "not the one before"),
    ],
)
def test_a_log_that_is_not_of_this_workload_or_torn(rows: list[Row], says: str) -> None:
    with pytest.raises(InputError, match=says):
        compute_metrics(log(rows, STORY), STORY)


def test_a_table_that_is_no_event_log() -> None:
    with pytest.raises(InputError, match="no column event, task, run"):
        runs_table(pa.table({"time": [0.0]}), STORY)


def test_monthly_benefit() -> None:
    after = compute_metrics(log(LOG, STORY), STORY)
    before = replace(
        after,
        goodput_rate={"A100": after.goodput_rate["A100"] - 0.1, "T4": 0.0},
        allocation_rate={"A100": 1.0, "T4": 1.0},  # what is allocated but lost again is worth nothing
    )
    benefit = monthly_benefit(before, after, {"A100": 16}, {"A100": 2.0})
    assert benefit == pytest.approx(0.1 * 16 * 2.0 * 730)
    assert monthly_benefit(before, after, {"A100": 16}) == pytest.approx(benefit * default_prices()["A100"] / 2)


def test_prices_go_by_the_longest_name_a_model_begins_with() -> None:
    prices = {"A10": 1.0, "A100": 2.0, "default": 9.0}
    assert price_of("A100-SXM4-80GB", prices) == 2.0
    assert price_of("A10", prices) == 1.0
    assert price_of("GPU-series-1", prices) == 9.0
    assert price_of("X", {}) == 0.0
    assert default_prices()["A100"] > 0


@needs.shared(AUDITOR)
@pytest.mark.parametrize("window", [None, (100.0, 30_000.0)])
@pytest.mark.parametrize("case", ["story", "scrambled"])
def test_the_outside_auditor_agrees(tmp_path: Path, case: str, window: tuple[float, float] | None) -> None:
    workload, rows = (STORY, LOG) if case == "story" else scrambled(7)
    agrees_with_auditor(tmp_path, workload, rows, window)
