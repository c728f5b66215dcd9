"""What the judge of a race reads from a recorded watch, with numbers that can be worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_judge import judged, quantile, seconds

MARK = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]


def line(at: float, name: str, word: str = "MODIFIED", **seen: Any) -> bytes:
    """A line of the watch: `node`, `phase`, `gpus`, `hp`, `group`, `interval`, `evicted`."""
    metadata: dict[str, Any] = {"uid": f"uid-{name}", "name": name, "namespace": "race"}
    if "interval" in seen:
        metadata["annotations"] = {"gfs.dev/checkpoint-interval": seen["interval"]}
    if seen.get("evicted"):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    asked = {"requests": {"nvidia.com/gpu": str(seen.get("gpus", 1)), "cpu": "1"}}
    spec: dict[str, Any] = {"priorityClassName": "gfs-hp" if seen.get("hp") else "gfs-spot"}
    spec["containers"] = [{"name": "main", "resources": asked}]
    if "node" in seen:
        spec["nodeName"] = seen["node"]
    if "group" in seen:
        spec["schedulingGroup"] = {"podGroupName": seen["group"]}
    status = {"phase": seen.get("phase", "Pending"), "conditions": MARK if seen.get("evicted") else []}
    item = {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
    return json.dumps({"type": word, "received": at, "object": item}).encode()


def group(name: str, minimum: int) -> bytes:
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    item = {"kind": "PodGroup", "metadata": {"uid": name, "name": name, "namespace": "race"}, "spec": spec}
    return json.dumps({"type": "ADDED", "received": 0.0, "object": item}).encode()


def test_rate_and_waits_count_from_the_first_line_to_the_first_with_a_node() -> None:
    lines = [line(10.0 + i, f"a-{i}", "ADDED") for i in range(4)]
    lines += [line(12.0 + 2 * i, f"a-{i}", node="n") for i in range(4)]
    lines += [line(99.0, "a-0", node="n", phase="Running"), line(5.0, "other", "ADDED", node="n")]
    figures = judged(lines).figures("a-")
    assert (figures["pods"], figures["bound"]) == (4, 4)
    assert figures["bound_per_second"] == 0.5, "4 pods from second 10 to second 18"
    assert (figures["wait_p50"], figures["wait_p99"]) == (4.0, 5.0), "waits are 2, 3, 4 and 5 s"


def test_lost_work_is_the_time_since_the_last_checkpoint() -> None:
    """At 60 times the speed: 25 s are 25 min, of which 5 are after the second checkpoint; 4 GPUs lose 20 GPU-min."""
    first = {"gpus": 4, "interval": "10m", "node": "n"}
    lines = [line(0.0, "a", "ADDED", **first), line(100.0, "a", phase="Running", **first)]
    lines += [line(125.0, "a", phase="Running", evicted=True, **first)]
    lines += [line(126.0, "a", "DELETED", phase="Failed", evicted=True, **first)]
    figures = judged(lines, speed=60.0).figures()
    assert (figures["evicted"], figures["tasks_evicted"], figures["lost_their_work"]) == (1, 1, 1)
    assert figures["lost_gpu_hours"] == pytest.approx(20 / 60, abs=0.01)


def test_who_makes_no_checkpoints_loses_all() -> None:
    lines = [line(0.0, "a", "ADDED", node="n", phase="Running"), line(3600.0, "a", node="n", evicted=True)]
    assert judged(lines).figures()["lost_gpu_hours"] == 1.0


def test_a_pod_that_is_deleted_without_the_mark_is_no_victim() -> None:
    lines = [line(0.0, "a", "ADDED", node="n", phase="Running"), line(9.0, "a", "DELETED", node="n", phase="Running")]
    assert judged(lines).figures()["evicted"] == 0


def test_the_rest_of_a_gang_loses_its_work_with_the_first_victim() -> None:
    """Two pods of 2 GPUs; one goes after 60 s: 240 GPU-seconds are lost, and a second victim later adds nothing."""
    gang = {"gpus": 2, "group": "g", "node": "n"}
    lines = [group("g", 2), *(line(0.0, name, "ADDED", phase="Running", **gang) for name in ("g-0", "g-1"))]
    lines += [line(60.0, "g-0", phase="Running", evicted=True, **gang), line(90.0, "g-1", evicted=True, **gang)]
    figures = judged(lines).figures()
    assert (figures["evicted"], figures["tasks_evicted"], figures["lost_their_work"]) == (2, 1, 2)
    assert figures["lost_gpu_hours"] == round(240 / 3600, 2)


def test_a_gang_works_from_when_its_last_pod_runs() -> None:
    """Two pods of 2 GPUs, the second runs 20 s later; at 60 s 4 x 40 GPU-seconds are lost. Before that, nothing."""
    gang = {"gpus": 2, "group": "g", "node": "n"}
    lines = [group("g", 2), line(0.0, "g-0", "ADDED", phase="Running", **gang), line(0.0, "g-1", "ADDED", **gang)]
    late = [line(20.0, "g-1", phase="Running", **gang), line(60.0, "g-0", phase="Running", evicted=True, **gang)]
    assert judged([*lines, *late]).figures()["lost_gpu_hours"] == round(160 / 3600, 2)
    early = line(10.0, "g-0", phase="Running", evicted=True, **gang)
    assert judged([*lines, early]).figures()["lost_gpu_hours"] == 0.0


def test_half_placed_is_bound_in_part_for_more_than_five_seconds() -> None:
    """g has one of two pods bound from 1 to 21 s (3 GPUs: 60 GPU-s); h's second follows after 4 s: that is placing."""
    lines = [group("g", 2), group("h", 2)]
    for name in ("g", "h"):
        lines += [line(0.0, f"{name}-{i}", "ADDED", gpus=3, group=name) for i in (0, 1)]
    bound = [(1.0, "g-0"), (1.0, "h-0"), (5.0, "h-1"), (21.0, "g-1"), (30.0, "h-1")]
    lines += [line(at, name, gpus=3, group=name[0], node="n") for at, name in bound]
    figures = judged(lines).figures()
    assert (figures["gangs"], figures["gangs_half_placed"], figures["half_placed_gpu_seconds"]) == (2, 1, 60.0)
    assert judged(lines).half_placed(since=11.0) == (1, 30.0), "10 of its 20 s are left then"
    assert judged(lines).half_placed(since=17.0) == (0, 0.0)


def test_the_end_of_the_record_counts_though_nothing_happened_before_it() -> None:
    lines = [
        group("g", 2),
        *(line(0.0, f"g-{i}", "ADDED", group="g") for i in (0, 1)),
        line(1.0, "g-0", group="g", node="n"),
    ]
    assert judged(lines).half_placed() == (0, 0.0)
    end = {"kind": "End", "metadata": {"uid": "", "name": ""}}
    lines.append(json.dumps({"type": "END", "received": 31.0, "object": end}).encode())
    assert judged(lines).half_placed() == (1, 30.0)


def test_a_gang_whose_first_pods_have_succeeded_is_whole() -> None:
    lines = [group("g", 2), *(line(0.0, f"g-{i}", "ADDED", group="g", node="n") for i in (0, 1))]
    lines += [line(10.0, "g-0", group="g", node="n", phase="Succeeded"), line(99.0, "g-1", group="g", node="n")]
    assert judged(lines).figures()["gangs_half_placed"] == 0


def test_hp_that_was_never_bound_is_told() -> None:
    lines = [line(0.0, "a", "ADDED", hp=True), line(0.0, "b", "ADDED", hp=True), line(2.0, "b", hp=True, node="n")]
    figures = judged(lines).figures()
    assert (figures["hp_never_bound"], figures["hp_wait_mean"]) == (1, 2.0)


def test_durations_and_quantiles() -> None:
    assert [seconds(text) for text in ("90", "30m", "2h", "soon")] == [90.0, 1800.0, 7200.0, float("inf")]
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([], 0.99) == 0.0
