"""Shadow mode beside the real kube-scheduler: it writes nothing and sums up what it would have changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from running import running

from gfs.live.bench.bench import Bench
from gfs.live.bench.cluster import Cluster


def test_a_shadow_binds_nothing_and_sums_up(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    bench.start_scheduler()
    cluster.add_node("n1", gpus=4)
    other: dict[str, Any] = {"scheduler": "default-scheduler"}
    with running(bench, shadow=True, record=tmp_path) as service:
        cluster.pod("ours", gpus=1)  # of gfs-scheduler: nobody takes it
        cluster.pod("first", gpus=3, **other)
        cluster.wait_bound("first", seconds=60)
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp", **other)
        cluster.wait_bound("urgent", seconds=60)  # kube-scheduler preempts, too
        told = _settled(service)
    assert not cluster.get("ours")["spec"].get("nodeName")
    assert told["same_node"] + told["other_node"] + told["kept_waiting"] >= 2
    assert told["would_evict"] >= 1, "GFS would have made room for the HP pod"
    assert service.api is not None
    assert not any(
        event["source"].get("component") == "gfs-scheduler"
        for event in cluster.client.items("events", cluster.namespace)
    )
    assert "would have evicted" in service.shadow.text()


def _settled(service: Any) -> dict[str, float]:
    """What the shadow says once it has seen all that happened."""
    import threading

    done, told = threading.Event(), {}

    def look() -> None:
        summary = service.shadow.summary()
        if summary["same_node"] + summary["other_node"] + summary["kept_waiting"] >= 2 and summary["would_evict"]:
            told.update(summary)
            done.set()
        else:
            service.controller._loop.call_later(0.05, look)

    service.controller._loop.call_soon_threadsafe(look)
    assert done.wait(30), service.shadow.summary()
    return told
