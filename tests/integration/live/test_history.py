"""Demand from a real Prometheus; a cold start says that it is cautious; decisions go on while a model is trained."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

import numpy as np
import pytest
from patient_model import FIFO
from running import quick, running

from bench.bench import Bench
from bench.cluster import Cluster
from gfs.dashboard.live_status import live_status
from gfs.domain.errors import InputError
from gfs.forecasting import registry
from gfs.forecasting.meter import STEP, DemandRecord
from gfs.forecasting.past import PastDemand
from gfs.forecasting.registry import Model
from gfs.live.history import read_demand
from gfs.live.prometheus import Prometheus, PrometheusError
from gfs.live.settings import LiveSettings
from prometheus import Past, node_series, pod_series, serving

DAY = 288
"""Steps."""


def read(url: str, models: set[str], end: int, settings: LiveSettings, **namespaces: str) -> PastDemand:
    async def ask() -> PastDemand:
        async with Prometheus(url) as server:
            return await read_demand(
                server, settings, models, lambda home, label: label or namespaces.get(home) or home, end
            )

    return asyncio.run(ask())


@pytest.fixture
def now() -> int:
    """The step that goes on."""
    return int(time.time() // STEP)


def test_hp_demand_of_every_organization_and_pool(tmp_path: Path, now: int) -> None:
    """Who counts: HP pods that run or wait; not spot ones, not those that are done; nobody twice."""
    past, first = Past(), now - 3 * DAY
    past.add([*node_series("a", "A100"), *node_series("h", "H800")], first, now - 12)
    past.add(pod_series("lab", "p", gpus=4, node="a"), first, now - 12)
    past.add(pod_series("lab", "p", gpus=4, node="a", instance="ksm-1"), first, now - 12)
    past.add(pod_series("lab", "q", gpus=8, node="h"), first + 100, first + 200)
    past.add(pod_series("lab", "q", gpus=8, node="h", phase="Succeeded"), first + 200, first + 300)
    past.add(pod_series("lab", "s", gpus=2, node="a", cls="gfs-spot"), first, now - 12)
    past.add(pod_series("shop", "r", gpus=1, node="a"), first, first + DAY)
    past.add(pod_series("shop", "t", gpus=3, node="a", labels={"label_gfs_dev_organization": "web"}), first, first + 50)
    settings = LiveSettings(prometheus_days=7)
    with serving(past, tmp_path) as url:
        known = read(url, {"A100", "H800"}, now, settings, shop="retail")
        alone = read(url, {"A100"}, now, settings)
    size = 3 * DAY
    step = np.arange(size)
    assert known.hours == 72, "of seven days it has three"
    assert {model: set(pool) for model, pool in known.pools.items()} == {
        "A100": {"lab", "retail", "web"},
        "H800": {"lab"},
    }
    a100, h800 = known.pools["A100"], known.pools["H800"]
    assert (a100["lab"] == 4).all(), "in the last hour nobody looked: it stays as it was"
    assert a100["retail"].tolist() == (step < DAY).tolist()
    assert a100["web"].tolist() == (3 * (step < 50)).tolist()
    assert h800["lab"].tolist() == (8 * ((step >= 100) & (step < 200))).tolist()
    assert alone.pools["A100"]["lab"].max() == 12, "where all GPUs are of one model, labels of nodes are not asked for"


def test_pods_that_wait_are_wanted_too_and_a_label_tells_the_pool(tmp_path: Path, now: int) -> None:
    past = Past()
    past.add(node_series("a"), now - DAY, now)
    past.add(pod_series("lab", "p", gpus=4, phase="Pending"), now - DAY, now)
    with serving(past, tmp_path) as url:
        assert (read(url, {"A100"}, now, LiveSettings(prometheus_days=1)).pools["A100"]["lab"] == 4).all()
        assert not read(url, {"A100", "H800"}, now, LiveSettings(prometheus_days=1)).pools


def test_who_is_no_prometheus_is_named(bench: Bench) -> None:
    with pytest.raises(PrometheusError, match=r"127\.0\.0\.1:9"):
        read("http://127.0.0.1:9", {"A100"}, 1000, LiveSettings())
    with pytest.raises(InputError, match="give its address"):
        read("prometheus:9090", {"A100"}, 1000, LiveSettings())


def test_the_forecast_begins_with_what_prometheus_knows(
    bench: Bench, cluster: Cluster, tmp_path: Path, now: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Two weeks in which the lab wants 6 of 16 GPUs by day and 2 by night: the quota is forecast at once."""
    past, first = Past(), now - 14 * DAY
    past.add(node_series("n1"), first, now)
    past.add(pod_series("lab", "base", gpus=2, node="n1"), first, now)
    for day in range(14):
        past.add(pod_series("lab", f"day-{day}", gpus=4, node="n1"), first + day * DAY, first + day * DAY + DAY // 2)
    cluster.add_node("n1", gpus=16)
    caplog.set_level(logging.INFO, "gfs.live")
    with serving(past, tmp_path) as url, running(bench, settings=quick(prometheus=url), parameters=FORECAST) as service:
        cluster.pod("spot", gpus=4)
        cluster.wait_bound("spot")
        pool = service.controller.scheduler.pools["A100"]  # type: ignore[union-attr]
        assert pool.state.remember(DemandRecord).steps >= 14 * DAY - 12
        status = live_status(service, "", None)
        assert "14.0 days of HP demand by 1 organization were taken from Prometheus" in status.history
        assert status.history in caplog.text
    assert "no saved state: the spot quota is cautious" in caplog.text


def test_without_a_forecast_prometheus_is_not_asked(bench: Bench, cluster: Cluster) -> None:
    cluster.add_node("n1", gpus=4)
    with running(bench, settings=quick(prometheus="http://127.0.0.1:9"), parameters={"quota": ""}) as service:
        cluster.pod("spot", gpus=1)
        cluster.wait_bound("spot")
        status = live_status(service, "", None)
    assert status.history == "Prometheus is not asked: the quota of gfs-plus follows no forecast"
    assert status.pools[0].caution == ""


FORECAST = {"quota": "forecast", "forecaster": "weekly-peak"}


def test_a_cold_start_says_that_it_is_cautious(
    bench: Bench, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """At first nothing is known, after the next full five minutes what HP wants now."""
    cluster.add_node("n1", gpus=8)
    caplog.set_level(logging.INFO, "gfs.live")
    said = "the quota is cautious: "
    with running(bench, settings=quick(lease_namespace=cluster.namespace), parameters=FORECAST) as service:
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.wait_bound("urgent")
        cluster.pod("spot", gpus=8)
        waits = cluster.wait_condition("spot", "PodScheduled", status="False", reason="WaitsForSpotQuota")
        assert said in str(waits)
        seen = cluster.client.wait(
            "events", lambda seen: any(e["reason"] == "CautiousQuota" for e in seen.values()), cluster.namespace
        )
        (told,) = [e for e in seen.values() if e["reason"] == "CautiousQuota"]
        assert told["involvedObject"]["kind"] == "Lease"
        assert said in told["message"]
        assert live_status(service, "", None).pools[0].caution.startswith(said)
    assert f"pool A100: {said}" in caplog.text


def test_decisions_go_on_while_a_model_is_trained_elsewhere(
    bench: Bench, cluster: Cluster, tmp_path: Path, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model waits, in a process of its own, until the test lets it go on; pods are bound meanwhile."""
    monkeypatch.setitem(registry.MODELS, "patient", Model("patient", "", "patient_model:PatientEstimator"))
    monkeypatch.setenv(FIFO, str(tmp_path / "go on"))
    os.mkfifo(tmp_path / "go on")
    past, first = Past(), now - 2 * DAY
    past.add(node_series("n1"), first, now)
    past.add(pod_series("lab", "p", gpus=2, node="n1"), first, now)
    cluster.add_node("n1", gpus=16)
    parameters = {"quota": "forecast", "forecaster": "patient"}
    with (
        serving(past, tmp_path) as url,
        running(bench, settings=quick(prometheus=url), parameters=parameters) as service,
    ):
        cluster.pod("spot", gpus=4)
        cluster.wait_bound("spot")  # by the cautious rule, from the demand of the last day
        status = live_status(service, "", None)
        assert status.training == 1
        assert status.pools[0].caution == "the quota is cautious: the forecaster is being trained"
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.wait_bound("urgent")
        assert live_status(service, "", None).training == 1
        (tmp_path / "go on").write_text("now")
        cluster.client.wait(
            "events",
            lambda seen: any(e["reason"] == "ForecastInForce" and "patient" in e["message"] for e in seen.values()),
            "kube-system",
        )
        assert live_status(service, "", None).training == 0
