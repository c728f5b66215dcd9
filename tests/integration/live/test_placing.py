"""Pods of ours on a real API server: who is placed where, and what is said of who is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import running

from gfs.live.bench.bench import Bench
from gfs.live.bench.cluster import Cluster, node_of


def test_pods_of_both_classes_are_bound_and_run(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=8)
    with running(bench):
        cluster.pod("service", gpus=2, priority_class="gfs-hp")
        cluster.pod("batch", gpus=4)
        assert cluster.wait_bound("service", "batch") == {"service": "n1", "batch": "n1"}
        cluster.wait_phase("Running", "service", "batch")
    pod = cluster.get("batch")
    assert pod["metadata"]["annotations"]["gfs.dev/task"] == f"{cluster.namespace}/batch"
