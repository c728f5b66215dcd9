"""A controller that is stopped, killed or paused: nothing is bound twice, nothing forgotten, never two leaders."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from running import running

from bench.bench import Bench
from bench.client import path
from bench.cluster import Cluster
from conftest import audit_events
from waiting import LONGEST, wait_until

CONFIG = """
[live]
burst = 0.01
lease_seconds = 6.0
lease_name = "{lease}"
snapshot_interval = 0.2
[parameters]
quota = "none"
"""


@contextmanager
def replica(
    bench: Bench, folder: Path, name: str, lease: str, state: bool = True, log: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """`gfs live run` as a process of its own."""
    config = folder / "gfs.toml"
    config.write_text(CONFIG.format(lease=lease))
    words = [sys.executable, "-m", "gfs.cli.main", "live", "run", "--kubeconfig", str(bench.kubeconfig)]
    words += ["--config", str(config), "--http", "off", "--record", str(folder / (log or f"log-{name}"))]
    words += ["--state", str(folder / "state")] if state else []
    process = subprocess.Popen(
        words,
        env={**os.environ, "POD_NAME": name, "POD_NAMESPACE": "kube-system"},
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(LONGEST)


def holder(bench: Bench, lease: str, *begins: str) -> str:
    """Wait until a replica whose name begins so holds the lease."""
    seen = bench.client.wait(
        "leases",
        lambda leases: ((leases.get(lease) or {}).get("spec") or {}).get("holderIdentity", "").startswith(begins),
        "kube-system",
    )
    return str(seen[lease]["spec"]["holderIdentity"])


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("state", [True, False], ids=["with-snapshot", "without"])
def test_a_restart_in_mid_run(
    bench: Bench, cluster: Cluster, record: Path, tmp_path: Path, end: signal.Signals, state: bool
) -> None:
    lease = f"restart-{cluster.namespace}"
    cluster.add_node("n1", gpus=8)
    with replica(bench, tmp_path, "one", lease, state, log="log") as first:
        cluster.job("runs", gpus=4, grace=1)
        cluster.gang("team", 2, gpus=2, grace=1)
        cluster.wait_pods(lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == 3)
        cluster.pod("waits", gpus=8)
        cluster.wait_condition("waits", "PodScheduled", status="False")
        first.send_signal(end)
        first.wait(LONGEST)
    before = _nodes(cluster)
    with replica(bench, tmp_path, "two", lease, state, log="log") as second:
        holder(bench, lease, "two")
        cluster.pod("small", gpus=1, priority_class="gfs-hp")
        cluster.wait_pods(lambda pods: "small" in pods and bool(pods["small"]["spec"].get("nodeName")))
        after = _nodes(cluster)
        stayed = [uid for uid, node in before.items() if node and after.get(uid) == node]
        assert len(stayed) in (1, 2), "the gang or the Job had to go for the newcomer, whole"
        assert not any(after.get(uid, node) != node for uid, node in before.items() if node), "nothing moves"
        assert after[cluster.get("waits")["metadata"]["uid"]] is None
        second.terminate()
        second.wait(LONGEST)  # by then its log is written
    rows = csv.DictReader((tmp_path / "log" / "events.csv").read_text().splitlines())
    submitted = [row["task"].rpartition("/")[2] for row in rows if row["event"] == "submit"]
    assert len(set(submitted)) == len(submitted), "each is told once"
    assert {"small", "waits"} <= set(submitted)
    assert end is signal.SIGKILL or {"runs", "team"} <= set(submitted), "who is killed may lose its last two seconds"


def _nodes(cluster: Cluster) -> dict[str, str | None]:
    """Pods by uid and where they are; one that has failed holds nothing, though its Job keeps it for a while."""
    pods = cluster.client.items("pods", cluster.namespace)
    alive = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in alive}


def test_the_second_replica_takes_over_and_a_paused_leader_writes_nothing(
    bench: Bench, cluster: Cluster, record: Path, tmp_path: Path
) -> None:
    lease = f"two-{cluster.namespace}"
    cluster.add_node("n1", gpus=4)
    with replica(bench, tmp_path, "one", lease) as first:
        holder(bench, lease, "one")
        with replica(bench, tmp_path, "two", lease):
            cluster.pod("a", grace=1)
            cluster.wait_bound("a")
            wait_until(lambda: "/a" in (tmp_path / "log-one" / "events.csv").read_text())
            first.send_signal(signal.SIGSTOP)
            holder(bench, lease, "two")
            cluster.pod("b", gpus=3, grace=1)
            cluster.wait_bound("b")
            first.send_signal(signal.SIGCONT)
            cluster.pod("c", gpus=4, priority_class="gfs-hp")
            cluster.wait_bound("c")
            lease_now = bench.client.get(path("leases", "kube-system", lease))
            assert lease_now["spec"]["holderIdentity"].startswith("two")
        first.terminate()
        first.wait(LONGEST)  # by then its log is written
    log = (tmp_path / "log-one" / "events.csv").read_text()
    assert "/a" in log
    assert "/b" not in log, "it had been paused by then"


def test_the_log_goes_on_whole_with_the_second_replica(
    bench: Bench, cluster: Cluster, record: Path, tmp_path: Path
) -> None:
    """A leader dies after one pod of a gang has finished; the log of both replicas is one file.

    The next pod gets the GPUs of the finished one, while the log still has the gang there.
    """
    lease, events = f"log-{cluster.namespace}", tmp_path / "log" / "events.csv"
    cluster.add_node("n1", gpus=8)
    with replica(bench, tmp_path, "one", lease, log="log") as first:
        holder(bench, lease, "one")
        cluster.gang("team", 2, gpus=4, priority_class="gfs-hp", grace=1)
        cluster.wait_phase("Running", "team-0", "team-1")
        wait_until(lambda: recorded(events, "start", "team"))
        with replica(bench, tmp_path, "two", lease, log="log") as second:
            finish(cluster, "team-0")
            first.kill()
            first.wait(LONGEST)
            holder(bench, lease, "two")
            cluster.pod("next", gpus=4, grace=1)
            cluster.wait_phase("Running", "next")
            finish(cluster, "team-1")
            finish(cluster, "next")
            wait_until(lambda: recorded(events, "finish", "next"))  # the audit wants a job of every task
            second.terminate()
            second.wait(LONGEST)
    audit_events(tmp_path / "log")
    rows = [*csv.DictReader(events.read_text().splitlines())]
    ended = {row["event"] for row in rows if row["task"].partition("~")[0].endswith("/team")}
    assert "finish" in ended
    assert "evict" not in ended


def recorded(events: Path, what: str, task: str) -> bool:
    """Whether the event log has such an event of a task."""
    rows = csv.DictReader(events.read_text().splitlines())
    return any(row["event"] == what and row["task"].endswith(f"/{task}") for row in rows)


def finish(cluster: Cluster, pod: str) -> None:
    """A pod ends well."""
    where = path("pods", cluster.namespace, pod, "status")
    cluster.client.patch(where, {"status": {"phase": "Succeeded"}})
    cluster.wait_phase("Succeeded", pod)


def test_a_saved_state_keeps_the_ledger_and_the_numbers_of_runs(
    bench: Bench, cluster: Cluster, tmp_path: Path, record: Path
) -> None:
    cluster.add_node("n1", gpus=4)

    def evicted(service: Any) -> int:
        return int(service.controller.scheduler.pools["A100"].state.ledger.totals(service.controller.now)[0])

    with running(bench, state=tmp_path) as service:
        cluster.job("train", gpus=4, grace=1)
        (first,) = cluster.wait_pods(lambda pods: any(p["status"].get("phase") == "Running" for p in pods.values()))
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.wait_bound("urgent")
        assert evicted(service) == 1
    with running(bench, state=tmp_path) as service:
        assert evicted(service) == 1
        cluster.delete_pod("urgent", grace=0)
        again = cluster.wait_pods(  # what was evicted may still be there: its Job counts it before it goes
            lambda pods: any(pod["spec"].get("nodeName") for name, pod in pods.items() if name not in (first, "urgent"))
        )
        (pod,) = (pod for name, pod in again.items() if name not in (first, "urgent"))
        assert pod["metadata"]["annotations"]["gfs.dev/run"] == "2"
