"""Rows of the table of words, on a real API server: who is placed where, and what is said of who is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from running import quick, running, until

from bench.bench import Bench
from bench.client import path
from bench.cluster import Cluster


def why(cluster: Cluster, pod: str, *words: str) -> str:
    """The sentence on a pod that waits, once it has all these words."""

    def told(pods: Any) -> bool:
        return all(word in _message(pods.get(pod)) for word in words) and bool(_message(pods.get(pod)))

    return _message(cluster.wait_pods(told)[pod])


def _message(pod: Any) -> str:
    found = [
        each for each in ((pod or {}).get("status") or {}).get("conditions") or () if each["type"] == "PodScheduled"
    ]
    return found[0].get("message", "") if found and found[0]["status"] == "False" else ""


# -- classes, pools, asks ------------------------------------------------------------------------------------


def test_pods_of_both_classes_are_bound_and_run(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=8)
    with running(bench):
        cluster.pod("service", gpus=2, priority_class="gfs-hp")
        cluster.pod("batch", gpus=4)
        assert cluster.wait_bound("service", "batch") == {"service": "n1", "batch": "n1"}
        cluster.wait_phase("Running", "service", "batch")
    assert cluster.get("batch")["metadata"]["annotations"]["gfs.dev/task"] == f"{cluster.namespace}/batch"


def test_another_class_is_refused_and_can_be_mapped_by_number(bench: Bench, cluster: Cluster) -> None:
    cluster.add_node("n1")
    with running(bench):
        cluster.pod("plain", priority_class="")
        assert "no priority class" in why(cluster, "plain", "refused")
        assert cluster.wait_pods(lambda pods: "plain" in pods)["plain"]["status"]["conditions"][0]["reason"] == (
            "Refused"
        )
    with running(bench, settings=quick(spot_to_priority=0)):
        cluster.wait_bound("plain")


def test_the_model_is_chosen_by_selector_or_affinity(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("a", model="A100")
    cluster.add_node("h", model="H800")
    label = "nvidia.com/gpu.product"
    one = {"matchExpressions": [{"key": label, "operator": "In", "values": ["A100"]}]}
    both = {"matchExpressions": [{"key": label, "operator": "In", "values": ["A100", "H800"]}]}

    def affinity(term: dict[str, Any]) -> dict[str, Any]:
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}

    with running(bench):
        cluster.pod("selected", nodeSelector={label: "H800"})
        cluster.pod("affine", affinity=affinity(one))
        cluster.pod("either", affinity=affinity(both))
        cluster.pod("silent")
        cluster.pod("unknown", nodeSelector={label: "B300"})
        assert cluster.wait_bound("selected", "affine") == {"selected": "h", "affine": "a"}
        assert "several GPU models" in why(cluster, "either", "refused")
        assert "names no GPU model" in why(cluster, "silent", "refused")
        assert "no node has GPU model B300" in why(cluster, "unknown")


def test_parts_of_a_gpu_and_none_are_refused(bench: Bench, cluster: Cluster) -> None:
    cluster.add_node("n1")
    with running(bench):
        cluster.pod("part", annotations={"gpu-fraction": "0.5"})
        cluster.pod("none", gpus=0)
        assert "part of a GPU" in why(cluster, "part", "refused")
        assert "asks for no GPU" in why(cluster, "none", "refused")


# -- fits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "short"),
    [({"cpus": "20"}, "CPUs free"), ({"memory": "40Gi"}, "GiB memory"), ({"gpus": 5}, "no node has 5")],
    ids=["cpu", "memory", "gpus"],
)
def test_what_is_short_is_said(bench: Bench, cluster: Cluster, record: Path, asks: Any, short: str) -> None:
    cluster.add_node("n1", gpus=4, cpus=16, memory="32Gi")
    with running(bench):
        cluster.pod("large", priority_class="gfs-hp", **asks)
        cluster.pod("small", gpus=1)
        cluster.wait_bound("small")
        assert short in why(cluster, "large")


def test_no_more_pods_than_a_node_takes(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=8, pods=2)
    with running(bench):
        for name in ("a", "b", "c"):
            cluster.pod(name)
        cluster.wait_bound("a", "b")
        assert "pods run there" in why(cluster, "c")


def test_selector_taints_cordon_and_readiness(bench: Bench, cluster: Cluster, record: Path) -> None:
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    cluster.add_node("tainted", gpus=8, taints=[taint])
    cluster.add_node("zoned", gpus=4, labels={"zone": "b"})
    cluster.add_node("closed", gpus=8)
    cluster.cordon("closed")
    cluster.add_node("broken", gpus=8)
    cluster.fail("broken")
    with running(bench):
        cluster.pod("tolerant", gpus=8, tolerations=[{"key": "team", "operator": "Exists"}])
        cluster.pod("zone", gpus=2, nodeSelector={"zone": "b"})
        cluster.pod("big", gpus=8)
        assert cluster.wait_bound("tolerant", "zone") == {"tolerant": "tainted", "zone": "zoned"}
        why(cluster, "big")
        cluster.cordon("closed", on=False)
        assert cluster.wait_bound("big") == {"big": "closed"}
        cluster.pod("next", gpus=8)
        why(cluster, "next")
        cluster.repair("broken")
        assert cluster.wait_bound("next") == {"next": "broken"}


def test_a_node_that_comes_later_is_used(bench: Bench, cluster: Cluster, record: Path) -> None:
    with running(bench):
        cluster.add_node("n1", gpus=1)
        cluster.pod("wide", gpus=4)
        why(cluster, "wide")
        cluster.add_node("n2", gpus=4, labels={"new": "label"})
        assert cluster.wait_bound("wide") == {"wide": "n2"}


def test_foreign_pods_count_as_used_and_are_not_touched(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=4)
    cluster.pod("foreign", gpus=3, scheduler="other", node="n1", priority_class="")
    with running(bench):
        cluster.pod("service", gpus=2, priority_class="gfs-hp")
        cluster.pod("small", gpus=1)
        cluster.wait_bound("small")
        why(cluster, "service")
        cluster.delete_pod("foreign", grace=0)
        assert cluster.wait_bound("service") == {"service": "n1"}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
                        ]
                    }
                }
            },
            "inter-pod anti-affinity",
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            "spread constraints",
        ),
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}, "volume data"),
        ({"hostNetwork": True}, "host ports"),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}, "dynamic resource allocation"),
    ],
    ids=["anti-affinity", "spread", "volume", "ports", "claims"],
)
def test_rules_that_we_do_not_know_are_refused(bench: Bench, cluster: Cluster, rule: Any, said: str) -> None:
    cluster.add_node("n1")
    with running(bench):
        cluster.pod("ruled", **rule)
        assert said in why(cluster, "ruled", "refused")
        kinds = {event["reason"] for event in cluster.events("ruled")}
        assert kinds <= {"FailedScheduling"}


def test_malformed_annotations_warn_and_the_default_holds(bench: Bench, cluster: Cluster) -> None:
    cluster.add_node("n1")
    with running(bench) as service:
        good = {"gfs.dev/guaranteed-duration": "4h", "gfs.dev/checkpoint-interval": "30m"}
        bad = {"gfs.dev/guaranteed-duration": "soon", "gfs.dev/checkpoint-interval": "-1"}
        cluster.pod("good", annotations=good)
        cluster.pod("bad", annotations=bad)
        cluster.wait_bound("good", "bad")
        assert service.controller is not None
        state = service.controller.scheduler.pools["A100"].state
        tasks = {run.task.name.partition("/")[2]: run.task for run in state.runs.values()}
        assert (tasks["good"].guarantee_hours, tasks["good"].checkpoint_interval) == (4.0, 1800.0)
        assert (tasks["bad"].guarantee_hours, tasks["bad"].checkpoint_interval) == (1.0, 3600.0)
        told = cluster.client.wait(
            "events",
            lambda events: sum(e["reason"] == "InvalidAnnotation" for e in events.values()) >= 2,
            cluster.namespace,
        )
        assert any("'soon'" in event["message"] for event in told.values())


def test_organizations_by_label_or_namespace(bench: Bench, cluster: Cluster) -> None:
    cluster.add_node("n1")
    with running(bench) as service:
        cluster.pod("own", labels={"gfs.dev/organization": "lab"})
        cluster.pod("plain")
        cluster.wait_bound("own", "plain")
        assert service.controller is not None
        pools = service.controller.scheduler.pools
        until(
            service,
            lambda: {run.task.organization for run in pools["A100"].state.runs.values()} == {"lab", cluster.namespace},
        )
        cluster.client.patch(
            path("namespaces", name=cluster.namespace), {"metadata": {"labels": {"gfs.dev/organization": "house"}}}
        )
        cluster.pod("later")
        cluster.wait_bound("later")
        runs = pools["A100"].state.runs.values()
        assert {run.task.name.partition("/")[2]: run.task.organization for run in runs} == {
            "own": "house", "plain": "house", "later": "house",
        }, "what the namespace says now counts for all its pods"  # fmt: skip


# -- gangs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gang", "plugin_gang"])
def test_a_gang_starts_whole_or_not_at_all(bench: Bench, cluster: Cluster, record: Path, kind: str) -> None:
    if kind == "plugin_gang":
        bench.install_plugin_pod_groups()
    cluster.add_node("n1", gpus=4)
    with running(bench):
        getattr(cluster, kind)("team", 3, gpus=2)
        names = sorted(pod["metadata"]["name"] for pod in cluster.client.items("pods", cluster.namespace))
        assert len(names) == 3
        why(cluster, names[0], "room for 2 of 3")
        assert not any(pod["spec"].get("nodeName") for pod in cluster.client.items("pods", cluster.namespace))
        cluster.add_node("n2", gpus=4)
        assert sorted(set(cluster.wait_bound(*names).values())) == ["n1", "n2"]


def test_pods_beyond_the_minimum_are_placed_as_room_allows(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=3)
    with running(bench):
        cluster.gang("team", 4, minimum=2)
        pods = cluster.wait_pods(lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == 3)
        assert len(pods) == 4


def test_a_group_that_is_not_there_is_waited_for(bench: Bench, cluster: Cluster) -> None:
    cluster.add_node("n1")
    with running(bench):
        cluster.pod("early", labels={"scheduling.x-k8s.io/pod-group": "nobody"})
        assert "PodGroup nobody is not there" in why(cluster, "early", "refused")
