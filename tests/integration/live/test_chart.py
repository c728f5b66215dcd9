"""The Helm chart: it renders, and a real API server takes every object of it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from running import running

from bench.bench import Bench
from bench.client import Manifest
from bench.cluster import Cluster
from conftest import find_tool
from gfs.live.figures import Figures

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy" / "helm" / "gfs-scheduler"
EVERYTHING = (
    "--set", "persistence.enabled=true", "--set", "serviceMonitor.enabled=true", "--set", "prometheusRule.enabled=true",
    "--set", "dashboard.enabled=true", "--set", "bearerTokenSecret=gfs-token", "--set-string", "config=alpha = 0.5",
)  # fmt: skip


def render(helm: Path, *options: str) -> list[Manifest]:
    words = [str(helm), "template", "gfs-scheduler", str(CHART), "--namespace", "gfs-system", *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in objects if each["kind"] == kind]


@pytest.mark.parametrize("options", [(), EVERYTHING, ("--set", "shadow=true")], ids=["default", "everything", "shadow"])
def test_helm_finds_nothing_to_complain_about(helm: Path, options: tuple[str, ...]) -> None:
    words = [str(helm), "lint", "--strict", str(CHART), *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), EVERYTHING], ids=["default", "everything"])
def test_the_api_server_takes_every_object(helm: Path, bench: Bench, tmp_path: Path, options: tuple[str, ...]) -> None:
    kubectl = [str(find_tool("kubectl")), f"--kubeconfig={bench.kubeconfig}"]
    for kind in ("ServiceMonitor", "PrometheusRule"):
        bench.install_loose_kind("monitoring.coreos.com", "v1", kind)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gfs-system"}}
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace["metadata"] |= {"labels": restricted}  # type: ignore[operator]
    if not bench.client.exists("/api/v1/namespaces/gfs-system"):
        bench.client.create("namespaces", namespace)
    objects = [each for each in render(helm, *options) if each["kind"] != "PriorityClass"]  # the bench has them
    file = tmp_path / "chart.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    words = [*kubectl, "apply", "--dry-run=server", "--warnings-as-errors", "-f", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(objects)


def test_the_pods_are_restricted_and_two(helm: Path) -> None:
    (deployment,) = of_kind(render(helm), "Deployment")
    assert deployment["spec"]["replicas"] == 2
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"livenessProbe", "readinessProbe", "startupProbe"} <= container.keys()


def test_a_shadow_may_change_nothing_but_its_lease(helm: Path) -> None:
    rules = [rule for role in of_kind(render(helm, "--set", "shadow=true"), "ClusterRole") for rule in role["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}


def test_a_wrong_value_is_refused(helm: Path) -> None:
    words = [str(helm), "template", "x", str(CHART), "--set", "replica=3"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "replica" in done.stderr


def test_dashboard_and_alerts_ask_for_figures_that_there_are(helm: Path, bench: Bench, cluster: Cluster) -> None:
    cluster.add_node("n1")
    with running(bench) as service:
        told = Figures(service).text().decode()
    served = set(re.findall(r"^# TYPE (\w+)", told, re.MULTILINE))
    objects = render(helm, *EVERYTHING)
    boards = [each["data"].get("gfs-scheduler.json") for each in of_kind(objects, "ConfigMap")]
    (board,) = [each for each in boards if each]
    panels = json.loads(board)["panels"]
    (alerts,) = of_kind(objects, "PrometheusRule")
    rules = [rule for group in alerts["spec"]["groups"] for rule in group["rules"]]
    asked = " ".join(
        [target["expr"] for panel in panels for target in panel["targets"]] + [rule["expr"] for rule in rules]
    )
    assert len(panels) > 10
    assert len(rules) > 5
    assert set(re.findall(r"gfs_\w+", asked)) <= served
    assert all({"summary", "description"} <= rule["annotations"].keys() for rule in rules)
