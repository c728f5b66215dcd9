"""The rows of the event log: one a pod, or one in all where nothing runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from builders import hp, nodes, spot, workload
from gfs.core.actions import CANCEL, EVICT, FINISH, LOST, START, SUBMIT
from gfs.telemetry.event_log import EventLog, entry_rows

WORK = workload(nodes(8, 8), [hp("gang", gpus=2, pods=2), spot("part", gpus=0.5)])
GANG, PART = WORK.tasks


class Why:
    """A reason in words."""

    def __init__(self, words: str) -> None:
        self.words = words

    def text(self) -> str:
        return self.words


def run(task: Any, number: int, *places: tuple[str, int, int]) -> Any:
    """A run as the log looks at it: (node, cards as bits, cards held) for each place."""
    held = [(SimpleNamespace(name=name), mask, count) for name, mask, count in places]
    return SimpleNamespace(task=task, number=number, places=held)


def told(*entries: Any) -> list[tuple[Any, ...]]:
    log = EventLog(WORK)
    for entry in entries:
        log.record(entry)
    names = ("time", "event", "task", "run", "node", "cards", "gpus", "reason")
    assert [row for entry in entries for row in entry_rows(entry)] == [
        tuple(row.values()) for row in log.table().to_pylist()
    ], "one entry by itself has the same rows"
    columns = log.table().to_pydict()
    return list(zip(*(columns[name] for name in names), strict=True))


def test_a_lost_gang_has_a_row_a_pod() -> None:
    lost = run(GANG, 1, ("n0", 0b11, 2), ("n1", 0b1100, 2))
    assert told((5.0, LOST, GANG, lost, Why("node n0 failed"))) == [
        (5.0, "lost", "gang", 1, "n0", "0+1", 2.0, "node n0 failed"),
        (5.0, "lost", "gang", 1, "n1", "2+3", 2.0, "node n0 failed"),
    ]


def test_a_cancelled_run_has_a_row_a_pod() -> None:
    both = run(GANG, 2, ("n0", 0b1111, 4))  # two pods that share a place
    assert told((5.0, CANCEL, GANG, both, None)) == [
        (5.0, "cancel", "gang", 2, "n0", "0+1", 2.0, ""),
        (5.0, "cancel", "gang", 2, "n0", "2+3", 2.0, ""),
    ]


def test_a_task_cancelled_while_it_waits_has_one_row_without_a_node() -> None:
    assert told((0.0, SUBMIT, GANG, None, None), (5.0, CANCEL, GANG, None, None)) == [
        (0.0, "submit", "gang", 0, "", "", 4.0, ""),
        (5.0, "cancel", "gang", 0, "", "", 4.0, ""),
    ]


def test_the_word_of_each_event() -> None:
    part = run(PART, 1, ("n0", 0b1000, 0))
    kinds = (START, FINISH, EVICT, LOST, CANCEL)
    assert [row[1:6] for row in told(*((1.0, kind, PART, part, None) for kind in kinds))] == [
        (word, "part", 1, "n0", "3:0.5") for word in ("start", "finish", "evict", "lost", "cancel")
    ]
