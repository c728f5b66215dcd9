"""The rows of the event log: one a pod, or one in all where nothing runs. GPUs get their numbers here."""

from __future__ import annotations

from typing import Any

import pytest

from builders import hp, nodes, play, spot, workload
from gfs.core.actions import CANCEL, EVICT, FINISH, LOST, START, SUBMIT, Record
from gfs.core.node import WHOLE, Node
from gfs.core.run import Run
from gfs.domain.task import Priority, Role, Task
from gfs.domain.workload import Workload
from gfs.telemetry.event_log import EventLog, entry_rows

WORK = workload(
    nodes(8, 8),
    [hp("gang", gpus=2, pods=2), spot("half", gpus=0.5), hp("one", gpus=1), spot("third", gpus=0.3)],
)
GANG, HALF, ONE, THIRD = WORK.tasks
N0, N1 = (Node(spec) for spec in WORK.nodes)


class Why:
    """A reason in words."""

    def __init__(self, words: str) -> None:
        self.words = words

    def text(self) -> str:
        return self.words


def run(task: Task, *places: tuple[Node, int], number: int = 1) -> Run:
    """A run with so many pods on each node."""
    return Run(task, number, [(node, task, pods, WHOLE) for node, pods in places], 0.0, 0.0)


def part(task: Task, node: Node, slot: int) -> Run:
    """The run of a fraction, on a divided GPU of a node."""
    return Run(task, 1, [(node, task, 1, slot)], 0.0, 0.0)


def table(entries: tuple[Any, ...], work: Workload = WORK) -> list[dict[str, Any]]:
    log = EventLog(work)
    for entry in entries:
        log.record(entry)
    rows: list[dict[str, Any]] = log.table().to_pylist()
    assert [row for entry in entries for row in entry_rows(entry)] == [
        tuple((row | {"cards": ""}).values()) for row in rows
    ], "one entry by itself has the same rows, without numbers of GPUs"
    return rows


def told(*entries: Any) -> list[tuple[Any, ...]]:
    names = ("time", "event", "task", "run", "node", "cards", "gpus", "reason")
    return [tuple(row[name] for name in names) for row in table(entries)]


def numbers(*steps: tuple[int, Run]) -> list[str]:
    """Event, task, node and GPUs of each row of runs that start and end, all in one instant."""
    entries = tuple((1.0, what, each.task, each, None) for what, each in steps)
    return [f"{row['event']} {row['task']} {row['node']}/{row['cards']}" for row in table(entries)]


def test_a_lost_gang_has_a_row_a_pod() -> None:
    lost = run(GANG, (N0, 1), (N1, 1))
    assert told((1.0, START, GANG, lost, None), (5.0, LOST, GANG, lost, Why("node n0 failed")))[2:] == [
        (5.0, "lost", "gang", 1, "n0", "0+1", 2.0, "node n0 failed"),
        (5.0, "lost", "gang", 1, "n1", "0+1", 2.0, "node n0 failed"),
    ]


def test_a_cancelled_run_has_a_row_a_pod() -> None:
    both = run(GANG, (N0, 2), number=2)  # two pods that share a place
    assert told((1.0, START, GANG, both, None), (5.0, CANCEL, GANG, both, None))[2:] == [
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
        half = part(HALF, N0, 0)
        assert [row[1:6] for row in told((1.0, START, HALF, half, None), (1.0, kind, HALF, half, None))] == [
            ("start", "half", 1, "n0", "0:0.5"),
            (word, "half", 1, "n0", "0:0.5"),
        ]


def test_a_pod_gets_the_lowest_free_gpus_of_its_node() -> None:
    gang, one, again = run(GANG, (N0, 2)), run(ONE, (N0, 1)), run(ONE, (N1, 1))
    assert numbers((START, gang), (START, one), (START, again)) == [
        "start gang n0/0+1",
        "start gang n0/2+3",
        "start one n0/4",
        "start one n1/0",
    ]


def test_gpus_that_were_given_back_are_taken_again_and_need_not_be_neighbours() -> None:
    first, second, third, gang = (*[run(ONE, (N0, 1)) for _ in range(3)], run(GANG, (N0, 1), (N1, 1)))
    assert numbers(
        (START, first), (START, second), (START, third), (FINISH, first), (FINISH, third), (START, gang), (FINISH, gang)
    )[3:] == [
        "finish one n0/0",
        "finish one n0/2",
        "start gang n0/0+2",
        "start gang n1/0+1",
        "finish gang n0/0+2",
        "finish gang n1/0+1",
    ]  # fmt: skip


def test_what_is_evicted_gives_its_gpus_to_what_starts_in_the_same_instant() -> None:
    victim, other, taker = run(ONE, (N0, 1)), run(ONE, (N0, 1)), run(GANG, (N0, 2))
    assert numbers((START, victim), (START, other), (EVICT, victim), (START, taker))[2:] == [
        "evict one n0/0",
        "start gang n0/0+2",
        "start gang n0/3+4",
    ]


def test_fractions_share_the_gpu_that_the_core_divides_for_them() -> None:
    """Slots 5 and 0 of the node are its first two divided GPUs. The first is whole again when its last pod has left."""
    half, third, elsewhere = part(HALF, N0, 5), part(THIRD, N0, 5), part(HALF, N0, 0)
    one, gang = run(ONE, (N0, 1)), run(GANG, (N0, 1), (N1, 1))
    assert numbers(
        (START, half), (START, one), (START, elsewhere), (START, third),
        (FINISH, half), (START, gang), (FINISH, third), (START, part(THIRD, N0, 3)),
    ) == [
        "start half n0/0:0.5",
        "start one n0/1",
        "start half n0/2:0.5",
        "start third n0/0:0.3",
        "finish half n0/0:0.5",
        "start gang n0/3+4",
        "start gang n1/0+1",
        "finish third n0/0:0.3",
        "start third n0/0:0.3",
    ]  # fmt: skip


@pytest.mark.parametrize("leader", [0.0, 0.5])
def test_each_pod_of_a_task_with_roles_has_the_gpus_of_its_role(leader: float) -> None:
    roles = (Role(1, leader), Role(2, 2.0))
    mixed = Task(0, "mixed", "lab", "A100", Priority.HP, 0, 0.0, 0.0, mixed=roles)
    head, workers = mixed.roles
    both = Run(mixed, 1, [(N0, head, 1, 0 if leader else WHOLE), (N0, workers, 2, WHOLE)], 0.0, 0.0)
    entries: tuple[Record, ...] = ((0.0, SUBMIT, mixed, None, None), (1.0, START, mixed, both, None))
    rows = table(entries, Workload((mixed,), WORK.nodes, durations=(10.0,)))
    expected = [("0:0.5", 0.5), ("1+2", 2.0), ("3+4", 2.0)] if leader else [("", 0.0), ("0+1", 2.0), ("2+3", 2.0)]
    assert rows[0]["gpus"] == 4.0 + leader
    assert [(row["cards"], row["gpus"]) for row in rows[1:]] == expected


def test_a_simulation_writes_an_eviction_before_the_start_that_it_makes_room_for() -> None:
    told = play(nodes(2), spot("a"), spot("b"), hp("h", gpus=2, at=60), grace_period=0)
    assert [(line.event, line.task, line.cards) for line in told.lines if line.time == 60] == [
        ("submit", "h", ""),
        ("evict", "a", "0"),
        ("evict", "b", "1"),
        ("start", "h", "0+1"),
    ]
