"""The trace that is recorded says the same as the event log beside it."""

from __future__ import annotations

import asyncio
import csv
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import pytest
from objects import group, pod
from story import bound, play

from builders import nodes as machines
from fake_cluster import FakeServer, Replica
from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import CANCEL, EVICT, FINISH, LOST, START, SUBMIT
from gfs.core.node import WHOLE, Node, Place
from gfs.core.run import Run
from gfs.dashboard.live_life import read_life
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.live import service as service_module
from gfs.live.lead import Leader
from gfs.live.record import Recorder
from gfs.live.service import LiveOptions, Service
from gfs.live.settings import LiveSettings
from gfs.telemetry.decisions import ExpectedNote, NodeNote, read_decisions
from gfs.telemetry.event_log import EVENTS
from gfs.workloads.readers.quota_log import read_quota
from waiting import LONGEST


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
    places: list[Place] = [(Node(spec), task, 1, WHOLE)]
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
    run = Run(spot(), 1, [(Node(spec), spot(), 1, WHOLE)], 10.0, 10.0)
    recorder = opened(tmp_path)
    recorder.record((0.0, SUBMIT, spot(), None, None))
    recorder.record((10.0, START, spot(), run, None))
    recorder.record((20.0, SUBMIT, replace(spot(1), name="lab/other"), None, None))
    recorder.close(100.0)
    recorder.flush([spec])
    ended = [(row["task"], row["node"]) for row in rows(tmp_path, "events.csv") if row["event"] == "cancel"]
    assert ended == [("lab/train", "n1"), ("lab/other", "")]
    assert [row["cancel_time"] for row in rows(tmp_path)] == ["100", "100"]


def test_two_jobs_of_one_name_are_two_tasks_also_after_a_restart(tmp_path: Path) -> None:
    for index in range(2):
        recorder = opened(tmp_path)
        recorder.record((100.0 * index, SUBMIT, spot(index), None, None))
        recorder.record((100.0 * index + 1, CANCEL, spot(index), None, None))
        recorder.flush()
    assert [row["job_name"] for row in rows(tmp_path)] == ["lab/train", "lab/train~2"]


def test_the_life_of_a_task_is_that_of_the_last_one_of_its_name(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    for time in (0.0, 100.0):
        recorder.record((time, SUBMIT, spot(), None, None))
        recorder.record((time + 1, CANCEL, spot(), None, None))
    recorder.record((200.0, SUBMIT, replace(spot(), name="lab/training"), None, None))
    recorder.flush()
    log = tmp_path / "events.csv"
    for names in (["lab/train"], ["lab/nothing", "lab/train~2", "lab/training"]):
        name, life = read_life(log, names, 300.0)
        assert name == "lab/train~2"
        assert [(step.time, step.what) for step in life] == [
            (100.0, "submitted"), (100.0, "waited"), (101.0, "cancelled"),
        ]  # fmt: skip
    assert [step.length for step in read_life(log, ["lab/training"], 300.0)[1]] == [0.0, 100.0]
    assert read_life(log, ["lab/nothing"], 300.0) == ("", [])


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
    node = Node(NodeSpec(index=0, name="n1", gpu_model="A100", gpus=1))
    places: list[Place] = [(node, spot(), 1, WHOLE)]
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


def began(number: int = 1, index: int = 0, time: float = 10.0) -> Run:
    spec, task = NodeSpec(index=0, name="n1", gpu_model="A100", gpus=4), spot(index)
    return Run(task, number, [(Node(spec), task, 1, WHOLE)], time, time)


def told(folder: Path) -> list[str]:
    """Event, task and node of each row: GPUs have no numbers in the log of a cluster."""
    assert {row["cards"] for row in rows(folder, "events.csv")} == {""}
    return [f"{row['event']} {row['task']} {row['node']}".strip() for row in rows(folder, "events.csv")]


def killed(folder: Path) -> Recorder:
    """A recorder that goes on after one that had written that a task began, and nothing more."""
    before = opened(folder)
    before.record((0.0, SUBMIT, spot(), None, None))
    before.record((10.0, START, spot(), began(), None))
    before.flush()
    return opened(folder)


def test_a_run_that_goes_on_after_a_restart_ends_as_it_began(tmp_path: Path) -> None:
    after = killed(tmp_path)
    after.reconcile(100.0, [began(index=7)], ["lab/train"], ())
    after.record((110.0, FINISH, spot(7), began(index=7), None))
    after.flush()
    assert told(tmp_path) == ["submit lab/train", "start lab/train n1", "finish lab/train n1"]
    assert rows(tmp_path)[0]["duration"] == "100", "since second 10, as the log says"


def test_a_log_with_numbers_of_gpus_goes_on_without(tmp_path: Path) -> None:
    """An earlier version wrote them. A pod of 2 GPUs holds 2 of the 4: another one of 2 fits beside it, no third."""
    before, task = opened(tmp_path), replace(spot(), gpus_per_pod=2.0)
    before.record((10.0, START, task, at(task, 1), None))
    before.flush()
    log = tmp_path / "events.csv"
    header, submit, start = log.read_text().splitlines()
    log.write_text("\n".join([header, submit, start.replace('"n1","",2', '"n1","2+3",2'), ""]))
    assert [row["cards"] for row in rows(tmp_path, "events.csv")] == ["", "2+3"]
    after = opened(tmp_path)
    after.reconcile(100.0, [at(replace(task, index=7), 1)], (), ())
    second, third = (replace(task, index=index, name=f"lab/t{index}") for index in (8, 9))
    after.record((110.0, START, second, at(second, 1, 110.0), None))
    assert after._state.free("n1") == 0
    after.record((120.0, START, third, at(third, 1, 120.0), None))
    assert after._state.free("n1") == -2
    after.record((130.0, FINISH, task, at(task, 1), None))
    assert after._state.free("n1") == 0
    after.flush()
    last = rows(tmp_path, "events.csv")[-1]
    assert (last["event"], last["node"], last["cards"]) == ("finish", "n1", "")


def test_a_run_that_was_not_seen_to_end_is_lost_done_or_withdrawn(tmp_path: Path) -> None:
    for name, waiting, done, ended in (
        ("waits", ["lab/train"], (), "lost"),
        ("done", (), ["lab/train"], "finish"),
        ("gone", (), (), "cancel"),
    ):
        folder = tmp_path / name
        after = killed(folder)
        after.reconcile(100.0, (), waiting, done)
        after.flush()
        assert told(folder)[2:] == [f"{ended} lab/train n1"], name


def test_a_task_that_waits_again_has_lost_its_run_though_it_was_heard_of_before_that_was_settled(
    tmp_path: Path,
) -> None:
    after = killed(tmp_path)
    after.record((100.0, SUBMIT, spot(7), None, None))
    after.reconcile(100.0, (), ["lab/train"], ())
    after.flush()
    assert told(tmp_path)[2:] == ["lost lab/train n1"]


def test_a_run_of_which_only_the_end_is_seen_has_a_beginning(tmp_path: Path) -> None:
    after = killed(tmp_path)
    after.reconcile(100.0, [began(index=7)], ["lab/train"], ())
    other = Task(
        index=8, name="lab/other", organization="lab", gpu_model="A100", priority=Priority.SPOT, pods=1,
        gpus_per_pod=1.0, submit_time=0.0,
    )  # fmt: skip
    after.record((120.0, FINISH, other, began(index=8), None))
    after.flush()
    assert told(tmp_path)[2:] == ["submit lab/other", "start lab/other n1", "finish lab/other n1"]


def test_time_does_not_go_back_though_the_clock_was_set_back(tmp_path: Path) -> None:
    after = killed(tmp_path)
    after.record((-3600.0, EVICT, spot(), began(), None))
    after.flush()
    assert [row["time"] for row in rows(tmp_path, "events.csv")] == ["0", "10", "10"]


def test_a_node_that_has_shrunk_or_gone_is_recorded_as_large_as_it_was(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    large, small = (NodeSpec(index=0, name="n1", gpu_model="A100", gpus=gpus, cpus=64.0) for gpus in (8, 2))
    for nodes in ([large], [small], []):
        recorder.flush(nodes)
    again = opened(tmp_path)
    again.flush([small])
    assert [row["gpu_capacity_num"] for row in rows(tmp_path, "nodes.csv")] == ["8"]


def test_what_decisions_went_by_is_appended_by_whole_lines(tmp_path: Path) -> None:
    one, two = NodeNote(5.0, "n1", closed=True), ExpectedNote(6.0, "lab/train", 900.0)
    recorder = opened(tmp_path)
    recorder.note(one)
    recorder.flush()
    file = tmp_path / "decisions.jsonl"
    assert read_decisions(file) == [one]
    file.write_text(file.read_text() + '{"what":"node","ti')  # killed while it wrote
    again = opened(tmp_path)
    again.note(two)
    again.drop()  # another replica writes by now
    again.note(two)
    again.flush()
    assert read_decisions(file) == [one]
    again.open()
    again.note(two)
    again.flush()
    assert read_decisions(file) == [one, two]


def test_the_quota_is_recorded_as_a_simulation_writes_it(tmp_path: Path) -> None:
    scheduler = build_scheduler("static", machines(8), Parameters(quota_share=0.5), period=1000.0, guarantees={1.0})
    pool, recorder = scheduler.pools["A100"], opened(tmp_path)
    for now in (300.0, 600.0):
        recorder.note_quota(now, pool.state, pool.policy)
        recorder.flush()
    told = read_quota(tmp_path / "quota.csv")
    assert told["time"].to_pylist() == [300.0, 600.0]
    assert told["quota"].to_pylist() == [4.0, 4.0]


def test_a_replica_that_slept_through_its_lease_leaves_the_files_to_the_next_one(tmp_path: Path) -> None:
    """Its instant began at 1 s, then it was paused. Its lease ends at 15 s: at 20 s it may be another's."""
    asyncio.run(paused_until_its_lease_has_ended(tmp_path))


async def paused_until_its_lease_has_ended(tmp_path: Path) -> None:
    service, clock = Service(LiveOptions(record=tmp_path)), [1.0]
    nobody = cast(Any, None)
    service.leader = Leader(nobody, LiveSettings(), "one", "default", lambda: clock[0])
    service.leader._until = 15.0
    service.recorder.open()
    service.recorder.record((1.0, SUBMIT, spot(), None, None))
    clock[0] = 20.0
    writing = asyncio.create_task(service._every(0.0, service._write))
    for _ in range(10):
        await asyncio.sleep(0)
    assert rows(tmp_path, "events.csv") == []
    clock[0] = 5.0
    async with asyncio.timeout(LONGEST):
        while not rows(tmp_path, "events.csv"):
            await asyncio.sleep(0.01)
    writing.cancel()
    assert [row["event"] for row in rows(tmp_path, "events.csv")] == ["submit"]


def test_a_replica_that_is_paused_between_two_files_leaves_the_others_to_the_next_one(tmp_path: Path) -> None:
    """It may write when it begins, is stopped after the first file, and goes on when the lease has ended."""
    recorder = opened(tmp_path)
    recorder.record((1.0, SUBMIT, spot(), None, None))
    recorder.flush(machines(1), lambda: False)
    assert not rows(tmp_path, "nodes.csv")
    recorder.flush(machines(1), lambda: not rows(tmp_path, "nodes.csv"))
    assert rows(tmp_path, "nodes.csv")
    assert rows(tmp_path, "events.csv") == []
    recorder.flush(machines(1))
    assert [row["event"] for row in rows(tmp_path, "events.csv")] == ["submit"]


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_left_of_a_gang_is_a_task_of_its_own(tmp_path: Path, restarted: bool) -> None:
    """Of four pods three are done when the fourth is deleted; it runs again, alone, maybe under another leader."""
    node = Node(NodeSpec(index=0, name="n1", gpu_model="A100", gpus=8))
    gang, rest = replace(spot(), pods=4), spot()
    first = Run(gang, 1, [(node, gang, 4, WHOLE)], 10.0, 10.0)
    second = Run(rest, 2, [(node, rest, 1, WHOLE)], 30.0, 30.0)
    recorder = opened(tmp_path)
    recorder.record((0.0, SUBMIT, gang, None, None))
    recorder.record((10.0, START, gang, first, None))
    recorder.record((20.0, LOST, gang, first, None))
    recorder.flush()
    if restarted:
        recorder = opened(tmp_path)
        recorder.record((25.0, SUBMIT, rest, None, None))
    recorder.record((30.0, START, rest, second, None))
    recorder.record((40.0, FINISH, rest, second, None))
    recorder.flush()
    whole, left = "lab/train", "lab/train~2"
    assert [(row["event"], row["task"]) for row in rows(tmp_path, "events.csv")] == [
        ("submit", whole), *[("start", whole)] * 4, *[("lost", whole)] * 4, ("cancel", whole),
        ("submit", left), ("start", left), ("finish", left),
    ]  # fmt: skip
    assert [(row["job_name"], row["worker_num"]) for row in rows(tmp_path)] == [(whole, "4"), (left, "1")]


def gang(pods: int, index: int = 0) -> Task:
    return replace(spot(index), pods=pods)


def at(task: Task, pods: int, time: float = 10.0, number: int = 1) -> Run:
    """A run on n1, a node of 4 GPUs, with so many pods."""
    node = Node(NodeSpec(index=0, name="n1", gpu_model="A100", gpus=4))
    return Run(task, number, [(node, task, pods, WHOLE)], time, time)


def running(folder: Path, pods: int) -> Recorder:
    """The record of a gang that has started."""
    recorder = opened(folder)
    recorder.record((0.0, SUBMIT, gang(pods), None, None))
    recorder.record((10.0, START, gang(pods), at(gang(pods), pods), None))
    recorder.flush()
    return recorder


def test_a_gang_of_which_a_pod_is_done_and_two_wait_again_after_a_restart_was_lost(tmp_path: Path) -> None:
    """One of three pods succeeded and two failed while no controller ran: what waits is smaller than what ran."""
    running(tmp_path, 3)
    after = opened(tmp_path)
    after.record((100.0, SUBMIT, gang(2, index=7), None, None))
    after.reconcile(100.0, (), ["lab/train"], ())
    after.record((110.0, START, gang(2, index=7), at(gang(2, index=7), 2, 110.0), None))
    after.record((120.0, FINISH, gang(2, index=7), at(gang(2, index=7), 2, 110.0), None))
    after.flush()
    whole, left = "lab/train", "lab/train~2"
    assert [(row["event"], row["task"]) for row in rows(tmp_path, "events.csv")] == [
        ("submit", whole), *[("start", whole)] * 3, *[("lost", whole)] * 3, ("cancel", whole),
        ("submit", left), *[("start", left)] * 2, *[("finish", left)] * 2,
    ]  # fmt: skip


def other(index: int = 8) -> Task:
    return replace(spot(index), name="lab/other")


def test_a_gang_goes_on_in_the_log_until_its_last_pod_ends(tmp_path: Path) -> None:
    recorder = running(tmp_path, 3)
    recorder.record((50.0, START, gang(2), at(gang(2), 2), None))
    recorder.record((60.0, SUBMIT, other(), None, None))
    recorder.record((60.0, START, other(), at(other(), 1, 60.0), None))
    recorder.record((90.0, FINISH, gang(2), at(gang(2), 2), None))
    recorder.flush()
    train = "lab/train"
    assert told(tmp_path)[4:] == [
        "submit lab/other", "start lab/other n1", *[f"finish {train} n1"] * 3,
    ]  # fmt: skip
    assert [(row["worker_num"], row["duration"]) for row in rows(tmp_path)] == [("3", "80")]


def test_a_gang_is_split_when_others_get_the_gpus_of_its_finished_pods(tmp_path: Path) -> None:
    recorder = running(tmp_path, 4)
    recorder.record((50.0, START, gang(3), at(gang(3), 3), None))
    recorder.record((60.0, START, other(), at(other(), 1, 60.0), None))
    assert recorder.name_of(gang(3)) == "lab/train~2"
    recorder.record((90.0, FINISH, gang(3), at(gang(3), 3), None))
    recorder.flush()
    events = [(row["time"], row["event"], row["task"], row["node"]) for row in rows(tmp_path, "events.csv")][5:]
    whole, left = "lab/train", "lab/train~2"
    assert events == [
        ("60", "submit", "lab/other", ""), *[("60", "cancel", whole, "n1")] * 4,
        ("60", "submit", left, ""), *[("60", "start", left, "n1")] * 3,
        ("60", "start", "lab/other", "n1"), *[("90", "finish", left, "n1")] * 3,
    ]  # fmt: skip


def test_a_task_of_the_other_class_that_took_a_name_and_its_place_while_no_controller_ran_is_another_task(
    tmp_path: Path,
) -> None:
    before, hp = opened(tmp_path), replace(spot(), priority=Priority.HP)
    before.record((10.0, START, hp, at(hp, 1), None))
    before.flush()
    after = opened(tmp_path)
    after.reconcile(100.0, [at(spot(), 1, 50.0)], ["lab/train"], ())
    after.record((110.0, EVICT, spot(), at(spot(), 1, 50.0), None))
    after.flush()
    assert told(tmp_path)[2:] == [
        "lost lab/train n1", "cancel lab/train", "submit lab/train~2", "start lab/train~2 n1", "evict lab/train~2 n1",
    ]  # fmt: skip


def test_what_ended_while_no_controller_ran_comes_before_what_runs_now(tmp_path: Path) -> None:
    running(tmp_path, 4)
    after = opened(tmp_path)
    after.reconcile(100.0, [at(other(), 1, 50.0)], ["lab/other"], ["lab/train"])
    after.flush()
    assert told(tmp_path)[5:] == [
        *["finish lab/train n1"] * 4, "submit lab/other", "start lab/other n1",
    ]  # fmt: skip


def test_a_controller_reconciles_the_log_before_it_records_anything() -> None:
    """It finds a gang that runs, and a task that waits and starts in the same instant."""
    calls: list[str] = []
    sink = SimpleNamespace(
        record=lambda entry: calls.append(f"{EVENTS[entry[1]]} {entry[2].name}"),
        cancelled=lambda now, name: calls.append(f"cancelled {name}"),
        reconcile=lambda now, runs, waiting, done: calls.append(f"reconcile {[run.task.name for run in runs]}"),
    )

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name in ("runs-0", "runs-1"):
            server.put_pod(bound(name, schedulingGroup={"podGroupName": "team"}))
        server.put_pod(pod("waits"))
        await replica.rest()
        server.start_bound()
        await replica.rest()

    play(story, sink=sink)
    assert calls == ["reconcile ['lab/team']", "submit lab/waits", "start lab/waits"]


def test_a_node_that_had_shrunk_before_the_record_began_is_as_large_as_what_runs_there(tmp_path: Path) -> None:
    recorder, node = opened(tmp_path), Node(NodeSpec(index=0, name="n1", gpu_model="A100", gpus=1))
    both = [Run(task, 1, [(node, task, 1, WHOLE)], 10.0, 10.0) for task in (spot(), other())]
    recorder.reconcile(100.0, both, ["lab/train", "lab/other"], ())
    recorder.flush()
    assert told(tmp_path) == ["submit lab/train", "start lab/train n1", "submit lab/other", "start lab/other n1"]
    assert [row["gpu_capacity_num"] for row in rows(tmp_path, "nodes.csv")] == ["2"]


def test_a_run_that_is_taken_over_as_another_object_is_no_news(tmp_path: Path) -> None:
    recorder = running(tmp_path, 2)
    recorder.record((50.0, SUBMIT, gang(2, index=5), None, None))
    recorder.record((50.0, START, gang(2, index=5), at(gang(2, index=5), 2), None))
    assert not recorder.take()


def test_an_entry_that_makes_no_sense_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = opened(tmp_path)

    def page(entry: Any) -> None:
        raise KeyError(entry)

    recorder.listener = page
    for time in (1.0, 2.0):
        recorder.record(cast(Any, (time, START, None, None, None)))
    recorder.record((3.0, SUBMIT, spot(), None, None))
    recorder.flush()
    assert told(tmp_path) == ["submit lab/train"]
    assert [line.getMessage().partition(",")[0] for line in caplog.records] == [
        "an entry is not in the record", "what the page shows is not in the record",
    ]  # fmt: skip


def test_batches_that_were_not_written_come_before_later_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder, events = opened(tmp_path), tmp_path / "events.csv"
    content = events.read_text()
    events.unlink()
    for number in range(3):
        recorder.record((float(number), SUBMIT, replace(spot(), name=f"lab/t{number}"), None, None))
        assert recorder.take()
        if number == 2:
            events.write_text(content)
        worker = threading.Thread(target=recorder.write)
        worker.start()
        worker.join()
        assert recorder.take() == (number < 2)
    assert told(tmp_path) == [f"submit lab/t{number}" for number in range(3)]
    assert len(caplog.records) == 1


def test_a_batch_of_another_opening_is_not_written(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    recorder.record((0.0, SUBMIT, spot(), None, None))
    assert recorder.take()
    recorder.drop()
    recorder.open()
    recorder.write()
    assert rows(tmp_path, "events.csv") == []


def test_an_entry_that_cannot_be_formatted_is_left_out(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    recorder.record((0.0, SUBMIT, spot(), None, None))
    recorder.record((1.0, CANCEL, spot(), None, cast(Any, "no reason at all")))
    recorder.record((2.0, SUBMIT, other(), None, None))
    recorder.flush()
    assert told(tmp_path) == ["submit lab/train", "submit lab/other"]


def test_a_log_that_is_ahead_of_the_clock_stands_still_until_the_clock_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = opened(tmp_path)
    ahead.record((3600.0, SUBMIT, spot(), None, None))
    ahead.note(NodeNote(3700.0, "n1", closed=True))
    ahead.flush()
    after = opened(tmp_path)
    after.reconcile(100.0, (), ["lab/train"], ())
    for time in (100.0, 200.0, 3800.0):
        after.record((time, SUBMIT, replace(spot(), name=f"lab/{time}"), None, None))
        after.note(NodeNote(time, "n1", closed=False))
    after.flush()
    assert [row["time"] for row in rows(tmp_path, "events.csv")] == ["3600", "3700", "3700", "3800"]
    assert [note.time for note in read_decisions(tmp_path / "decisions.jsonl")] == [3700.0, 3700.0, 3700.0, 3800.0]
    assert [line.getMessage()[:28] for line in caplog.records] == ["the event log is 3600 s ahea"]


def test_files_that_are_not_ours_stop_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "events.csv").write_text("time,what\n1,nothing\n")
    recorder = opened(tmp_path)
    recorder.record((0.0, SUBMIT, spot(), None, None))
    recorder.flush()
    assert (tmp_path / "events.csv").read_text() == "time,what\n1,nothing\n"
    assert "begins with other columns" in caplog.text


def test_a_node_that_gets_another_gpu_model_is_another_node_in_the_log(tmp_path: Path) -> None:
    recorder, task = running(tmp_path, 4), replace(other(), gpu_model="H100")
    node = Node(NodeSpec(index=0, name="n1", gpu_model="H100", gpus=4))
    recorder.record((20.0, START, task, Run(task, 1, [(node, task, 1, WHOLE)], 20.0, 20.0), None))
    recorder.flush()
    assert rows(tmp_path, "events.csv")[-1]["node"] == "n1~H100"
    assert [(row["node_name"], row["gpu_model"]) for row in rows(tmp_path, "nodes.csv")] == [
        ("n1", "A100"), ("n1~H100", "H100"),
    ]  # fmt: skip


def test_a_replica_whose_end_is_cancelled_ends_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees that its lease is over and ends; it is cancelled while requests are under way."""
    asyncio.run(cancelled_while_it_ends(tmp_path, monkeypatch))


async def cancelled_while_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica, ended = Service(LiveOptions(record=tmp_path)), list[str]()
    replica.leader = Leader(cast(Any, None), LiveSettings(), "one", "default", lambda: 20.0)

    async def run(_: object) -> None:
        replica.recorder.record((1.0, SUBMIT, spot(), None, None))

    async def close(_: float) -> None:
        ended.append("requests")
        await asyncio.sleep(3600)

    async def stop() -> None:
        await asyncio.sleep(0)
        ended.append("mirrors")

    controller, mirrors = MagicMock(run=run, close=close), MagicMock(start=AsyncMock(), stop=stop)
    monkeypatch.setattr(service_module, "Controller", lambda *_, **__: controller)
    monkeypatch.setattr(service_module, "Reflectors", lambda *_: mirrors)
    deciding = asyncio.create_task(replica._decide(MagicMock(wall=lambda: 1.0)))
    async with asyncio.timeout(LONGEST):
        while not ended and not deciding.done():
            await asyncio.sleep(0)
        deciding.cancel()
        await asyncio.wait([deciding])
    assert ended == ["requests", "mirrors"]
    assert replica.controller is None
    assert not replica.recorder.take()


def test_a_job_that_is_created_again_is_submitted_when_its_pod_comes(tmp_path: Path) -> None:
    """Its name is that of the old one, which ends first in the log."""
    recorder = opened(tmp_path)

    def member(name: str, job: str) -> dict[str, Any]:
        owner = {"kind": "Job", "name": "train", "uid": job, "controller": True}
        return pod(name, annotations={"batch.kubernetes.io/job-completion-index": "0"}, ownerReferences=[owner])

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(member("train-0-a", "old"))
        await replica.rest()
        server.start_bound()
        server.delete_pod("lab/train-0-a")
        await replica.rest()
        server.stop_deleted()
        await replica.rest()
        server.put_pod(member("train-0-b", "new"))
        await replica.rest()

    play(story, sink=recorder, silent=True)
    recorder.flush()
    events = [(row["event"], row["task"]) for row in rows(tmp_path, "events.csv")]
    old, new = "lab/train/0", "lab/train/0~2"
    assert events == [("submit", old), ("start", old), ("lost", old), ("cancel", old), ("submit", new), ("start", new)]
