"""Figures by organization, GPU model and size against numbers worked out by hand.

The story of test_metrics.py: `lab` owns the spot tasks s1 (16 A100) and s2 (half a T4), `ads` the HP tasks h1 (8 A100),
for which s1 is evicted, and h2 (2 T4).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_metrics import LOG, S1, S2, STORY, world

from gfs.domain.errors import InputError
from gfs.telemetry.breakdown import Breakdown, EvictionsBetween, break_down, grouped_percentile, jain_index
from gfs.telemetry.metrics import compute_metrics
from gfs.telemetry.organization import LongestWait, Rank, organization_story, tasks_of_log
from logs import log

WHY = "evicted for h1 on n0: cheapest of 2 nodes, lost 30 min x 16 GPUs"
REASONS = {7: WHY, 8: WHY}
EVENTS = log(LOG, STORY, reasons=REASONS)
PARTS = break_down(EVENTS, STORY)


def test_by_organization() -> None:
    assert [group.name for group in PARTS.organization] == ["lab", "ads"]  # the most useful work first
    lab, ads = PARTS.organization

    assert (lab.hp_tasks, lab.hp_jqt_mean, lab.hp_progress_rate) == (0, 0.0, None)
    assert (lab.spot_tasks, lab.spot_runs, lab.spot_evictions) == (2, 3, 1)
    assert lab.spot_jqt_mean == pytest.approx(1815.0)  # s1: 9030 - 5400 = 3630; s2: 0
    assert lab.spot_jqt_p99 == pytest.approx(3593.7)
    assert lab.spot_eviction_rate == pytest.approx(1 / 3)
    assert lab.spot_guarantee_hit_rate == 1.0  # evicted after its first hour
    assert (lab.spot_guarantee_periods, lab.spot_evictions_per_guarantee_period) == (4, pytest.approx(1 / 5))
    assert lab.spot_wasted_gpu_hours == pytest.approx(16 * (1800 + 60) / 3600)
    assert lab.useful_gpu_hours == pytest.approx((16 * 7200 + 0.5 * 1000) / 3600)
    # s1 needed 7200 s and took 12690, s2 needed and took 1000
    assert lab.spot_progress_rate == pytest.approx(8200 / 13690)
    assert lab.evictions_caused == 0

    assert (ads.hp_tasks, ads.spot_tasks, ads.spot_runs, ads.evictions_caused) == (2, 0, 0, 1)
    assert ads.hp_jqt_mean == pytest.approx(15.0)
    assert ads.hp_progress_rate == pytest.approx((3600 + 690) / (3630 + 690))
    assert ads.spot_eviction_rate is None  # it has no runs that could be evicted
    assert ads.spot_guarantee_hit_rate is None


def test_who_evicts_whom() -> None:
    # Of run 1 of s1 half an hour of 16 GPUs is lost; the restart that followed is part of its run 2.
    assert PARTS.evictions == (EvictionsBetween("ads", "lab", 1, pytest.approx(8.0)),)
    untold = break_down(log(LOG, STORY), STORY)
    assert untold.evictions == (EvictionsBetween("", "lab", 1, pytest.approx(8.0)),)
    assert [group.evictions_caused for group in untold.organization] == [0, 0]


def test_by_model_and_size() -> None:
    assert [(g.name, g.hp_tasks, g.spot_tasks, g.evictions_caused) for g in PARTS.model] == [
        ("A100", 1, 1, 1),
        ("T4", 1, 1, 0),
    ]
    # s2 takes half a GPU, h2 two, h1 eight, s1 two pods of eight
    assert [(g.name, g.hp_tasks, g.spot_tasks, g.evictions_caused) for g in PARTS.size] == [
        ("<1", 0, 1, 0),
        ("2", 1, 0, 0),
        ("5-8", 1, 0, 1),
        ("9-16", 0, 1, 0),
    ]


def test_the_whole_is_that_of_the_metrics() -> None:
    whole, metrics = PARTS.whole, compute_metrics(EVENTS, STORY)
    assert (whole.spot_runs, whole.spot_evictions) == (metrics.spot.runs, metrics.spot.evictions)
    assert whole.spot_jqt_p99 == pytest.approx(metrics.spot.jqt_p99)
    assert whole.hp_jqt_p99 == pytest.approx(metrics.hp.jqt_p99)
    assert whole.spot_wasted_gpu_hours == pytest.approx(metrics.spot.wasted_gpu_hours)
    assert whole.useful_gpu_hours == pytest.approx(metrics.useful_gpu_hours)


def test_what_is_written_is_read() -> None:
    assert Breakdown.from_dict(PARTS.to_dict()) == PARTS


def test_a_window_leaves_out_what_was_submitted_before_it() -> None:
    """From 100 s on s1 is not counted, so nothing counted was evicted; its evictor still is."""
    late = break_down(EVENTS, STORY, window=(100.0, None))
    assert {group.name: (group.spot_tasks, group.spot_evictions) for group in late.organization}["lab"] == (1, 0)
    assert late.evictions == ()
    assert late.whole.evictions_caused == 0


def test_an_organization_outside_the_window_whose_task_evicts_is_named() -> None:
    early = break_down(EVENTS, STORY, window=(0.0, 1000.0))
    assert [(g.name, g.hp_tasks, g.evictions_caused) for g in early.organization] == [("lab", 0, 0), ("ads", 0, 1)]


def test_leases_promise_nothing() -> None:
    parts = break_down(EVENTS, STORY, leases=True)
    assert parts.whole.spot_eviction_rate is None
    assert parts.whole.spot_guarantee_hit_rate is None


@pytest.mark.parametrize(
    ("values", "index"),
    [
        ([1.0, 1.0, 1.0], 1.0),
        ([1.0, 0.0], 0.5),  # one of two has everything: 1 / 2
        ([1.0, 0.5], 0.9),  # 1.5^2 / (2 x 1.25)
        ([1.0, None, 0.5], 0.9),
        ([0.0, 0.0], None),
        ([], None),
    ],
)
def test_jain(values: list[float | None], index: float | None) -> None:
    assert jain_index(values) == pytest.approx(index)


def test_fairness_and_the_worst_treated() -> None:
    # lab has s1 alone (7200 / 12690), another organization s2, which never waited
    parts = break_down(EVENTS, replace(STORY, tasks=(S1, replace(S2, organization="uni"), *STORY.tasks[2:])))
    rate = 7200 / 12690
    assert parts.fairness_spot == pytest.approx((1 + rate) ** 2 / (2 * (1 + rate**2)))
    assert parts.fairness_hp == 1.0  # ads alone
    assert parts.worst_treated == "lab"
    assert PARTS.worst_treated is None  # nobody to compare lab with


def test_nothing_submitted() -> None:
    empty = world()
    parts = break_down(log([], empty), empty)
    assert (parts.organization, parts.evictions, parts.fairness_spot, parts.worst_treated) == ((), (), None, None)
    assert (parts.whole.hp_tasks, parts.whole.spot_eviction_rate) == (0, None)


def test_percentiles_by_group_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    values, group = rng.exponential(size=500), rng.integers(0, 7, 500)
    group[group == 3] = 2  # a group without values
    group[0], group[group == 6] = 6, 5  # and one with a single one
    group[0] = 6
    found = grouped_percentile(values, group, 7, 0.99)
    for i in range(7):
        assert found[i] == pytest.approx(np.percentile(values[group == i], 99) if (group == i).any() else 0.0)


class TestStory:
    def test_of_an_organization(self) -> None:
        story = organization_story(EVENTS, STORY, PARTS, "lab")
        assert (story.organizations, story.gpu_models) == (2, ("A100", "T4"))
        # 16 GPUs from 0 to 12690 and half of one from 100 to 1100; both at once from 100 on
        assert (story.spot.tasks, story.spot.peak, story.spot.peak_time) == (2, 16.5, 100.0)
        assert story.spot.mean == pytest.approx((16 * 12690 + 0.5 * 1000) / 12690)
        assert story.spot.held_gpu_hours == pytest.approx((16 * (5400 + 3660) + 0.5 * 1000) / 3600)
        assert story.hp.tasks == 0
        assert story.share_of_useful == pytest.approx((16 * 7200 + 0.5 * 1000) / 145880)
        assert story.evicted_by == PARTS.evictions
        assert story.evicts == ()
        assert story.longest_wait == LongestWait("s1", 16.0, 3630.0)
        assert story.ranks["spot_progress_rate"] == Rank(1, 1)
        assert "hp_jqt_mean" not in story.ranks

    def test_from_the_log_alone(self) -> None:
        """Guarantees and checkpoints are what is assumed; all of this story are the usual."""
        tasks = tasks_of_log(EVENTS, {}, 3600.0, 3600.0)
        assert break_down(EVENTS, tasks) == PARTS
        told = tasks_of_log(EVENTS, {"s1": (7200.0, 1800.0)}, 3600.0, 3600.0)
        parts = break_down(EVENTS, told)
        assert parts.whole.spot_guarantee_hit_rate == pytest.approx(2 / 3)  # 5400 s of two promised hours
        # Checkpoints every 1800 s: nothing of run 1 is lost, and what is useful is more than s1 needs
        assert parts.whole.spot_wasted_gpu_hours == pytest.approx(16 * 60 / 3600)

    def test_one_that_is_not_there(self) -> None:
        with pytest.raises(InputError, match="no organization 'lap' in the log: did you mean lab"):
            organization_story(EVENTS, STORY, PARTS, "lap")
        early = break_down(EVENTS, STORY, window=(20_000.0, None))
        with pytest.raises(InputError, match="'lab' submitted nothing that is counted"):
            organization_story(EVENTS, STORY, early, "lab")
