"""A trace from pods as kubectl writes them, or from a recorded watch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from objects import node, owned, pod

from gfs.domain.errors import InputError
from gfs.records import Conversion
from gfs.records.kubernetes import read_pods

GROUP = {"schedulingGroup": {"podGroupName": "gang"}}


def at(hours: float) -> str:
    return f"2026-01-01T{int(hours):02}:{round(hours % 1 * 60):02}:00Z"


def ran(item: dict[str, Any], start: float, end: float | None, phase: str = "Succeeded") -> dict[str, Any]:
    """The pod on n1, from one hour to another."""
    item["spec"]["nodeName"] = "n1"
    item["status"]["startTime"] = at(start)
    if end is None:
        item["status"]["phase"] = "Running"
        item["status"]["containerStatuses"] = [{"state": {"running": {"startedAt": at(start)}}}]
    else:
        ended = {"startedAt": at(start), "finishedAt": at(end)}
        item["status"] |= {"phase": phase, "containerStatuses": [{"state": {"terminated": ended}}]}
    return item


def read(folder: Path, *pods: dict[str, Any], **options: Any) -> Conversion:
    (folder / "pods.json").write_text(json.dumps({"kind": "PodList", "items": pods}))
    (folder / "nodes.json").write_text(json.dumps({"kind": "NodeList", "items": [node(), node("cpu-only", gpus=0)]}))
    return read_pods(folder / "pods.json", folder / "nodes.json", **options)


def test_a_pod_is_a_task_that_lasts_as_long_as_it_ran(tmp_path: Path) -> None:
    found = read(tmp_path, ran(pod("a", gpus=2, created=at(1)), 1.5, 3.5))
    (task,) = found.workload.tasks
    assert (task.name, task.organization, task.gpu_model, task.gpus, task.is_spot) == (
        "lab/a",
        "lab",
        "A100",
        2.0,
        True,
    )
    assert (task.submit_time, found.workload.durations, task.cpus_per_pod) == (3600.0, (7200.0,), 0.5)
    assert found.workload.capacity() == {"A100": 8}


def test_a_pod_created_again_after_an_eviction_is_the_same_task(tmp_path: Path) -> None:
    first = ran(owned("t-1", created=at(1)), 1, 2, "Failed")
    second = ran(owned("t-2", created=at(2)), 3, 5)
    found = read(tmp_path, first, second)
    assert [(t.name, t.submit_time) for t in found.workload.tasks] == [("lab/train", 3600.0)]
    assert found.workload.durations == (7200.0,)
    assert any("several times" in guess for guess in found.guesses)


def test_pods_of_one_job_that_run_side_by_side_are_tasks_of_their_own(tmp_path: Path) -> None:
    found = read(tmp_path, *(ran(owned(f"t-{i}", created=at(1)), 1, 2) for i in range(3)))
    assert [t.name for t in found.workload.tasks] == ["lab/train", "lab/train-2", "lab/train-3"]


def test_a_pod_group_is_a_gang(tmp_path: Path) -> None:
    found = read(tmp_path, *(ran(pod(f"g-{i}", gpus=4, created=at(1), **GROUP), 1, 2 + i) for i in range(2)))
    (task,) = found.workload.tasks
    assert (task.name, task.pods, task.gpus_per_pod, found.workload.durations) == ("lab/gang", 2, 4.0, (7200.0,))


def test_a_gang_that_was_evicted_and_came_back_has_as_many_pods(tmp_path: Path) -> None:
    before = [ran(owned(f"g-{i}", gpus=4, created=at(1), **GROUP), 1, 2, "Failed") for i in range(2)]
    after = [ran(owned(f"h-{i}", gpus=4, created=at(2), **GROUP), 3, 4) for i in range(2)]
    found = read(tmp_path, *before, *after)
    assert [(t.pods, t.gpus_per_pod) for t in found.workload.tasks] == [(2, 4.0)]
    assert found.workload.durations == (3600.0,)


def test_other_priority_classes_by_name_or_pattern(tmp_path: Path) -> None:
    pods = [ran(pod(cls, cls=cls, created=at(1)), 1, 2) for cls in ("gfs-hp", "preemptible", "batch")]
    assert [t.is_spot for t in read(tmp_path, *pods).workload.tasks] == [
        False,
        False,
        True,
    ]  # batch, gfs-hp, preemptible
    told = read(tmp_path, *pods, spot=["bat*"])
    assert [t.is_spot for t in told.workload.tasks] == [True, False, False]


def test_a_watch_knows_pods_that_are_gone(tmp_path: Path) -> None:
    item = ran(owned("t", created=at(1)), 1, None)
    lines = [
        {"type": "ADDED", "object": {**node(), "kind": "Node"}},
        {"type": "ADDED", "object": {**item, "kind": "Pod"}},
        {"type": "DELETED", "received": 1767234600.0, "object": {**item, "kind": "Pod"}},  # 2026-01-01 02:30 UTC
    ]
    (tmp_path / "watch.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = read_pods(tmp_path / "watch.jsonl", None)
    assert found.workload.durations == (5400.0,)


def test_what_has_no_place_in_a_trace_is_counted(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        ran(pod("a", created=at(1)), 1, None),
        pod("waiting", created=at(4)),
        ran(pod("cpu", gpus=0, created=at(1)), 1, 2),
    )
    assert dict(found.left_out) == {"never ran": 1, "asks for no GPU": 1}
    assert found.workload.durations == (3 * 3600.0,)  # it still runs at four, the latest moment there is
    assert any("still run" in guess for guess in found.guesses)


def test_records_may_be_gzipped(tmp_path: Path) -> None:
    item = {**ran(pod("a", created=at(1)), 1, 2), "kind": "Pod"}
    lines = "\n".join(map(json.dumps, ({**node(), "kind": "Node"}, item)))
    (tmp_path / "watch.json.gz").write_bytes(gzip.compress(lines.encode()))
    assert read_pods(tmp_path / "watch.json.gz", None).workload.durations == (3600.0,)


@pytest.mark.parametrize(
    ("content", "said"), [("", "empty"), ("{}\n{nope", "line 2 is not JSON"), ("[1]", "holds list")]
)
def test_files_that_are_something_else(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "pods.json").write_text(content)
    with pytest.raises(InputError, match=said):
        read_pods(tmp_path / "pods.json", None)


def test_the_sample_of_the_guide() -> None:
    """A gang of two hours, a server that waited for 40 minutes and still runs, and a job that was evicted once."""
    samples = Path(__file__).parents[3] / "examples" / "records"
    found = read_pods(samples / "pods.json", samples / "pod-nodes.json").workload
    assert [(t.name, t.is_spot, t.pods, t.gpus, d) for t, d in zip(found.tasks, found.durations, strict=True)] == [
        ("vision/train", False, 2, 16, 7200),
        ("vision/server", False, 1, 1, 10200),
        ("language/scan", True, 1, 4, 5400),
    ]
