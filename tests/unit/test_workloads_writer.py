"""Writing a workload, and reading it back."""

from __future__ import annotations

import errno
import os
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Kind, Task
from gfs.domain.workload import Workload
from gfs.workloads import generate, read_trace, write_trace


def as_rows(workload: Workload) -> list[tuple[object, ...]]:
    return [tuple(getattr(task, field.name) for field in fields(Task)) for task in workload.tasks]


def small(name: str = "a", **changes) -> Workload:
    task = Task(
        0,
        name,
        "org",
        "A100",
        Kind.SPOT,
        2,
        0.25,
        **({"submit_time": 1.5, "duration": 60.0} | changes),
        cpus_per_pod=4.0,
    )
    return Workload((task,), (NodeSpec(0, "n,1", "A100", 8, 128.0),))


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
