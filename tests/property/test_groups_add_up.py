"""Whatever happened: the figures of all groups together are those of the whole run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import workloads

from gfs import Workload
from gfs.assembly.parameters import Parameters
from gfs.assembly.run import run_simulation
from gfs.telemetry.breakdown import KINDS, break_down
from gfs.telemetry.metrics import compute_metrics
from logs import log, scrambled

SUMS = {
    "hp_tasks": ("hp", "tasks"),
    "spot_tasks": ("spot", "tasks"),
    "spot_runs": ("spot", "runs"),
    "spot_evictions": ("spot", "evictions"),
    "spot_guarantee_periods": ("spot", "guarantee_periods"),
    "spot_wasted_gpu_hours": ("spot", "wasted_gpu_hours"),
}


def owned(work: Workload, owners: int) -> Workload:
    """Its tasks belong to so many organizations in turn."""
    return replace(work, tasks=tuple(replace(t, organization=f"o{t.index % owners}") for t in work.tasks))


def check(events: object, work: Workload, window: tuple[float | None, float | None], leases: bool) -> None:
    parts = break_down(events, work, window=window, leases=leases)
    metrics = compute_metrics(events, work, window=window, leases=leases)
    for kind in KINDS:
        groups = parts.by(kind)
        for name, (of, key) in SUMS.items():
            total = getattr(getattr(metrics, of), key)
            assert sum(getattr(g, name) for g in groups) == pytest.approx(total), (kind, name)
            assert getattr(parts.whole, name) == pytest.approx(total), name
        assert sum(g.useful_gpu_hours for g in groups) == pytest.approx(metrics.useful_gpu_hours)
        assert sum(g.lost for g in groups) == metrics.hp.lost + metrics.spot.lost
        assert sum(g.cancelled for g in groups) == metrics.hp.cancelled + metrics.spot.cancelled
        assert sum(g.evictions_caused for g in groups) == sum(p.evictions for p in parts.evictions if p.evictor)
        for of in ("hp", "spot"):
            waited = sum(getattr(g, f"{of}_tasks") * getattr(g, f"{of}_jqt_mean") for g in groups)
            assert waited == pytest.approx(getattr(metrics, of).tasks * getattr(metrics, of).jqt_mean, abs=1e-6)
    assert sum(pair.evictions for pair in parts.evictions) == metrics.spot.evictions
    if metrics.spot.runs and not leases:
        assert parts.whole.spot_eviction_rate == pytest.approx(metrics.spot.eviction_rate)
    for of in ("hp", "spot"):
        assert getattr(parts.whole, f"{of}_jqt_p99") == pytest.approx(getattr(metrics, of).jqt_p99)
        for group in (*parts.organization, parts.whole):
            rate = getattr(group, f"{of}_progress_rate")
            assert rate is None or -1e-9 <= rate <= 1 + 1e-6
    for index in (parts.fairness_hp, parts.fairness_spot):
        assert index is None or 1 / max(len(parts.organization), 1) - 1e-9 <= index <= 1 + 1e-9


@settings(max_examples=25, deadline=None)
@given(
    work=workloads(),
    owners=st.integers(1, 4),
    scheduler=st.sampled_from(["gfs", "yarn-cs", "gfs-plus", "lyra", "chronus"]),
    window=st.sampled_from([(None, None), (30.0, None), (0.0, 600.0)]),
)
def test_groups_add_up_to_the_whole(
    work: Workload, owners: int, scheduler: str, window: tuple[float | None, float | None]
) -> None:
    work = owned(work, owners)
    result = run_simulation(work, scheduler, Parameters(quota="none"), window=window)
    check(result.events, work, window, leases=scheduler == "chronus")
    assert all(pair.evictor for pair in result.breakdown().evictions), "every eviction says for whom"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("window", [(None, None), (10_000.0, 30_000.0)])
def test_of_logs_with_losses_and_cancellations(seed: int, window: tuple[float | None, float | None]) -> None:
    work, rows = scrambled(seed, troubled=True)
    work = owned(work, 5)
    check(log(rows, work), work, window, leases=False)
