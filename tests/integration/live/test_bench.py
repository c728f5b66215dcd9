"""The bench itself: what KWOK plays is what a kubelet does, and what is recorded can be audited."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from started import environment, started_by

import needs
from bench import manifests
from bench.bench import Bench, free_ports
from bench.client import ApiError, Client, path
from bench.cluster import Cluster, conditions, is_ready, node_of
from bench.recorder import Recorder

READY = "Ctrl-C stops the bench and removes everything in it.\n"
"""The last line of `python -m bench` until it is stopped."""


def test_the_api_server_is_recent_and_has_pod_groups(bench: Bench) -> None:
    version = bench.client.get("/version")
    assert (int(version["major"]), int(version["minor"])) >= (1, 36)
    kinds = {each["kind"] for each in bench.client.get("/apis/scheduling.k8s.io/v1alpha2")["resources"]}
    assert "PodGroup" in kinds


def test_nodes_are_ready_with_what_they_were_given(cluster: Cluster) -> None:
    taint = {"key": "dedicated", "value": "a", "effect": "NoSchedule"}
    cluster.add_node("n1", gpus=4, model="H800", cpus=32, memory="64Gi", labels={"zone": "a"}, taints=[taint])
    node = cluster.client.get(path("nodes", name="n1"))
    assert is_ready(node)
    room = node["status"]["allocatable"]
    assert (room["nvidia.com/gpu"], room["cpu"], room["memory"]) == ("4", "32", "64Gi")
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "H800"
    assert node["spec"]["taints"] == [taint]


def test_a_node_fails_and_is_repaired(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.pod("a", run_for=3600)
    cluster.bind("a", "n1")
    cluster.wait_phase("Running", "a")
    cluster.fail("n1")
    cluster.wait(
        "nodes",
        lambda nodes: (
            "node.kubernetes.io/unreachable" in {taint["key"] for taint in nodes["n1"]["spec"].get("taints", ())}
        ),
    )
    cluster.delete_pod("a", grace=1)
    cluster.repair("n1")
    cluster.wait_gone("a")
    cluster.wait("nodes", lambda nodes: is_ready(nodes["n1"]))


def test_a_cordoned_node_says_so(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.cordon("n1")
    assert cluster.client.get(path("nodes", name="n1"))["spec"]["unschedulable"]
    cluster.cordon("n1", on=False)
    assert "unschedulable" not in cluster.client.get(path("nodes", name="n1"))["spec"]


def test_a_pod_bound_by_hand_runs_and_succeeds_after_its_time(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.pod("brief", run_for=1.5)
    cluster.pod("long")
    for name in ("brief", "long"):
        cluster.bind(name, "n1")
    running = cluster.wait_phase("Running", "brief", "long")
    assert [node_of(pod) for pod in running.values()] == ["n1", "n1"]
    began = _ready_message(running["brief"])
    ended = cluster.wait_phase("Succeeded", "brief")["brief"]
    finished = datetime.fromisoformat(ended["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"])
    assert (finished - began).total_seconds() > 0.4, "times of the API are whole seconds, cut off"
    assert cluster.get("long")["status"]["phase"] == "Running"


def _ready_message(pod: dict[str, object]) -> datetime:
    (message,) = [c["message"] for c in conditions(pod) if c["type"] == "Ready"]
    return datetime.fromisoformat(message[:26].rstrip("Z") + "+00:00")


def test_nobody_but_a_scheduler_binds(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.pod("a")
    with pytest.raises(TimeoutError, match="a Pending"):
        cluster.wait_bound("a", seconds=0.3)


def test_a_job_completes(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.job("train", pods=2, run_for=0.1)
    pods = cluster.wait_pods(lambda pods: len(pods) == 2)
    for name in pods:
        cluster.bind(name, "n1")
    done = cluster.wait("jobs", lambda jobs: jobs["train"].get("status", {}).get("completionTime"))
    assert done["train"]["status"]["succeeded"] == 2


def test_a_deleted_pod_keeps_its_grace_period(cluster: Cluster, bench: Bench, tmp_path: Path) -> None:
    cluster.add_node("n1")
    cluster.pod("a", grace=2)
    cluster.bind("a", "n1")
    cluster.wait_phase("Running", "a")
    file = tmp_path / "watch.jsonl"
    with Recorder(bench.client, file):
        cluster.delete_pod("a")
        cluster.wait_gone("a")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    pod_lines = [line for line in lines if line["object"]["kind"] == "Pod"]
    assert pod_lines[-1]["type"] == "DELETED"
    assert pod_lines[-1]["object"]["status"]["phase"] == "Failed"
    promised = datetime.fromisoformat(pod_lines[-2]["object"]["metadata"]["deletionTimestamp"]).timestamp()
    assert pod_lines[-1]["received"] >= promised


def test_a_pod_that_hangs_does_not_go_away(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.pod("a", grace=0)
    cluster.bind("a", "n1")
    cluster.wait_phase("Running", "a")
    cluster.hang("a")
    cluster.delete_pod("a", grace=1)
    with pytest.raises(TimeoutError):
        cluster.wait_gone("a", seconds=2.5)
    cluster.hang("a", on=False)
    cluster.wait_gone("a")


def test_an_evicted_pod_of_a_job_is_replaced_and_costs_no_retry(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.job("train", backoff_limit=0, grace=1)
    (first,) = cluster.wait_pods(lambda pods: len(pods) == 1)
    cluster.bind(first, "n1")
    cluster.wait_phase("Running", first)
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for b"}
    # the disruption controller takes a mark back that is older than two minutes, and one without a time at once
    mark["lastTransitionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    where = path("pods", cluster.namespace, first, "status")
    cluster.client.patch(where, {"status": {"conditions": [mark]}}, "strategic")
    cluster.delete_pod(first)
    # the Job controller waits ten seconds before it tries again
    (second,) = cluster.wait_pods(lambda pods: len(pods) == 1 and first not in pods)
    assert second != first
    assert not cluster.client.get(path("jobs", cluster.namespace, "train"))["status"].get("failed")


def test_gangs_of_either_kind(cluster: Cluster, bench: Bench) -> None:
    cluster.gang("own", pods=2)
    assert cluster.get("own-1")["spec"]["schedulingGroup"] == {"podGroupName": "own"}
    bench.install_plugin_pod_groups()
    cluster.plugin_gang("plugin", pods=2, minimum=1)
    assert cluster.get("plugin-0")["metadata"]["labels"][manifests.GROUP_LABEL] == "plugin"


def test_a_disruption_budget_counts_its_pods(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.create(manifests.disruption_budget("keep", cluster.namespace, {"app": "a"}, 1))
    cluster.pod("a", labels={"app": "a"})
    cluster.bind("a", "n1")
    seen = cluster.wait("poddisruptionbudgets", lambda seen: seen["keep"].get("status", {}).get("currentHealthy") == 1)
    assert seen["keep"]["status"]["disruptionsAllowed"] == 0


def test_a_recorded_watch_is_audited(
    cluster: Cluster, bench: Bench, tmp_path: Path, audit_watch: Callable[..., subprocess.CompletedProcess[str] | None]
) -> None:
    clean, broken = tmp_path / "clean.jsonl", tmp_path / "broken.jsonl"
    with Recorder(bench.client, clean):
        cluster.add_node("n1", gpus=4)
        cluster.gang("g", pods=2, gpus=2, run_for=0.1)
        for name in ("g-0", "g-1"):
            cluster.bind(name, "n1")
        cluster.wait_phase("Succeeded", "g-0", "g-1")
    told = audit_watch(clean)
    if told is None:
        pytest.skip(needs.NO_SHARED)
    assert told.returncode == 0, told.stdout
    assert "2 pods bound" in told.stdout
    with Recorder(bench.client, broken):  # the API server does not check capacity
        for name in ("b", "c"):
            cluster.pod(name, gpus=4)
            cluster.bind(name, "n1")
        cluster.wait_phase("Running", "b", "c")
    told = audit_watch(broken)
    assert told is not None
    assert told.returncode == 1
    assert "n1 has 8 nvidia.com/gpu bound, can allocate 4" in told.stdout


def test_who_is_refused_is_told(bench: Bench) -> None:
    with pytest.raises(ApiError, match="cannot list resource") as refused:
        bench.client.acting_as("nobody").items("pods")
    assert refused.value.code == 403


def test_all_ends_with_who_started_it(tmp_path: Path) -> None:
    """Also when it is killed and can do nothing any more."""
    script = (
        "from bench.processes import Processes\nfrom pathlib import Path\nimport sys, time\n"
        "p = Processes(Path(sys.argv[1])); p.start('sleep', ['sleep', '600']); print(p.pid('sleep'), flush=True)\n"
        "time.sleep(600)\n"
    )
    words = [sys.executable, "-c", script, str(tmp_path)]
    starter = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=needs.bench_environment())
    assert starter.stdout is not None
    started = int(starter.stdout.readline())
    handle = os.pidfd_open(started)
    os.kill(starter.pid, signal.SIGKILL)
    starter.communicate()
    assert select.select([handle], [], [], 30)[0], "it still runs"
    os.close(handle)


@contextmanager
def serving(tmp_path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], list[str], Client]]:
    """`python -m bench` when it is ready: the process, what it printed, a client of the kubeconfig that it names."""
    needs.bench_programs()
    words = [sys.executable, "-m", "bench", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(words, text=True, env=environment(tmp_path), **pipes) as command:
        assert command.stdout is not None
        lines = [line.rstrip() for line in takewhile(lambda line: line != READY, command.stdout)]
        assert command.poll() is None, lines
        (kubeconfig,) = [line.removeprefix("kubeconfig: ") for line in lines if line.startswith("kubeconfig: ")]
        client = client_of(Path(kubeconfig), tmp_path)
        try:
            yield command, lines, client
        finally:
            client.close()
            command.terminate()


def client_of(kubeconfig: Path, folder: Path) -> Client:
    """A client that knows only what the kubeconfig says."""
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = folder / "authority.crt"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    address = urlsplit(cluster["server"])
    assert address.hostname == "127.0.0.1"
    assert address.port is not None
    return Client(address.hostname, address.port, authority, user["token"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_the_command_serves_a_cluster_until_it_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, "--nodes", "3", "--gpus", "4", "--model", "H800") as (command, lines, client):
        nodes = client.items("nodes")
        handles = [os.pidfd_open(child) for child in started_by(tmp_path / "tmp")]
        command.send_signal(number)
        rest = command.communicate()[0]
    assert "nodes: node-1, node-2, node-3 (4 x H800 each)" in lines
    assert [node["metadata"]["name"] for node in nodes] == ["node-1", "node-2", "node-3"]
    assert all(is_ready(node) for node in nodes)
    assert {node["status"]["allocatable"][manifests.GPU] for node in nodes} == {"4"}
    assert {node["metadata"]["labels"][manifests.MODEL_LABEL] for node in nodes} == {"H800"}
    assert command.returncode == 0, rest
    assert rest.endswith("Nothing is left running.\n")
    assert len(handles) == 4, "etcd, kube-apiserver, kube-controller-manager, kwok"
    for handle in handles:
        assert select.select([handle], [], [], 0)[0], "it still runs"
        os.close(handle)
    assert not started_by(tmp_path / "tmp")
    assert not list((tmp_path / "tmp").iterdir())


def test_what_the_command_says_to_try_works_as_it_stands(tmp_path: Path) -> None:
    needs.bench_programs(["kubectl"])
    with serving(tmp_path, "--nodes", "1") as (_, lines, client):
        check, run, create, pods = [line.strip() for line in lines if line.startswith("  ")]
        shell(check)
        shell(create)
        words = ["/bin/sh", "-c", f"exec {run} --http 127.0.0.1:{free_ports(1)[0]}"]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as gfs:
            client.wait("pods", lambda pods: [node_of(pod) for pod in pods.values()] == ["node-1"], "lab")
            gfs.terminate()
        assert "node-1" in shell(pods)


def shell(line: str) -> str:
    """What a command line prints; it must succeed."""
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
