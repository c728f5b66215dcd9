"""Why a task waits and why one was evicted, in words (the issue's own examples among them)."""

from __future__ import annotations

import pytest

from builders import hp, nodes, play, spot
from gfs.core.reasons import (
    Behind,
    EvictReason,
    NoNode,
    NoRoom,
    OverQuota,
    Reason,
    preemptor_in,
)

# -- the words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (
            NoRoom("A100", 1, 8, idle=12, gap=6, slots=0),
            "pool A100: 12 idle GPUs but no node has 8; largest gap 6",
        ),
        (NoRoom("A100", 1, 2, idle=1, gap=1, slots=0), "pool A100: 1 idle GPU but no node has 2; largest gap 1"),
        (NoRoom("T4", 1, 1, idle=0, gap=0, slots=0), "pool T4: no idle GPU"),
        (NoRoom("T4", 1, 0.5, idle=0, gap=0, slots=0), "pool T4: no GPU has 0.5 free"),
        (NoRoom("A100", 4, 8, idle=16, gap=8, slots=2), "pool A100: 16 idle GPUs, room for 2 of 4 pods of 8"),
        (OverQuota("A100", 35.0, 33.5, 2, 1), "pool A100: spot quota 35 for 1 h, 33.5 in use, task asks 2"),
        (
            OverQuota("A100", 35.0, 33.5, 2, 1, "92 GPUs are kept for HP"),
            "pool A100: spot quota 35 for 1 h: 92 GPUs are kept for HP; 33.5 in use, task asks 2",
        ),
        (NoNode("T4"), "no node has GPU model T4"),
        (NoNode("T4", closed=1), "pool T4: the only node closed (cordoned or failed)"),
        (NoNode("T4", closed=2), "pool T4: all 2 nodes closed (cordoned or failed)"),
        (Behind(hp("h7").task()), "queued behind h7, which does not fit yet"),
        (
            EvictReason(hp("h123").task(), "n7", "cheapest of 14 nodes", lost=720, gpus=8),
            "evicted for h123 on n7: cheapest of 14 nodes, lost 12 min x 8 GPUs",
        ),
        (
            EvictReason(hp("h").task(), "n0", "only node that suffices", lost=42, gpus=1),
            "evicted for h on n0: only node that suffices, lost 42 s x 1 GPU",
        ),
    ],
)
def test_words(reason: Reason | EvictReason, text: str) -> None:
    assert reason.text() == text


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("evicted for h on n7: cheapest of 14 nodes", 1),
        ("evicted for run on A100 on n7: cheapest", 2),  # ' on ' is part of the name
        ("evicted for  on A100 on n7: cheapest", 3),  # a name that begins with it
        ("evicted for run on n7: cheapest", None),  # no such task
        ("lease-end", None),
        ("h on n7", None),
    ],
)
def test_whom_a_run_went_for_is_read_from_the_words(text: str, task: int | None) -> None:
    assert preemptor_in(text, {"h": 1, "run on A100": 2, " on A100": 3}) == task


# -- the right reason at the right time -------------------------------------------------------------------


def test_the_largest_gap_is_named() -> None:
    story = play(nodes(8, 8), hp("a", gpus=2, lasting=50), hp("b", gpus=8, at=1, lasting=50), hp("h", gpus=8, at=10))
    assert story.why_waited("h") == "pool A100: 6 idle GPUs but no node has 8; largest gap 6"


def test_a_task_that_starts_at_once_has_no_reason() -> None:
    assert play(nodes(8), hp("h")).why_waited("h") == ""


def test_an_eviction_says_for_whom_where_out_of_how_many_and_what_was_lost() -> None:
    story = play(
        nodes(8, 8, 8),
        *[spot(f"s{i}", gpus=8, at=i, lasting=9000) for i in range(3)],
        hp("h", gpus=8, at=722),
    )
    # s2 on n2 came last: it wastes least, 720 s x 8 GPUs.
    assert story.why_evicted("s2") == "evicted for h on n2: cheapest of 3 nodes, lost 12 min x 8 GPUs"


def test_an_evicted_task_waits_for_a_reason_too() -> None:
    story = play(nodes(8), spot("s", gpus=8, lasting=500), hp("h", gpus=8, at=100, lasting=10))
    assert story.why_waited("s", run=2) == "pool A100: no idle GPU"


def test_closed_nodes_are_mentioned() -> None:
    # gamma = 1, m = 100: the eviction at 100 closes n0; at 200 it is empty, yet x waits.
    story = play(
        nodes(8),
        spot("s", gpus=8, lasting=500),
        hp("h", gpus=8, at=100, lasting=10),
        spot("x", at=200),
        gamma=1.0,
        m=100.0,
    )
    assert "closed to spot tasks after recent evictions" in story.why_waited("x")


def test_explain_tells_the_life_of_a_task() -> None:
    story = play(nodes(8), spot("s", gpus=8, lasting=500), hp("h", gpus=8, at=100, lasting=10))
    steps = [(step.what, step.time, step.length) for step in story.result.explain("s")]
    # h runs 130 to 140; s waits from 100 to 140, then 40 s of overhead and its 500 s.
    assert steps == [
        ("submitted", 0.0, 0.0),
        ("ran", 0.0, 100.0),
        ("evicted", 100.0, 0.0),
        ("waited", 100.0, 40.0),
        ("ran", 140.0, 540.0),
        ("finished", 680.0, 0.0),
    ]


def test_a_gang_of_fractions_is_not_told_that_no_card_has_room() -> None:
    # Half of the card is free: one of the two pods would fit.
    story = play(nodes(1), hp("a", gpus=0.5, lasting=100), hp("b", gpus=0.5, pods=2, at=1))
    assert "no GPU has 0.5 free" not in story.why_waited("b")


def test_a_task_kept_out_by_closed_nodes_alone_is_told_so() -> None:
    story = play(
        nodes(8),
        spot("s", gpus=8, lasting=500),
        hp("h", gpus=8, at=100, lasting=10),
        spot("x", at=200),
        gamma=1.0,
        m=100.0,
    )
    assert "room for 8 of 1 pods" not in story.why_waited("x")


def test_what_an_eviction_lost_agrees_with_what_was_saved_at_decimal_times() -> None:
    # 22720.6 - 8320.6 = 8 x 1800 s: the eighth checkpoint has just been taken, nothing is lost.
    story = play(nodes(8), spot("s", gpus=8, at=8320.6, lasting=50000, checkpoint=1800), hp("h", gpus=8, at=22720.6))
    assert "lost 0 s" in story.why_evicted("s")
