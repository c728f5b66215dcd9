"""What `gfs quota export` writes is taken by a real API server, and by Kueue's own definitions."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import needs
from bench.bench import Bench
from bench.client import ApiError, Manifest
from bench.cluster import Cluster
from gfs.cli.main import app
from waiting import wait_until

KUEUE = "sigs.k8s.io/kueue@v0.15.0"
STRICT = "?dryRun=All&fieldValidation=Strict"


def exported(folder: Path, *options: str) -> dict[str, Any]:
    """Eight days in which 50 of 64 GPUs are wanted: 14 are left."""
    nodes = "".join(f"n{i},A100,8,64\n" for i in range(8))
    (folder / "nodes.csv").write_text("node_name,gpu_model,gpu_capacity_num,cpu_num\n" + nodes)
    demand = "".join(f"2026-05-{4 + hour // 24:02}T{hour % 24:02}:00,lab,A100,50\n" for hour in range(192))
    (folder / "demand.csv").write_text("time,organization,gpu_model,gpus\n" + demand)
    files = ("--series", str(folder / "demand.csv"), "--nodes", str(folder / "nodes.csv"), "--model", "weekly-peak")
    out = folder / "quota.yaml"
    told = CliRunner().invoke(app, ["quota", "export", *files, *options, "--out", str(out)])
    assert told.exit_code == 0, told.output
    document: dict[str, Any] = yaml.safe_load(out.read_text())
    return document


def test_a_resource_quota_is_taken_as_it_is(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    quota = exported(tmp_path, "--as", "resourcequota", "--namespace", cluster.namespace)
    where = f"/api/v1/namespaces/{cluster.namespace}/resourcequotas"
    answer = bench.client.request("POST", f"{where}{STRICT}", quota)
    assert answer["spec"]["hard"] == {"requests.nvidia.com/gpu": "14"}
    bench.client.request("POST", where, quota)


@pytest.fixture(scope="module")
def kueue(bench: Bench) -> None:
    """Kueue's definitions of a ClusterQueue, as it publishes them."""
    if shutil.which("go") is None:
        needs.lack(
            "no go, through which the schema of Kueue comes: apt-get install golang", possible_here=needs.IS_DEBIAN_ROOT
        )
    got = subprocess.run(["go", "mod", "download", "-json", KUEUE], capture_output=True, text=True, check=False)
    if got.returncode:
        needs.lack(f"no schema of Kueue: go mod download {KUEUE}", possible_here=True)
    bases = Path(json.loads(got.stdout)["Dir"]) / "config" / "components" / "crd" / "bases"
    definition = yaml.safe_load((bases / "kueue.x-k8s.io_clusterqueues.yaml").read_text())
    definition["metadata"].setdefault("annotations", {})["api-approved.kubernetes.io"] = "unapproved, of a test"
    bench.client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)


def takes(bench: Bench, where: str, queue: Manifest) -> bool:
    """Whether the API server has made the storage of a new kind ready."""
    try:
        bench.client.request("POST", f"{where}{STRICT}", queue)
    except ApiError as error:
        if error.code in (404, 429):
            return False
        raise
    return True


def test_a_cluster_queue_is_as_kueue_defines_it(bench: Bench, kueue: None, tmp_path: Path) -> None:
    queue = exported(tmp_path, "--as", "kueue")
    for version in ("v1beta1", "v1beta2"):  # the same fields in both
        queue["apiVersion"] = f"kueue.x-k8s.io/{version}"
        where = f"/apis/kueue.x-k8s.io/{version}/clusterqueues"
        wait_until(partial(takes, bench, where, queue))
        answer = bench.client.request("POST", f"{where}{STRICT}", queue)
        (flavor,) = answer["spec"]["resourceGroups"][0]["flavors"]
        assert flavor == {"name": "a100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 14}]}
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "many"
    with pytest.raises(ApiError, match="nominalQuota"):
        bench.client.request("POST", f"{where}{STRICT}", queue)
