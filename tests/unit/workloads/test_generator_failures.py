"""Failures of made-up nodes: their times, and what they leave alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gfs import InputError, NodeEvent, Workload, generate
from gfs.workloads import write_trace

DAY, HOUR = 86_400.0, 3600.0


def by_node(workload: Workload) -> dict[str, list[NodeEvent]]:
    found: dict[str, list[NodeEvent]] = {}
    for event in workload.node_events:
        found.setdefault(event.node, []).append(event)
    return found


@pytest.fixture(scope="module")
def weeks() -> Workload:
    """A hundred nodes for 36.5 days: about 100 x 36.5 / 1 failures, a little less for the time under repair."""
    return generate("demo", nodes=100, days=36.5, spot_scale=0, mtbf_days=1, mttr_hours=1.2)


def test_tasks_and_nodes_are_the_same_without_failures(tmp_path: Path) -> None:
    with_failures = write_trace(generate("demo", seed=4, mtbf_days=2), tmp_path / "with")
    without = write_trace(generate("demo", seed=4), tmp_path / "without")
    for one, other in zip(with_failures, without, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert generate("demo").node_events == ()


def test_a_node_fails_is_repaired_and_only_then_fails_again(weeks: Workload) -> None:
    for events in by_node(weeks).values():
        assert [event.event for event in events] == ["fail", "repair"] * (len(events) // 2)
        assert all(a.time < b.time for a, b in pairwise(events))


def test_all_failures_are_inside_the_trace_and_all_are_repaired(weeks: Workload) -> None:
    fails = [event.time for event in weeks.node_events if event.event == "fail"]
    repairs = [event.time for event in weeks.node_events if event.event == "repair"]
    assert max(fails) < 36.5 * DAY < max(repairs)
    assert len(fails) == len(repairs)


def test_mean_times(weeks: Workload) -> None:
    """3,476 = 100 x 36.5 / 1.05 failures: the mean of so many exponential times is known to about 1.7%."""
    service, repair = [], []
    for events in by_node(weeks).values():
        lengths = np.diff([0.0, *(event.time for event in events)])
        service += lengths[::2].tolist()
        repair += lengths[1::2].tolist()
    assert len(repair) == pytest.approx(3476, rel=0.05)
    assert np.mean(service) == pytest.approx(1 * DAY, rel=0.05)
    assert np.mean(repair) == pytest.approx(1.2 * HOUR, rel=0.05)
    # exponential: the standard deviation is the mean, and 1 in e lasts longer than it
    assert np.std(repair) == pytest.approx(1.2 * HOUR, rel=0.1)
    assert np.mean(np.array(repair) > 1.2 * HOUR) == pytest.approx(np.exp(-1), abs=0.03)


def test_events_are_in_order_and_in_whole_seconds(weeks: Workload) -> None:
    times = [event.time for event in weeks.node_events]
    assert times == sorted(times)
    assert all(time.is_integer() for time in times)


def test_the_same_seed_gives_the_same_failures_and_more_nodes_leave_them() -> None:
    small = generate("demo", nodes=20, seed=1, mtbf_days=2)
    assert small.node_events == generate("demo", nodes=20, seed=1, mtbf_days=2).node_events
    assert small.node_events != generate("demo", nodes=20, seed=2, mtbf_days=2).node_events
    large = by_node(generate("demo", nodes=40, seed=1, mtbf_days=2))
    assert all(large[node] == events for node, events in by_node(small).items())


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"mtbf_days": 0.0}, "between failures must be at least 1/24 days"),
        ({"mtbf_days": float("nan")}, "between failures"),
        ({"mtbf_days": 5.0, "mttr_hours": 0.0}, "repair must be above 0 hours, not 0"),
        ({"mtbf_days": 5.0, "mttr_hours": float("inf")}, "repair must be above 0"),
    ],
)
def test_wishes_that_cannot_be_met(wishes: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        generate("demo", mtbf_days=wishes["mtbf_days"], mttr_hours=wishes.get("mttr_hours", 4.0))
