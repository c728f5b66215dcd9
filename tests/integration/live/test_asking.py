"""What can be asked, of a cluster and of a running controller: gfs live check, status and explain, and its HTTP."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.bench import Bench
from bench.cluster import Cluster
from bench.processes import _die_with_parent
from waiting import wait_until

TOKEN = "s3cret"
GFS = [sys.executable, "-m", "gfs.cli.main", "live"]
CONFIG = """
[live]
burst = 0.01
lease_name = "asking"
lease_seconds = 6.0
[parameters]
quota = "none"
"""


def gfs(*words: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"GFS_HTTP_TOKEN": token}
    return subprocess.run([*GFS, *words], capture_output=True, text=True, check=False, env=environment)


@contextmanager
def controller(bench: Bench, folder: Path, *words: str, leads: bool = True) -> Iterator[str]:
    """`gfs live run` as a process of its own, when it decides or, if another does, stands by; where it serves."""
    (folder / "gfs.toml").write_text(CONFIG)
    command = [*GFS, "run", "--kubeconfig", str(bench.kubeconfig), "--config", str(folder / "gfs.toml"), *words]
    with subprocess.Popen(
        [*command, "--http", ":0"],
        env=os.environ | {"GFS_HTTP_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_die_with_parent,
    ) as process:
        try:
            assert process.stderr is not None
            port = next(found[1] for line in process.stderr if (found := re.search(r"serves on port (\d+)", line)))
            address = f"127.0.0.1:{port}"
            while fetch(address, "/readyz", token="")[0] != 200:
                assert process.poll() is None
            assert ("gfs_leader 1.0" in fetch(address, "/metrics")[1]) == leads
            yield address
        finally:
            process.terminate()
            process.communicate()


def recorded(address: str, task: str) -> bool:
    """Wait until the page knows that a task has started; whether it knows the node, too."""

    def told() -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        request = urllib.request.Request(f"http://{address}/api/v1/recording", headers=headers)
        with urllib.request.urlopen(request) as answer:
            return json.loads(gzip.decompress(answer.read()))

    wait_until(lambda: task in (now := told())["tasks"]["name"] and 1 in now["entries"]["event"])
    return bool(told()["nodes"]["name"] == ["n1"])


def fetch(address: str, path: str, token: str = TOKEN) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", headers=headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


# -- gfs live check ------------------------------------------------------------------------------------


def test_check_says_yes_and_what_would_be_refused(bench: Bench, cluster: Cluster) -> None:
    words = ("check", "--kubeconfig", str(bench.kubeconfig))
    nothing = gfs(*words)
    assert nothing.returncode == 1, "there are no nodes"
    assert "No: see what is marked above." in nothing.stdout
    cluster.add_node("n1", gpus=8)
    ready = gfs(*words)
    assert ready.returncode == 0, ready.stdout
    assert "Yes: gfs live run can begin." in ready.stdout
    assert "8 A100" in ready.stdout
    cluster.pod("stranger", gpus=1, priority_class="")
    refused = gfs(*words, "--json", "-")
    found = json.loads(refused.stdout)
    assert (refused.returncode, found["ready"]) == (1, False)
    assert [pod for pod, _ in found["refused"]] == [f"{cluster.namespace}/stranger"]
    assert {"API server", "rights", "nodes", "priority classes", "would take over"} <= {
        finding["what"] for finding in found["findings"]
    }


def test_a_cluster_that_is_not_there_is_a_plain_error(tmp_path: Path) -> None:
    missing = gfs("check", "--kubeconfig", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert "none" in missing.stderr
    assert "Traceback" not in missing.stderr


# -- gfs live status and explain -----------------------------------------------------------------------


def test_the_whole_life_of_a_task(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    """A spot Job runs, makes room for an HP pod, comes back and waits; later a pod of it is gone and still known."""
    cluster.add_node("n1", gpus=4)
    with controller(bench, tmp_path, "--record", str(tmp_path / "log")) as http:
        cluster.job("train", gpus=4, grace=1)
        (first,) = cluster.client.wait("pods", lambda pods: _bound(pods, "train-"), cluster.namespace)
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.wait_bound("urgent")
        pods = cluster.client.wait("pods", lambda pods: _waits(pods, "train-"), cluster.namespace)
        (second,) = [name for name in pods if name.startswith("train-") and name != first]
        status = json.loads(gfs("status", "--http", http, "--json", "-").stdout)
        (pool,) = status["pools"]
        assert pool["gpus"] == {
            "total": 4,
            "idle": 0,
            "hp": 4,
            "spot": 0,
            "reserved": 0,
            "closed": 0,
            "kept_from_spot": 0,
        }
        assert pool["tasks"] == {"HP": {"running": 1, "waiting": 0}, "Spot": {"running": 0, "waiting": 1}}
        table = gfs("status", "--http", http).stdout
        assert "A100" in table
        assert "leads; 0 pods are refused." in table

        told = explained(http, f"{cluster.namespace}/{second}")
        assert told["task"] == f"{cluster.namespace}/train"
        assert (told["class"], told["organization"], told["pool"]) == ("Spot", cluster.namespace, "A100")
        assert "no idle GPU" in told["why"]
        steps = [(step["what"], step["run"]) for step in told["life"]]
        assert [step for step in steps if step != ("waited", 1)] == [
            ("submitted", 0), ("ran", 1), ("evicted", 1), ("waited", 2),
        ]  # fmt: skip
        assert f"evicted for {cluster.namespace}/urgent on n1" in told["life"][-2]["reason"]
        assert told["life"][-1]["ongoing"]
        assert "no idle GPU" in told["life"][-1]["reason"]
        gone = explained(http, f"{cluster.namespace}/{first}")
        assert (gone["phase"] in ("gone", "Failed"), gone["task"]) == (True, told["task"])
        assert [step["what"] for step in gone["life"]] == [step["what"] for step in told["life"]]
        words = gfs("explain", f"{cluster.namespace}/{second}", "--http", http).stdout
        assert "was evicted once and has not finished." in words
        runs = explained(http, f"{cluster.namespace}/urgent")
        assert (runs["node"], runs["run"], runs["began"], runs["why"]) == ("n1", 1, True, "")

        cluster.pod("stranger", gpus=1, priority_class="")
        cluster.wait_condition("stranger", "PodScheduled", status="False", reason="Refused")
        assert "no priority class" in explained(http, f"{cluster.namespace}/stranger")["why"]
        cluster.pod("foreign", scheduler="default-scheduler")
        cluster.client.wait("pods", lambda pods: "foreign" in pods, cluster.namespace)
        unknown = gfs("explain", f"{cluster.namespace}/nobody", "--http", http)
        assert (unknown.returncode, "Traceback" in unknown.stderr) == (2, False)
        assert "no such pod is known" in unknown.stderr
        assert gfs("explain", "nobody", "--http", http).returncode == 2


def _bound(pods: Any, begins: str) -> list[str]:
    return [name for name, pod in pods.items() if name.startswith(begins) and pod["spec"].get("nodeName")]


def _waits(pods: Any, begins: str) -> bool:
    """Whether a pod has been told why it waits."""
    return any(
        name.startswith(begins)
        and any(c["type"] == "PodScheduled" and c["status"] == "False" for c in pod["status"].get("conditions", ()))
        for name, pod in pods.items()
        if not pod["spec"].get("nodeName")
    )


def explained(http: str, pod: str) -> Any:
    done = gfs("explain", pod, "--http", http, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# -- HTTP ----------------------------------------------------------------------------------------------

FIGURES = {
    "gfs_api_problems": "counter", "gfs_api_requests": "counter", "gfs_bindings_refused": "counter",
    "gfs_decision_seconds": "counter", "gfs_decisions": "counter", "gfs_demand_history_seconds": "gauge",
    "gfs_forecaster_failures": "counter", "gfs_forecaster_fits": "counter", "gfs_gpus": "gauge",
    "gfs_forecaster_last_fit_timestamp_seconds": "gauge", "gfs_guarantees": "counter", "gfs_promise": "gauge",
    "gfs_watch_silence_seconds": "gauge", "gfs_claims_not_believed": "counter",
    "gfs_hanging_victims": "gauge", "gfs_last_decision_timestamp_seconds": "gauge", "gfs_leader": "gauge",
    "gfs_longest_step_seconds": "gauge",
    "gfs_messages_sent": "counter", "gfs_pods_bound": "counter", "gfs_pods_evicted": "counter",
    "gfs_quota_cautious": "gauge", "gfs_refused_pods": "gauge", "gfs_spot_quota_gpus": "gauge", "gfs_tasks": "gauge",
}  # fmt: skip
"""Families by name: renamed ones break dashboards and alerts."""
BOUNDED = {
    "pool": r"A100", "state": r"total|idle|hp|spot|running|waiting", "class": r"HP|Spot", "guarantee_hours": r"[124]",
    "outcome": r"kept|broken",
    "claim": r"guarantee|checkpoint-interval|last-checkpoint|organization|grace|task|submitted",
}  # fmt: skip


def test_probes_figures_and_the_token(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1", gpus=4)
    with controller(bench, tmp_path, "--set", "quota=fixed") as http:
        for i in range(6):
            cluster.pod(f"p{i}", gpus=1)
        seen = cluster.client.wait("pods", lambda pods: len(_bound(pods, "p")) == 1 and pods, cluster.namespace)
        assert fetch(http, "/healthz", token="")[0] == 200, "a kubelet has no token"
        assert fetch(http, "/readyz", token="")[0] == 200
        ours = f"/api/v1/pods/{cluster.namespace}/p0"
        api = ("/api/v1/status", "/api/v1/queue", "/api/v1/openapi.json", ours)
        for path in ("/", "/static/page.js", "/metrics", *api):
            assert fetch(http, path, token="")[0] == 401
            assert fetch(http, path, token="wrong")[0] == 401
            assert fetch(http, path)[0] == 200
        (pool,) = json.loads(fetch(http, "/api/v1/status")[1])["pools"]
        assert pool["gpus"] == {
            "total": 4,
            "idle": 3,
            "hp": 0,
            "spot": 1,
            "reserved": 0,
            "closed": 0,
            "kept_from_spot": 0,
        }
        queue = json.loads(fetch(http, "/api/v1/queue")[1])["waiting"]
        assert len(queue) == 5
        assert all("spot quota 1" in row["reason"] for row in queue)
        assert len(json.loads(fetch(http, "/api/v1/queue?limit=2&kind=Spot")[1])["waiting"]) == 2
        assert json.loads(fetch(http, "/api/v1/queue?kind=HP")[1])["waiting"] == []
        (bound,) = _bound(seen, "p")
        assert json.loads(fetch(http, f"/api/v1/pods/{cluster.namespace}/{bound}")[1])["node"] == "n1"
        assert recorded(http, f"{cluster.namespace}/{bound}")
        assert gfs("status", "--http", http, token="").returncode == 2
        families = {family.name: family for family in text_string_to_metric_families(fetch(http, "/metrics")[1])}
        assert {name: family.type for name, family in families.items()} == FIGURES
        for family in families.values():
            assert family.documentation.endswith("."), family.name
            for sample in family.samples:
                assert sample.labels.keys() <= BOUNDED.keys(), sample
                assert all(re.fullmatch(BOUNDED[key], value) for key, value in sample.labels.items()), sample
                assert sample.name.endswith("_total") == (family.type == "counter")
        assert families["gfs_pods_bound"].samples[0].value == 1
        assert {sample.labels["state"]: sample.value for sample in families["gfs_gpus"].samples}["total"] == 4
        assert fetch(http, "/metrics/../state.gfs")[0] == 404
        request = urllib.request.Request(
            f"http://{http}/api/v1/status", method="POST", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(request)


def test_a_replica_that_stands_by_says_who_leads(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1", gpus=4)
    (tmp_path / "second").mkdir()
    with controller(bench, tmp_path), controller(bench, tmp_path / "second", leads=False) as http:
        assert fetch(http, "/readyz", token="")[0] == 200
        status, told = fetch(http, f"/api/v1/pods/{cluster.namespace}/p")
        assert status == 503
        assert "leads" in told
        assert "gfs_leader 0.0" in fetch(http, "/metrics")[1]
