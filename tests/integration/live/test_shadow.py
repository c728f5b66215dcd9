"""Shadow mode beside the real kube-scheduler: it writes nothing and sums up what it would have changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import running, until

from bench.bench import Bench
from bench.cluster import Cluster
from gfs.live.service import Service


@pytest.fixture(scope="module", autouse=True)
def kube_scheduler(bench: Bench) -> Iterator[None]:
    bench.start_scheduler()
    yield
    bench.processes.stop("kube-scheduler")


def test_a_shadow_binds_nothing_and_sums_up(
    bench: Bench, cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gfs.live")
    cluster.add_node("n1", gpus=4)
    other: dict[str, Any] = {"scheduler": "default-scheduler"}
    with running(bench, shadow=True, record=tmp_path) as service:
        cluster.pod("ours", gpus=1)  # of gfs-scheduler: nobody takes it
        cluster.pod("first", gpus=3, **other)
        cluster.wait_bound("first")
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp", **other)
        cluster.wait_bound("urgent")  # kube-scheduler preempts, too
        told = _settled(service)
    assert not cluster.get("ours")["spec"].get("nodeName")
    assert _started(told) == 2
    assert service.api is not None
    assert not any(
        event["source"].get("component") == "gfs-scheduler"
        for event in cluster.client.items("events", cluster.namespace)
    )
    assert "would have evicted" in caplog.messages[-1]


def test_a_gang_that_kube_scheduler_bound_is_a_run_of_the_shadow(bench: Bench, cluster: Cluster) -> None:
    cluster.add_node("n1", gpus=2)
    with running(bench, shadow=True) as service:
        cluster.gang("team", 2, gpus=1, scheduler="default-scheduler")
        cluster.wait_bound("team-0", "team-1")
        assert service.controller is not None
        pools = service.controller.scheduler.pools
        until(service, lambda: [run.pods for run in pools["A100"].state.runs.values()] == [2])


def _settled(service: Service) -> dict[str, float]:
    """What the shadow says once it has seen all that happened."""

    until(service, lambda: _started(service.controller.shadow.summary()) >= 2)
    return dict(service.controller.shadow.summary())


def _started(told: dict[str, float]) -> float:
    """The number of pods that the other scheduler has started."""
    return told["same_node"] + told["other_node"] + told["kept_waiting"] + told["undecided"]
