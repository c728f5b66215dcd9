"""The anchor of the latencies does the same work as `gfs`: both decide alike, pod by pod."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def latency(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import latency

    return latency


@pytest.mark.parametrize("kind", ["room", "victims"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_naive_scheduler_decides_like_gfs(kind: str, seed: int, latency: ModuleType) -> None:
    cluster = latency.BusyCluster(96, "gfs", seed)
    cluster.fill()
    tasks, victims, gangs = latency.arriving(cluster, kind), 0, 0
    for _ in range(60):
        task = next(tasks)
        expected = latency.copy_of(cluster).decide(task, cluster.now)
        plan = cluster.submit(task)
        run = next(run for run in plan.starts if run.task is task)
        evicted = frozenset(eviction.run.task.index for eviction in plan.evictions)
        assert latency.Decision(latency.pods_of(run), evicted) == expected
        victims += len(evicted)
        gangs += task.pods > 1
        cluster.finish(run)
    if kind == "victims":
        assert gangs >= 3
        assert victims >= 60
    else:
        assert victims == 0


def test_a_cluster_is_as_full_as_it_says(latency: ModuleType) -> None:
    cluster = latency.BusyCluster(96, "gfs-plus", 0)
    cluster.fill()
    held = 1 - cluster.pool.idle / cluster.pool.capacity
    assert held == pytest.approx(0.95, abs=0.03)
    cluster.make_gaps()
    assert cluster.pool.idle_levels[8] == 0  # no node is idle as a whole
    # 768 cards: 38.4 idle ones, and at most a task of seven cards and one of eight more
    assert 1 - cluster.pool.idle / cluster.pool.capacity == pytest.approx(0.95, abs=0.02)


def test_the_curve_is_drawn_from_its_points(latency: ModuleType, tmp_path: Path) -> None:
    from picture import draw_curve

    points = [
        {"tasks": 100, "quota": "fixed", "end_to_end_seconds": 1.0},
        {"tasks": 1000, "quota": "fixed", "end_to_end_seconds": 10.0},
    ]
    draw_curve(points, tmp_path / "curve.svg")
    text = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert text.count("<circle") == 2
    assert "1,000</text>" in text


@pytest.mark.slow
def test_every_loop_is_measured_beside_its_run_without_a_quota(latency: ModuleType) -> None:
    from loop import LOOPS, SCALES, loop

    rows = loop(1, days=1.0)
    expected = [(scale, *names) for scale in SCALES for names in LOOPS]
    assert [(row["spot"], row["scheduler"], row["quota"], row["forecaster"]) for row in rows] == expected
    assert all(row["ratio"] == row["seconds"] / row["without"] > 0 for row in rows)
