"""What `inspect` says of a small trace, worked out by hand.

a  HP,   org x, 1 pod  x 8 A100,   submitted 1800 (0:30), runs 3600 s
b  spot, org y, 2 pods x 2 A100,   submitted 3600 (1:00), runs  900 s
c  HP,   org x, 1 pod  x 0.5 T4,   submitted 7200 (2:00), runs 7200 s
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Role, Task
from gfs.domain.workload import Workload
from gfs.telemetry.runs import Bins, time_average
from gfs.workloads.inspection import OTHERS, inspect

A = Task(0, "a", "x", "A100", Priority.HP, 1, 8.0, 1800.0)
B = Task(1, "b", "y", "A100", Priority.SPOT, 2, 2.0, 3600.0)
C = Task(2, "c", "x", "T4", Priority.HP, 1, 0.5, 7200.0)
RUNS = {"a": 3600.0, "b": 900.0, "c": 7200.0}
NODES = (
    NodeSpec(0, "n0", "A100", 8),
    NodeSpec(1, "n1", "A100", 8),
    NodeSpec(2, "n2", "A100", 4),
    NodeSpec(3, "m0", "T4", 4),
)


def trace(*tasks: Task, lasting: float | None = None, nodes: tuple[NodeSpec, ...] = NODES) -> Workload:
    """These tasks; those without a running time above last `lasting` seconds, as a does unless it is said."""
    usual = RUNS["a"] if lasting is None else lasting
    return Workload(tasks, nodes, durations=tuple(RUNS.get(task.name, usual) for task in tasks))


TRACE = trace(A, B, C)


def test_pools() -> None:
    a100, t4 = inspect(TRACE).pools
    assert (a100.gpu_model, a100.nodes, a100.cards, a100.node_sizes) == ("A100", 3, 20, ((4, 1), (8, 2)))
    assert (a100.hp_tasks, a100.spot_tasks) == (1, 1)
    # Tasks are submitted over 7200 - 1800 = 5400 s.
    assert a100.hp_load == pytest.approx(8 * 3600 / (20 * 5400))
    assert a100.spot_load == pytest.approx(4 * 900 / (20 * 5400))
    assert t4.hp_load == 0.0  # c is the last submission: what it asks comes after


def test_requests_at_pod_and_task_level() -> None:
    hp, spot = inspect(TRACE).classes
    assert hp.pod_requests.values == (0.5, 8.0)
    assert hp.pod_requests.shares == (0.5, 1.0)
    assert spot.pod_requests.values == (2.0,)  # two pods of 2 ...
    assert spot.task_requests.values == (4.0,)  # ... make a task of 4
    assert (spot.tasks, spot.pods, spot.gang_share, hp.gang_share) == (1, 2, 1.0, 0.0)
    assert spot.gpu_hours == pytest.approx(1.0)  # 4 GPUs x 900 s


def test_the_pod_level_counts_every_pod() -> None:
    wide = replace(A, index=1, name="wide", pods=3, gpus_per_pod=1.0)
    hp = inspect(trace(A, wide)).classes[0]
    assert hp.pod_requests.at(1.0) == pytest.approx(0.75)  # 3 of 4 pods
    assert hp.task_requests.at(3.0) == pytest.approx(0.5)  # 1 of 2 tasks
    assert hp.task_requests.at(0.5) == 0.0


def test_the_pod_level_counts_the_pods_of_each_role() -> None:
    """A head without GPUs and three workers of 8: a quarter of the pods asks for none."""
    mixed = Task(0, "a", "x", "A100", Priority.HP, 1, 1.0, 0.0, mixed=(Role(1, 0), Role(3, 8)))
    hp, _ = inspect(trace(mixed, nodes=(*NODES, NodeSpec(4, "n3", "A100", 8)))).classes
    assert (hp.pod_requests.values, hp.pod_requests.shares) == ((0.0, 8.0), (0.25, 1.0))
    assert (hp.pods, hp.task_requests.values) == (4, (24.0,))


def test_running_times() -> None:
    hp = inspect(TRACE).classes[0]
    # 3600 and 7200: p90 = 3600 + 0.9 x 3600
    assert (hp.running.tasks, hp.running.mean, hp.running.p50) == (2, 5400.0, 5400.0)
    assert hp.running.p90 == pytest.approx(6840.0)
    assert hp.running.p99 == pytest.approx(7164.0)
    assert [(size, d.p50) for size, d in hp.running_by_size] == [("<1", 7200.0), ("5-8", 3600.0)]
    assert (hp.running_cdf.values[0], hp.running_cdf.values[-1]) == (3600.0, 7200.0)


@pytest.mark.parametrize(
    ("gpus", "label"), [(0.5, "<1"), (1.0, "1"), (3.0, "3-4"), (8.0, "5-8"), (9.0, "9-16"), (65.0, ">64")]
)
def test_size_groups(gpus: float, label: str) -> None:
    task = replace(A, gpus_per_pod=gpus)
    assert [size for size, _ in inspect(trace(task)).classes[0].running_by_size] == [label]


def test_demand_and_load_per_hour_are_exact() -> None:
    seen = inspect(TRACE)
    assert seen.bin_start.tolist() == [0.0, 3600.0, 7200.0, 10800.0]
    # a: 8 GPUs from 0:30 to 1:30; c: half a card from 2:00 to 4:00; b: 4 GPUs for a quarter of an hour
    x, y = seen.demand
    assert (x.organization, x.gpus.tolist()) == ("x", [4.0, 4.0, 0.5, 0.5])
    assert (y.organization, y.gpus.tolist()) == ("y", [0.0, 1.0, 0.0, 0.0])
    a100, t4 = seen.load
    assert (a100.hp.tolist(), a100.spot.tolist()) == ([4.0, 4.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0])
    assert (t4.cards, t4.hp.tolist()) == (4, [0.0, 0.0, 0.5, 0.5])


def test_a_cancelled_task_asks_until_then() -> None:
    """a is cancelled at 1:00 after half an hour, c at 9:00, long after its end."""
    seen = inspect(replace(TRACE, cancel_times=(3600.0, float("inf"), 9 * 3600.0)))
    x, _ = seen.demand
    assert x.gpus.tolist() == [4.0, 0.0, 0.5, 0.5]
    assert x.gpu_hours == pytest.approx((8 * 1800 + 0.5 * 7200) / 3600)
    assert (seen.classes[0].running.mean, seen.pools[0].hp_load) == (4500.0, 8 * 1800 / (20 * 5400))


def test_small_organizations_become_others() -> None:
    tasks = tuple(replace(A, index=i, name=f"t{i}", organization=f"o{i}") for i in range(5))
    lasting = tuple(100.0 * (i + 1) for i in range(5))
    seen = inspect(Workload(tasks, NODES, durations=lasting), top_organizations=2)
    assert [d.organization for d in seen.demand] == ["o4", "o3", OTHERS]
    assert seen.demand[2].gpu_hours == pytest.approx(8 * (100 + 200 + 300) / 3600)
    # A single one left over keeps its name.
    three = inspect(Workload(tasks[:3], NODES, durations=lasting[:3]), top_organizations=2).demand
    assert len(three) == 3
    assert OTHERS not in [d.organization for d in three]


def test_arrivals_by_hour_of_day() -> None:
    later = replace(A, index=3, name="later", submit_time=1800.0 + 86_400)
    hp, spot = inspect(trace(A, B, C, later)).classes
    assert (hp.arrivals_by_hour[0], hp.arrivals_by_hour[2], sum(hp.arrivals_by_hour)) == (2, 1, 3)
    assert spot.arrivals_by_hour[1] == 1


def test_a_task_of_weeks_does_not_stretch_the_picture() -> None:
    endless = Workload((A,), NODES, durations=(1e9,))
    assert len(inspect(endless).bin_start) == 25  # 0:30 + a day, from 0:00


def test_a_trace_of_days_ends_with_the_hour_of_its_last_submission() -> None:
    late = replace(C, index=1, name="late", submit_time=2 * 86_400.0 + 100)
    assert len(inspect(trace(A, late, lasting=9e5)).bin_start) == 49  # 0:00 to 1:00 two days later


def test_an_odd_timestamp_makes_longer_bins_not_more() -> None:
    odd = replace(C, index=1, submit_time=1e12)
    seen = inspect(trace(A, odd))
    assert len(seen.bin_start) <= 50_000
    assert seen.bin_seconds > 3600
    assert seen.demand[0].gpus[0] * seen.bin_seconds == pytest.approx(8 * 3600)


@pytest.mark.parametrize(
    "workload",
    [
        Workload((), ()),
        Workload((), NODES),
        trace(A, nodes=()),
        trace(A, nodes=NODES[:1]),
        trace(A, replace(C, index=1)),
        trace(replace(B, index=0)),
        Workload((A,), NODES, durations=(0.0,)),
    ],
    ids=["nothing", "no tasks", "no nodes", "one task, one node", "only HP", "only spot", "no duration"],
)
def test_edges(workload: Workload) -> None:
    seen = inspect(workload)
    assert sum(c.tasks for c in seen.classes) == len(workload.tasks)
    assert sum(p.nodes for p in seen.pools) == len(workload.nodes)
    for load in seen.load:
        assert np.isfinite(load.hp).all()
        assert np.isfinite(load.spot).all()


def test_time_average_agrees_with_adding_up_second_by_second() -> None:
    rng = np.random.default_rng(5)
    start = rng.integers(-50, 250, 40).astype(float)
    end = start + rng.integers(0, 120, 40)
    weight = rng.integers(1, 9, 40).astype(float)
    group = rng.integers(0, 3, 40)
    got = time_average(start, end, weight, Bins(0.0, 30.0, 7), group=group, groups=3)
    want = np.zeros((3, 7))
    for s, e, w, g in zip(start, end, weight, group, strict=True):
        for second in range(max(0, int(s)), min(210, int(e))):
            want[g, second // 30] += w / 30
    assert got == pytest.approx(want)
