"""Preemption from end to end: mark, events on both sides, nominated node, grace, HP only when victims are gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from running import quick, running, until

from bench import manifests
from bench.bench import Bench
from bench.cluster import Cluster, conditions


def mark(pod: Any) -> dict[str, Any]:
    return next((each for each in conditions(pod) if each["type"] == "DisruptionTarget"), {})


def rfc3339(ago: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_spot_pod_makes_room_for_hp(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=4)
    with running(bench) as service:
        cluster.pod("victim", gpus=4, grace=5)
        cluster.wait_phase("Running", "victim")
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        marked = cluster.wait_pods(lambda pods: mark(pods.get("victim", {})).get("status") == "True")
        told = mark(marked["victim"])
        assert told["reason"] == "PreemptionByScheduler"
        assert f"{cluster.namespace}/urgent" in told["message"]
        seen = cluster.wait_pods(lambda pods: pods["urgent"]["status"].get("nominatedNodeName") == "n1")
        assert "victim" not in seen or not seen["urgent"]["spec"].get("nodeName"), "its victim is still there"
        cluster.wait_bound("urgent")
        assert "victim" not in {pod["metadata"]["name"] for pod in cluster.client.items("pods", cluster.namespace)}
        for pod in ("victim", "urgent"):
            cluster.client.wait(
                "events",
                lambda events, pod=pod: any(
                    each["reason"] == "Preempted" and each["involvedObject"]["name"] == pod for each in events.values()
                ),
                cluster.namespace,
            )
        assert service.controller is not None
        assert not service.controller.book.by_name.get(f"{cluster.namespace}/victim"), "nobody creates it again"


def test_an_evicted_pod_of_a_job_comes_back_as_the_same_task(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=4)
    with running(bench):
        cluster.job("train", gpus=4, grace=1)
        first = cluster.wait_pods(lambda pods: any(p["status"].get("phase") == "Running" for p in pods.values()))
        (name,) = first
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.wait_bound("urgent")
        cluster.delete_pod("urgent", grace=0)
        again = cluster.wait_pods(
            lambda pods: any(key not in (name, "urgent") and pod["spec"].get("nodeName") for key, pod in pods.items())
        )
        (notes,) = (pod["metadata"]["annotations"] for key, pod in again.items() if key not in (name, "urgent"))
        assert (notes["gfs.dev/task"], notes["gfs.dev/run"]) == (f"{cluster.namespace}/train", "2")
        before = first[name]["metadata"]["annotations"]
        assert notes["gfs.dev/submitted"] == before["gfs.dev/submitted"]


def test_whoever_saved_last_goes(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=4)
    cluster.add_node("n2", gpus=4)
    with running(bench) as service:
        for name in ("first", "second"):
            cluster.pod(name, gpus=4, grace=1)
            cluster.wait_phase("Running", name)
        assert service.controller is not None
        runs = service.controller.scheduler.pools["A100"].state.runs.values()
        for run in runs:  # as if both ran for some time
            run.progress_from -= 1000.0 if run.task.name.endswith("second") else 1500.0
        cluster.annotate("first", **{"gfs.dev/last-checkpoint-time": rfc3339(0)})
        first = next(run for run in runs if run.task.name.endswith("first"))
        began = first.progress_from
        until(service, lambda: first.progress_from > began)
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.wait_gone("first")
        cluster.wait_bound("urgent")
        assert cluster.get("second")["status"]["phase"] == "Running"


def test_a_gang_of_hp_takes_the_place_of_several(bench: Bench, cluster: Cluster, record: Path) -> None:
    for name in ("n1", "n2"):
        cluster.add_node(name, gpus=4)
    with running(bench):
        for name in ("a", "b"):
            cluster.pod(name, gpus=3, grace=1)
        cluster.wait_phase("Running", "a", "b")
        cluster.gang("team", 2, gpus=4, priority_class="gfs-hp")
        cluster.wait_gone("a", "b")
        pods = cluster.wait_pods(lambda pods: sum(bool(p["spec"].get("nodeName")) for p in pods.values()) == 2)
        assert {pod["spec"]["nodeName"] for pod in pods.values()} == {"n1", "n2"}


def test_a_victim_that_hangs_is_told_and_another_way_is_found(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=4)
    with running(bench):
        cluster.pod("stuck", gpus=4, grace=1)
        cluster.wait_phase("Running", "stuck")
        cluster.hang("stuck")
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.client.wait(
            "events", lambda events: any(e["reason"] == "EvictionHangs" for e in events.values()), cluster.namespace
        )
        cluster.add_node("n2", gpus=4)
        assert cluster.wait_bound("urgent") == {"urgent": "n2"}
        cluster.hang("stuck", on=False)
        cluster.wait_gone("stuck")
        cluster.pod("next", gpus=4)
        assert cluster.wait_bound("next") == {"next": "n1"}


def test_another_victim_goes_where_the_first_hangs(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=4)
    with running(bench, settings=quick(hang_timeout=6.0)):
        cluster.pod("stuck", gpus=4, grace=1)
        cluster.wait_phase("Running", "stuck")
        cluster.hang("stuck")
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.wait_pods(lambda pods: "deletionTimestamp" in pods["stuck"]["metadata"])
        cluster.add_node("n2", gpus=4)
        cluster.pod("late", gpus=4, grace=1)
        cluster.wait_bound("late")
        assert cluster.wait_bound("urgent") == {"urgent": "n2"}
        assert "EvictionHangs" in {event["reason"] for event in cluster.events("stuck")}
        assert "Preempted" in {event["reason"] for event in cluster.events("late")}


def test_a_disruption_budget_is_kept_as_long_as_another_victim_will_do(
    bench: Bench, cluster: Cluster, record: Path
) -> None:
    for name in ("n1", "n2"):
        cluster.add_node(name, gpus=4)
    with running(bench) as service:
        cluster.pod("other", gpus=4, grace=1)
        cluster.wait_phase("Running", "other")
        cluster.pod("kept", gpus=4, grace=1, labels={"app": "kept"})  # began last, so it has least to lose
        cluster.wait_phase("Running", "kept")
        cluster.create(manifests.disruption_budget("keep", cluster.namespace, {"app": "kept"}, 1))
        until(service, lambda: service.controller.scheduler.pools["A100"].state.pool.protected)
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.wait_bound("urgent")
        assert cluster.get("kept")["status"]["phase"] == "Running"
        cluster.pod("second", gpus=4, priority_class="gfs-hp")
        marked = cluster.wait_pods(lambda pods: mark(pods.get("kept", {})))
        assert "against its disruption budget" in mark(marked["kept"])["message"], "a wish, no ban"
        cluster.wait_bound("second")


@pytest.mark.parametrize(("mode", "left"), [("PodGroup", (0,)), ("Pod", (0, 2))], ids=["all", "single"])
def test_a_group_goes_as_its_disruption_mode_says(
    bench: Bench, cluster: Cluster, record: Path, mode: str, left: tuple[int, ...]
) -> None:
    cluster.add_node("n1", gpus=3)
    with running(bench) as service:
        cluster.create(manifests.pod_group("team", cluster.namespace, 2, disruption=mode))
        names = [f"team-{i}" for i in range(3)]
        for name in names:
            cluster.pod(name, gpus=1, grace=1, group="team")
        cluster.wait_phase("Running", *names)
        until(service, lambda: len(service.controller.scheduler.pools["A100"].state.runs) == 2)
        pool = service.controller.scheduler.pools["A100"].state.pool
        until(service, lambda: len(pool.together) == (2 if mode == "PodGroup" else 1))
        cluster.pod("urgent", gpus=1, priority_class="gfs-hp")
        cluster.wait_bound("urgent")
        pods = cluster.client.items("pods", cluster.namespace)
        alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] in names]
        assert len(alive) in left, "all of them, or the pod beyond the minimum alone"


def test_hp_pods_are_never_evicted(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=4)
    with running(bench):
        cluster.pod("first", gpus=4, priority_class="gfs-hp")
        cluster.wait_phase("Running", "first")
        cluster.pod("second", gpus=4, priority_class="gfs-hp")
        cluster.wait_condition("second", "PodScheduled", status="False")
        assert cluster.get("first")["status"]["phase"] == "Running"
