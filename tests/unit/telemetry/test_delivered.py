"""GPU-hours that spot tasks got until the last submission, with worked numbers."""

from __future__ import annotations

import pytest

from builders import hp, nodes, play, spot
from gfs.domain.execution import ExecutionRules
from gfs.telemetry.prices import Delivered, delivered

HOUR = 3600


def test_useful_and_guaranteed_hours_a_month() -> None:
    """s runs from 0 on 8 cards, is evicted after 1.5 h and starts again when h is done.

    Its checkpoint is at 1 h: 8 GPU-hours are useful, 4 wasted, and one guarantee period of 1 h is complete. h
    starts 30 s later, after the grace period, and runs for 100 s. From 5530 on s needs 1 h and 40 s of restart,
    until 9170. Without waiting the work would be done at 7350, when late ends: half of the second run of s (1820
    of 3640 s) counts. A month has 730 h, the trace 7350 s.
    """
    story = play(
        nodes(8),
        spot("s", gpus=8, lasting=2 * HOUR),
        hp("h", gpus=8, at=5400, lasting=100),
        spot("late", at=7340, lasting=10),
        scheduler="gfs",
        quota="none",
    )
    assert story.spans("s") == [(0, 5400), (5530, 9170)]
    found = delivered(story.result.events, story.result.workload, ExecutionRules())
    month = 730 * HOUR / 7350
    assert found.period_hours == pytest.approx(7350 / HOUR)
    assert found.spot_gpu_hours == pytest.approx((8 + 4) * month)
    assert found.guaranteed_gpu_hours == pytest.approx((8 + 8 * 1820 / HOUR) * month)
    assert found.worth == pytest.approx(2.5 * 12 * month)  # an A100 is assumed at 2.5 dollars
    assert found.wasted_worth == pytest.approx(2.5 * (4 + 8 * 20 / HOUR) * month)


def test_all_at_once_counts_until_the_end() -> None:
    story = play(nodes(8), spot("s", gpus=4, lasting=HOUR), scheduler="gfs", quota="none")
    found = delivered(story.result.events, story.result.workload, ExecutionRules())
    assert found.period_hours == 1
    assert found.spot_gpu_hours == pytest.approx(4 * 730)


def test_a_short_trace_is_not_measured_by_its_submissions() -> None:
    """Both are submitted within a minute: in that minute nothing is useful yet, in the two hours of work 16 GPU-h."""
    story = play(
        nodes(8),
        spot("s", gpus=4, lasting=2 * HOUR),
        spot("t", gpus=4, at=60, lasting=2 * HOUR - 60),
        scheduler="gfs",
        quota="none",
    )
    found = delivered(story.result.events, story.result.workload, ExecutionRules())
    assert found.period_hours == 2
    assert found.spot_gpu_hours == pytest.approx((8 + 4 * (2 - 60 / HOUR)) * 365)  # a month is 365 times two hours


def test_nothing_submitted_is_nothing_delivered() -> None:
    story = play(nodes(8), hp("h", lasting=0), scheduler="gfs", quota="none")
    assert delivered(story.result.events, story.result.workload, ExecutionRules()) == Delivered(0, 0, 0, 0, 0)
