"""The rows of the event log: one a pod, or one in all where nothing runs."""

from __future__ import annotations

from typing import Any

from builders import hp, nodes, spot, workload
from gfs import Role, Task
from gfs.core.actions import CANCEL, EVICT, FINISH, LOST, START, SUBMIT
from gfs.core.node import WHOLE, Node
from gfs.core.run import Run
from gfs.telemetry.event_log import EventLog, _GpuNumbers, entry_rows

WORK = workload(nodes(8, 8), [hp("gang", gpus=2, pods=2), spot("part", gpus=0.5)])
GANG, PART = WORK.tasks
NODES = {spec.name: Node(spec) for spec in WORK.nodes}


class Why:
    """A reason in words."""

    def __init__(self, words: str) -> None:
        self.words = words

    def text(self) -> str:
        return self.words


def run(task: Task, number: int, *places: tuple[str, int, int]) -> Run:
    """A run in these places: (node, pods, slot)."""
    return Run(task, number, [(NODES[name], task, pods, slot) for name, pods, slot in places], 0.0, 0.0)


def told(*entries: Any) -> list[tuple[Any, ...]]:
    log = EventLog(WORK)
    for entry in entries:
        log.record(entry)
    names = ("time", "event", "task", "run", "node", "cards", "gpus", "reason")
    rows = log.table().to_pylist()
    assert [row for entry in entries for row in entry_rows(entry)] == [
        tuple({**row, "cards": ""}.values()) for row in rows
    ], "one entry by itself has the same rows, without the numbers of GPUs"
    columns = log.table().to_pydict()
    return list(zip(*(columns[name] for name in names), strict=True))


def test_a_lost_gang_has_a_row_a_pod() -> None:
    gang = run(GANG, 1, ("n0", 1, WHOLE), ("n1", 1, WHOLE))
    assert told((0.0, START, GANG, gang, None), (5.0, LOST, GANG, gang, Why("node n0 failed")))[2:] == [
        (5.0, "lost", "gang", 1, "n0", "0+1", 2.0, "node n0 failed"),
        (5.0, "lost", "gang", 1, "n1", "0+1", 2.0, "node n0 failed"),
    ]


def test_a_cancelled_run_has_a_row_a_pod() -> None:
    both = run(GANG, 2, ("n0", 2, WHOLE))  # two pods that share a place
    assert told((0.0, START, GANG, both, None), (5.0, CANCEL, GANG, both, None))[2:] == [
        (5.0, "cancel", "gang", 2, "n0", "0+1", 2.0, ""),
        (5.0, "cancel", "gang", 2, "n0", "2+3", 2.0, ""),
    ]


def test_a_task_cancelled_while_it_waits_has_one_row_without_a_node() -> None:
    assert told((0.0, SUBMIT, GANG, None, None), (5.0, CANCEL, GANG, None, None)) == [
        (0.0, "submit", "gang", 0, "", "", 4.0, ""),
        (5.0, "cancel", "gang", 0, "", "", 4.0, ""),
    ]


def test_the_word_of_each_event() -> None:
    for kind, word in ((FINISH, "finish"), (EVICT, "evict"), (LOST, "lost"), (CANCEL, "cancel")):
        part = run(PART, 1, ("n0", 1, 3))
        rows = told((0.0, START, PART, part, None), (1.0, kind, PART, part, None))
        assert [row[1:6] for row in rows] == [(what, "part", 1, "n0", "0:0.5") for what in ("start", word)]


def test_a_start_gets_the_lowest_gpus_that_are_free() -> None:
    # 0 and 1, then 2 and 3; the first two are given back; a part of a GPU opens 0, two pods get 1 and 4, 5 and 6.
    first, second = run(GANG, 1, ("n0", 1, WHOLE)), run(GANG, 2, ("n0", 1, WHOLE))
    part, gang = run(PART, 1, ("n0", 1, 0)), run(GANG, 3, ("n0", 2, WHOLE))
    rows = numbers_of((START, first), (START, second), (FINISH, first), (START, part), (START, gang), (FINISH, gang))
    assert rows == ["0+1", "2+3", "0+1", "0:0.5", "1+4", "5+6", "1+4", "5+6"]


def test_parts_of_one_gpu_have_one_number_until_the_last_is_gone() -> None:
    a, b, c = (run(PART, number, ("n0", 1, slot)) for number, slot in ((1, 7), (2, 7), (3, 2)))
    assert numbers_of((START, a), (START, c), (START, b), (FINISH, a), (FINISH, b), (START, a)) == [
        "0:0.5", "1:0.5", "0:0.5", "0:0.5", "0:0.5", "0:0.5",
    ]  # fmt: skip


def test_a_run_that_was_loaded_from_a_file_keeps_its_gpus() -> None:
    before, after = run(GANG, 1, ("n0", 2, WHOLE)), run(GANG, 1, ("n0", 2, WHOLE))
    assert numbers_of((START, before), (FINISH, after)) == ["0+1", "2+3"] * 2


def test_a_pod_without_gpus_has_none() -> None:
    task = Task(0, "mixed", "lab", "A100", GANG.priority, 0, 0, 0.0, mixed=(Role(1, 2), Role(1, 0)))
    worker, coordinator = task.roles
    node = NODES["n0"]
    both = Run(task, 1, [(node, worker, 1, WHOLE), (node, coordinator, 1, WHOLE)], 0.0, 0.0)
    assert [row[-2] for row in entry_rows((0.0, START, task, both, None))] == [2.0, 0.0]
    assert numbers_of((START, both), (FINISH, both)) == ["0+1", "", "0+1", ""]


def numbers_of(*happened: tuple[int, Run]) -> list[str]:
    """The GPUs in each row of a log of these events."""
    numbers = _GpuNumbers()
    return [text for kind, each in happened for _, _, text in numbers.of(each, begins=kind == START)]
