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


def opened(folder: Path) -> Recorder:
    recorder = Recorder(folder, ExecutionRules())
    recorder.open()
    return recorder


def test_times_and_work_are_those_of_the_event_log(tmp_path: Path) -> None:
    spec = NodeSpec(index=0, name="n1", gpu_model="A100", gpus=1)
    task = Task(
        index=0, name="lab/train", organization="lab", gpu_model="A100", priority=Priority.SPOT, pods=1,
        gpus_per_pod=1.0, submit_time=1000.0, checkpoint_interval=100.0,
    )  # fmt: skip
    places = [(Node(spec), 1, 1)]
    first, second = Run(task, 1, list(places), 1010.0, 1010.0), Run(task, 2, list(places), 1300.0, 1340.0)
    recorder = opened(tmp_path)
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


def spot(index: int = 0, submit_time: float = 0.0) -> Task:
    return Task(
        index=index, name="lab/train", organization="lab", gpu_model="A100", priority=Priority.SPOT, pods=1,
        gpus_per_pod=1.0, submit_time=submit_time,
    )  # fmt: skip


def rows(folder: Path, name: str = "jobs.csv") -> list[dict[str, str]]:
    return list(csv.DictReader((folder / name).read_text().splitlines()))


def test_a_task_that_was_withdrawn_has_its_time(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    recorder.record((0.0, SUBMIT, spot(), None, None))
    recorder.record((60.0, CANCEL, spot(), None, None))
    recorder.flush()
    (row,) = rows(tmp_path)
    assert (row["duration"], row["cancel_time"]) == ("60", "60"), "it would not have finished before"


def test_what_has_not_ended_is_withdrawn_when_the_cluster_goes(tmp_path: Path) -> None:
    spec = NodeSpec(index=0, name="n1", gpu_model="A100", gpus=1)
    run = Run(spot(), 1, [(Node(spec), 1, 1)], 10.0, 10.0)
    recorder = opened(tmp_path)
    recorder.record((0.0, SUBMIT, spot(), None, None))
    recorder.record((10.0, START, spot(), run, None))
    recorder.record((20.0, SUBMIT, spot(1), None, None))
    assert recorder.close(100.0) == 2
    recorder.flush([spec])
    ended = [(row["task"], row["node"]) for row in rows(tmp_path, "events.csv") if row["event"] == "cancel"]
    assert ended == [("lab/train", "n1"), ("lab/train~2", "")]
    assert [row["cancel_time"] for row in rows(tmp_path)] == ["100", "100"]


def test_two_jobs_of_one_name_are_two_tasks_also_after_a_restart(tmp_path: Path) -> None:
    for index in range(2):
        recorder = opened(tmp_path)
        recorder.record((100.0 * index, SUBMIT, spot(index), None, None))
        recorder.record((100.0 * index + 1, CANCEL, spot(index), None, None))
        recorder.flush()
    assert [row["job_name"] for row in rows(tmp_path)] == ["lab/train", "lab/train~2"]


def test_a_task_that_waited_at_a_restart_is_submitted_once(tmp_path: Path) -> None:
    before = opened(tmp_path)
    before.record((5.0, SUBMIT, spot(), None, None))
    before.flush()
    after = opened(tmp_path)
    after.record((50.0, SUBMIT, spot(7), None, None))
    after.record((60.0, CANCEL, spot(7), None, None))
    after.flush()
    assert [row["event"] for row in rows(tmp_path, "events.csv")] == ["submit", "cancel"]
    assert rows(tmp_path)[0]["submit_time"] == "5"


def test_runs_are_counted_when_they_begin_also_after_a_restart(tmp_path: Path) -> None:
    """The core counts a start that was given up before it began: its second run has number 3, the third 5."""
    places = [(Node(NodeSpec(index=0, name="n1", gpu_model="A100", gpus=1)), 1, 1)]
    runs = [Run(spot(), number, list(places), 10.0 * number, 10.0 * number) for number in (1, 3, 5)]
    recorder = opened(tmp_path)
    recorder.record((0.0, SUBMIT, spot(), None, None))
    for run, what in ((runs[0], START), (runs[0], EVICT), (runs[1], START)):
        recorder.record((run.start + (what == EVICT), what, spot(), run, None))
    recorder.flush()
    recorder = opened(tmp_path)
    for run, what in ((runs[1], EVICT), (runs[2], START), (runs[2], FINISH)):
        recorder.record((run.start + 100 * (what != START), what, spot(), run, None))
    recorder.flush()
    told = [f"{row['event']} {row['run']}" for row in rows(tmp_path, "events.csv")]
    assert told == ["submit 0", "start 1", "evict 1", "start 2", "evict 2", "start 3", "finish 3"]
    assert [run.number for run in runs] == [1, 3, 5]
