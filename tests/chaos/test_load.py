"""GFS under load: a flood of pods, an hour of churn made faster, and a storm in which HP asks for the whole pool.

`GFS_LOAD=full` is 1,000 nodes and 20,000 pods; without it a tenth, which shows the same in a few minutes. Bounds are
counts and ratios to what the API server does in the same time: both share the machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loading import Loaded, Watcher, nodes, quantile

from gfs.live.bench import binaries, manifests
from gfs.live.bench.bench import Bench
from gfs.live.bench.client import Manifest
from gfs.live.bench.recorder import Recorder

AUDIT = Path(__file__).resolve().parents[3] / "shared" / "tools" / "audit_cluster.py"
FULL = os.environ.get("GFS_LOAD") == "full"
NODES, PODS = (1000, 20_000) if FULL else (100, 2_000)
GPUS = 8 * NODES
SPACE = "load"
PATIENCE = 1800.0 if FULL else 600.0
"""Seconds for everything to come to an end: no bound, but where a hang is seen."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    _, missing = binaries.find()
    if missing:
        pytest.skip(binaries.missing_text(missing))
    folder = tmp_path_factory.mktemp("load")
    watcher, watch = Watcher(), folder / "watch.jsonl"
    with Bench() as bench:
        with Recorder(bench.client, watch, listener=watcher):
            bench.client.create("namespaces", manifests.namespace(SPACE))
            loaded = Loaded(bench, folder, watcher)
            loaded.create(nodes(NODES))
            with loaded.controller():
                yield loaded
        if AUDIT.exists():
            words = [sys.executable, str(AUDIT), "--watch", str(watch), "--gang-seconds", "120"]
            audited = subprocess.run(words, capture_output=True, text=True, check=False)
            print(audited.stdout.splitlines()[-1])
            assert audited.returncode == 0, audited.stdout[-4000:] + audited.stderr


def pods(name: str, count: int, **pod: object) -> list[Manifest]:
    return [manifests.pod(f"{name}-{i}", SPACE, **pod) for i in range(count)]


def test_a_flood(loaded: Loaded) -> None:
    """Two and a half pods for every GPU, as fast as the API server takes them: bare pods of both classes, gangs of
    four, and one Job of many pods. Each runs for a few seconds; all are bound once and end."""
    watcher, bare, gangs, jobs = loaded.watcher, PODS * 7 // 10, PODS // 20, PODS // 10
    flood = [*pods("flood-spot", bare // 2, run_for=5, grace=1)]
    flood += pods("flood-hp", bare - bare // 2, run_for=5, grace=1, priority_class="gfs-hp")
    groups = [manifests.pod_group(f"flood-gang-{i}", SPACE, 4) for i in range(gangs)]
    for i in range(gangs):
        flood += pods(f"flood-gang-{i}", 4, group=f"flood-gang-{i}", run_for=5, grace=1)
    alone = loaded.create(groups)  # what the API server does without us: nobody waits for a PodGroup
    before = loaded.usage()
    loaded.create([manifests.job("flood-job", SPACE, pods=jobs, run_for=5, grace=1)])
    took = loaded.create(flood)
    print(f"{len(flood)} pods created in {took:.1f} s ({len(flood) / took:.0f}/s); groups {gangs / alone:.0f}/s")
    watcher.wait(lambda: len(watcher.pods) >= PODS and not watcher.alive(), PATIENCE)
    after = loaded.usage()
    flooded = watcher.named("flood-")
    assert len(flooded) >= PODS
    assert not [seen for seen in flooded if not seen.node], "each was bound"
    cpu, bound = after.since(before), after.counted(before, "gfs_pods_bound_total")
    requests = after.counted(before, "gfs_api_requests_total") / bound
    print(f"CPU seconds {cpu}, {1000 * cpu['gfs'] / bound:.1f} ms of ours a pod, {requests:.2f} requests a pod")
    print(f"memory {after.memory / 2**20:.0f} MiB ({(after.memory - before.memory) / PODS / 1024:.1f} KiB a pod)")
    decided, seconds = (after.counted(before, f"gfs_{name}_total") for name in ("decisions", "decision_seconds"))
    print(f"{decided:.0f} decisions in {seconds:.1f} s, mean {1000 * seconds / decided:.1f} ms")
    loaded.delete(watcher.done)
    watcher.done.clear()
