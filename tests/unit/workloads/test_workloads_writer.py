"""Writing a workload, and reading it back."""

from __future__ import annotations

import errno
import os
from dataclasses import fields, replace
from math import inf
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gfs.domain.errors import InputError
from gfs.domain.node import NodeEvent, NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.workloads import generate, read_trace, write_node_events, write_trace


def as_rows(workload: Workload) -> list[tuple[object, ...]]:
    return [
        (*(getattr(task, field.name) for field in fields(Task)), duration)
        for task, duration in zip(workload.tasks, workload.durations, strict=True)
    ]


def small(name: str = "a", duration: float = 60.0, **changes) -> Workload:
    task = Task(
        0,
        name,
        "org",
        "A100",
        Priority.SPOT,
        2,
        0.25,
        **({"submit_time": 1.5} | changes),
        cpus_per_pod=4.0,
    )
    return Workload((task,), (NodeSpec(0, "n,1", "A100", 8, 128.0),), durations=(duration,))


def test_the_files_read_as_expected(tmp_path: Path) -> None:
    jobs, nodes = write_trace(small(), tmp_path / "new" / "folder")
    assert jobs.read_text() == (
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
        "a,org,A100,4,0.25,2,1.5,60,Spot\n"
    )
    assert nodes.read_text() == 'node_name,gpu_model,gpu_capacity_num,cpu_num\n"n,1","A100",8,128\n'
    assert sorted(p.name for p in jobs.parent.iterdir()) == ["jobs.csv", "nodes.csv"]


def test_optional_columns_are_written_where_a_task_differs_from_the_default(tmp_path: Path) -> None:
    jobs, _ = write_trace(small(guarantee_hours=4.0), tmp_path)
    header, row = jobs.read_text().splitlines()
    assert header.endswith(",job_type,guarantee_hours")
    assert row.endswith(",Spot,4")


def test_cancellations_are_written_if_somebody_cancels(tmp_path: Path) -> None:
    two = Workload(
        tuple(Task(i, f"t{i}", "org", "A100", Priority.HP, 1, 1.0, float(i)) for i in range(3)),
        small().nodes,
        durations=(60.0, 60.0, 60.0),
        cancel_times=(inf, 30.0, 2.125),
    )
    jobs, nodes = write_trace(two, tmp_path)
    header, *rows = jobs.read_text().splitlines()
    assert header.endswith(",job_type,cancel_time")
    assert [row.rpartition(",")[2] for row in rows] == ["", "30", "2.125"]
    assert read_trace(jobs, nodes).workload.cancel_times == two.cancel_times
    never = replace(two, cancel_times=(inf, inf, inf))
    assert "cancel_time" not in write_trace(never, tmp_path)[0].read_text()


def test_node_events_stand_beside_the_trace(tmp_path: Path) -> None:
    events = (NodeEvent(30.0, "n,1", "fail"), NodeEvent(99.5, "n,1", "repair"))
    jobs, nodes = write_trace(replace(small(), node_events=events), tmp_path)
    file = tmp_path / "node_events.csv"
    assert file.read_text() == 'time,node,event\n"30","n,1","fail"\n"99.5","n,1","repair"\n'
    assert read_trace(jobs, nodes, node_events=file).workload.node_events == events
    write_node_events((), file)
    assert file.read_text() == "time,node,event\n"
    assert read_trace(jobs, nodes, node_events=file).workload.node_events == ()


def test_a_preset_comes_back_as_it_was(tmp_path: Path) -> None:
    workload = generate("demo")
    back = read_trace(*write_trace(workload, tmp_path)).workload
    assert as_rows(back) == as_rows(workload)
    assert back.nodes == workload.nodes


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1).filter(
    lambda text: text.lower() != "nan"
)
times = st.floats(0, 1e9, allow_nan=False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(names, times, times)
def test_any_name_and_time_comes_back(tmp_path: Path, name: str, submit: float, duration: float) -> None:
    workload = small(name, submit_time=submit, duration=duration)
    assert as_rows(read_trace(*write_trace(workload, tmp_path)).workload) == as_rows(workload)


def test_a_full_disk_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trace(small(), tmp_path)
    before = (tmp_path / "jobs.csv").read_bytes()

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match=r"jobs\.csv: cannot be written: No space left on device"):
        write_trace(small("b"), tmp_path)
    assert (tmp_path / "jobs.csv").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["jobs.csv", "nodes.csv"]


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        write_trace(small(), tmp_path / "file")
