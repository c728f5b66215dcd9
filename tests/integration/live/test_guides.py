"""The manifests of the guides: a real API server takes every one of them, and GFS places their pods."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from running import running

from bench import manifests
from bench.bench import Bench
from bench.client import Manifest, path
from bench.cluster import Cluster
from conftest import find_tool

GUIDES = Path(__file__).resolve().parents[3] / "docs" / "guides"
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("install-on-kubernetes.md", "workloads-on-kubernetes.md")


def shown(page: str) -> list[Manifest]:
    """The objects that a guide shows."""
    blocks = BLOCK.findall((GUIDES / page).read_text(encoding="utf-8"))
    return [each for block in blocks for each in yaml.safe_load_all(block)]


def apply(bench: Bench, objects: list[Manifest], file: Path, *options: str) -> str:
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    words = [str(find_tool("kubectl")), f"--kubeconfig={bench.kubeconfig}", "apply", "-f", str(file), *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_the_api_server_takes_every_manifest(bench: Bench, tmp_path: Path, page: str) -> None:
    bench.install_plugin_pod_groups()
    objects = shown(page)
    for name in {each["metadata"]["namespace"] for each in objects}:
        if not bench.client.exists(path("namespaces", name=name)):
            bench.client.create("namespaces", manifests.namespace(name))
    taken = apply(
        bench, objects, tmp_path / "all.json", "--dry-run=server", "--warnings-as-errors", "--validate=strict"
    )
    assert len(taken.splitlines()) == len(objects)


def test_every_yaml_of_a_guide_on_kubernetes_is_tried() -> None:
    with_yaml = {page.name for page in GUIDES.glob("*.md") if "schedulerName" in page.read_text() and shown(page.name)}
    assert with_yaml == set(PAGES)


def test_their_pods_are_placed_and_gangs_are_whole(
    bench: Bench, cluster: Cluster, tmp_path: Path, record: Path
) -> None:
    bench.install_plugin_pod_groups()
    for i in range(3):
        cluster.add_node(f"n{i}", gpus=8)
    objects = [each for page in PAGES for each in shown(page)]
    for each in objects:  # where they go when the test is over
        each["metadata"]["namespace"] = cluster.namespace
        for subject in each.get("subjects", ()):
            subject["namespace"] = cluster.namespace
    with running(bench):
        apply(bench, objects, tmp_path / "all.json")
        pods = cluster.client.wait(
            "pods",
            lambda pods: len(pods) == 10 and all(pod["spec"].get("nodeName") for pod in pods.values()),
            cluster.namespace,
        )
    assert sorted({re.match(r"[a-z]+", name)[0] for name in pods}) == [  # type: ignore[index]
        "finetune", "hello", "inference", "pretrain", "train",
    ]  # fmt: skip
