"""The trace that is recorded says the same as the event log beside it."""

from __future__ import annotations

import csv
from pathlib import Path

from gfs.core.actions import CANCEL, EVICT, FINISH, START, SUBMIT
from gfs.core.node import Node
from gfs.core.run import Run
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.live.record import Recorder


def test_times_and_work_are_those_of_the_event_log(tmp_path: Path) -> None:
    spec = NodeSpec(index=0, name="n1", gpu_model="A100", gpus=1)
    task = Task(
        index=0, name="lab/train", organization="lab", gpu_model="A100", priority=Priority.SPOT, pods=1,
        gpus_per_pod=1.0, submit_time=1000.0, checkpoint_interval=100.0,
    )  # fmt: skip
    places = [(Node(spec), 1, 1)]
    first, second = Run(task, 1, list(places), 1010.0, 1010.0), Run(task, 2, list(places), 1300.0, 1340.0)
    recorder = Recorder(tmp_path, ExecutionRules())
    submitted = 1000.0 + 1 / 3
    recorder.record((submitted, SUBMIT, task, None, None))
    recorder.record((1020.0, START, task, first, None))  # planned ten seconds earlier
    recorder.record((1270.0, EVICT, task, first, None))  # 250 s, of which two checkpoints are left
    recorder.record((1310.0, START, task, second, None))
    recorder.record((1410.0, FINISH, task, second, None))  # 40 s go to the restart
    recorder.flush([spec])
    (row,) = csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines())
    assert float(row["submit_time"]) == submitted
    assert float(row["duration"]) == 200.0 + 60.0


def test_a_task_that_waits_over_a_restart_is_submitted_once(tmp_path: Path) -> None:
    task = Task(
        index=0, name="lab/train", organization="lab", gpu_model="A100", priority=Priority.SPOT, pods=1,
        gpus_per_pod=1.0, submit_time=0.0,
    )  # fmt: skip
    spec = NodeSpec(index=0, name="n1", gpu_model="A100", gpus=1)
    run = Run(task, 1, [(Node(spec), 1, 1)], 1010.0, 1010.0)
    for at in (1000.0, 1005.0):  # the second time after a restart that knew nothing of it
        recorder = Recorder(tmp_path, ExecutionRules())
        recorder.record((at, SUBMIT, task, None, None))
        recorder.flush()
    recorder.record((1010.0, START, task, run, None))
    recorder.record((1110.0, FINISH, task, run, None))
    recorder.flush()
    events = [row["event"] for row in csv.DictReader((tmp_path / "events.csv").read_text().splitlines())]
    assert events == ["submit", "start", "finish"]
    (row,) = csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines())
    assert float(row["submit_time"]) == 1000.0
    again = Recorder(tmp_path, ExecutionRules())
    again.record((2000.0, SUBMIT, task, None, None))
    again.flush()
    assert (tmp_path / "events.csv").read_text().count("submit") == 2, "another one of the same name"


def test_a_task_that_was_withdrawn_is_no_part_of_the_trace(tmp_path: Path) -> None:
    task = Task(
        index=0, name="lab/train", organization="lab", gpu_model="A100", priority=Priority.SPOT, pods=1,
        gpus_per_pod=1.0, submit_time=0.0,
    )  # fmt: skip
    recorder = Recorder(tmp_path, ExecutionRules())
    recorder.record((0.0, SUBMIT, task, None, None))
    recorder.record((1.0, CANCEL, task, None, None))
    recorder.flush()
    assert len((tmp_path / "jobs.csv").read_text().splitlines()) == 1
