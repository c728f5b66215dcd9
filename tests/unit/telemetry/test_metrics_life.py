"""The life of one task, told from the log."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gfs.domain.errors import InputError
from gfs.telemetry.metrics_life import TaskStep, task_life

WAITED = "pool A100: no node has 8 idle GPUs"
LOST = "evicted for h1 on n0"


def table(rows: list[tuple[float, str, str, int, str, float, str]]) -> pa.Table:
    names = ("time", "event", "task", "run", "node", "gpus", "reason")
    return pa.table({n: [r[i] for r in rows] for i, n in enumerate(names)})


GANG = [
    (0.0, "submit", "s1", 0, "", 16.0, ""),
    (50.0, "start", "s1", 1, "n0", 8.0, WAITED),
    (50.0, "start", "s1", 1, "n1", 8.0, WAITED),
    (60.0, "submit", "s2", 0, "", 1.0, ""),
    (60.0, "start", "s2", 1, "n2", 1.0, "fits at once"),
    (90.0, "evict", "s1", 1, "n0", 8.0, LOST),
    (90.0, "evict", "s1", 1, "n1", 8.0, LOST),
    (200.0, "start", "s1", 2, "n1", 8.0, ""),
    (200.0, "start", "s1", 2, "n1", 8.0, ""),
    (300.0, "finish", "s1", 2, "n1", 8.0, ""),
    (300.0, "finish", "s1", 2, "n1", 8.0, ""),
]


def test_a_gang_waits_runs_is_evicted_and_finishes() -> None:
    assert task_life(table(GANG), "s1") == [
        TaskStep(0.0, "submitted", gpus=16.0),
        TaskStep(0.0, "waited", 50.0, 1, gpus=16.0, reason=WAITED),
        TaskStep(50.0, "ran", 40.0, 1, ("n0", "n1"), 16.0),
        TaskStep(90.0, "evicted", 0.0, 1, ("n0", "n1"), 16.0, LOST),
        TaskStep(90.0, "waited", 110.0, 2, gpus=16.0),
        TaskStep(200.0, "ran", 100.0, 2, ("n1",), 16.0),
        TaskStep(300.0, "finished", 0.0, 2, ("n1",), 16.0),
    ]


def test_a_task_that_never_waits_and_still_runs() -> None:
    assert task_life(table(GANG), "s2") == [
        TaskStep(60.0, "submitted", gpus=1.0),
        TaskStep(60.0, "ran", 240.0, 1, ("n2",), 1.0, "fits at once", ongoing=True),
    ]


def test_a_task_that_still_waits_after_its_eviction() -> None:
    last = task_life(table(GANG[:7]), "s1")[-1]
    assert last == TaskStep(90.0, "waited", 0.0, 2, ongoing=True)


FAILED = "node n0 failed"
TROUBLED = [
    (0.0, "submit", "h1", 0, "", 16.0, ""),
    (0.0, "start", "h1", 1, "n0", 8.0, ""),
    (0.0, "start", "h1", 1, "n1", 8.0, ""),
    (40.0, "lost", "h1", 1, "n0", 8.0, FAILED),
    (40.0, "lost", "h1", 1, "n1", 8.0, FAILED),
    (50.0, "submit", "s1", 0, "", 4.0, ""),
    (70.0, "start", "h1", 2, "n1", 8.0, WAITED),
    (70.0, "start", "h1", 2, "n2", 8.0, WAITED),
    (80.0, "cancel", "s1", 0, "", 4.0, ""),
    (90.0, "cancel", "h1", 2, "n1", 8.0, "by its owner"),
    (90.0, "cancel", "h1", 2, "n2", 8.0, "by its owner"),
]


def test_a_gang_is_lost_runs_again_and_is_cancelled() -> None:
    assert task_life(table(TROUBLED), "h1") == [
        TaskStep(0.0, "submitted", gpus=16.0),
        TaskStep(0.0, "ran", 40.0, 1, ("n0", "n1"), 16.0),
        TaskStep(40.0, "lost", 0.0, 1, ("n0", "n1"), 16.0, FAILED),
        TaskStep(40.0, "waited", 30.0, 2, gpus=16.0, reason=WAITED),
        TaskStep(70.0, "ran", 20.0, 2, ("n1", "n2"), 16.0),
        TaskStep(90.0, "cancelled", 0.0, 2, ("n1", "n2"), 16.0, "by its owner"),
    ]


def test_a_task_that_is_cancelled_while_it_waits() -> None:
    assert task_life(table(TROUBLED), "s1") == [
        TaskStep(50.0, "submitted", gpus=4.0),
        TaskStep(50.0, "waited", 30.0, 1, gpus=4.0),
        TaskStep(80.0, "cancelled", gpus=4.0),
    ]
    # After a lost run it waits for its second.
    rows = [*TROUBLED[:5], (60.0, "cancel", "h1", 0, "", 16.0, "")]
    assert task_life(table(rows), "h1")[-2:] == [
        TaskStep(40.0, "waited", 20.0, 2, gpus=16.0),
        TaskStep(60.0, "cancelled", gpus=16.0),
    ]


def test_a_task_that_still_waits_after_its_loss() -> None:
    assert task_life(table(TROUBLED[:6]), "h1")[-1] == TaskStep(40.0, "waited", 10.0, 2, ongoing=True)


def test_dictionary_encoded_text() -> None:
    events = table(GANG)
    for i, name in enumerate(events.column_names):
        if pa.types.is_string(events[name].type):
            events = events.set_column(i, name, events[name].dictionary_encode())
    assert task_life(events, "s1") == task_life(table(GANG), "s1")
    with pytest.raises(InputError):  # the dictionary still knows the name, no row does
        task_life(events.slice(0, 1), "s2")


def test_an_unknown_task_is_met_with_names_like_it() -> None:
    with pytest.raises(InputError, match=r"no task 's11'. Did you mean s1"):
        task_life(table(GANG), "s11")
    with pytest.raises(InputError, match="such as s1"):
        task_life(table(GANG), "zzz")
    with pytest.raises(InputError, match="empty"):
        task_life(table(GANG[:1]).slice(0, 0), "s1")


def test_names_of_about_the_same_length_are_found_in_a_long_log() -> None:
    many = [(0.0, "submit", f"a-name-that-is-much-longer-{i}", 0, "", 1.0, "") for i in range(20_001)]
    with pytest.raises(InputError, match=r"no task 's11'. Did you mean s1"):
        task_life(table([*many, *GANG]), "s11")
