"""What is learnt of how long spot runs last, from what is seen to happen."""

from __future__ import annotations

import pytest

from builders import Draft, hp, spot
from gfs.core.actions import Eviction, Plan
from gfs.core.reasons import Behind
from gfs.core.run import Run
from gfs.domain.units import HOUR
from gfs.policies.gfs.run_times import RunTimes, size_class


class Watched:
    """Run times, told what happens in the words of a test."""

    def __init__(self) -> None:
        self.times = RunTimes()
        self._runs: dict[int, Run] = {}

    def start(self, draft: Draft, index: int, at: float) -> None:
        plan = Plan()
        plan.starts.append(Run(draft.task(index), 1, [], at, 0.0))
        self._runs[index] = plan.starts[0]
        self.times.decided(plan, at)

    def finish(self, index: int, at: float) -> None:
        self.times.finished(self._runs[index], at)

    def evict(self, index: int, at: float) -> None:
        plan = Plan()
        run = self._runs[index]
        plan.evictions.append(Eviction(run, Behind(run.task)))
        self.times.decided(plan, at)

    def beyond(self, draft: Draft, hours: float, index: int = 999) -> float:
        return self.times.beyond(draft.task(index), hours)


def test_pods_of_up_to_one_card_of_some_and_of_a_node_and_gangs_apart() -> None:
    wishes = [(0.5, 1), (1, 1), (1, 4), (2, 1), (4, 2), (8, 1), (16, 1), (8, 10)]
    assert [size_class(spot("s", gpus=gpus, pods=pods).task()) for gpus, pods in wishes] == [
        0,
        0,
        1,
        2,
        3,
        4,
        4,
        5,
    ]


def test_nothing_is_known_at_first() -> None:
    assert Watched().beyond(spot("s"), 4.0) == 1.0


def test_a_run_that_ends_in_the_first_hour() -> None:
    seen = Watched()
    seen.start(spot("s"), 0, at=0.0)
    seen.finish(0, at=HOUR)  # an hour sharp is not beyond it
    # It counts in three groups: all 1/21, of its size (1 + 20/21) / 21, its organization's by the same again.
    first = 1 / 21
    second = (1 + 20 * first) / 21
    third = (1 + 20 * second) / 21
    assert seen.beyond(spot("s"), 1.0) == pytest.approx(1 - third)
    assert seen.beyond(spot("s", org="other"), 1.0) == pytest.approx(1 - second)
    assert seen.beyond(spot("s", gpus=8), 1.0) == pytest.approx(1 - first)


def test_runs_pass_from_hour_to_hour_while_they_last() -> None:
    seen = Watched()
    for index in range(40):
        seen.start(spot("s"), index, at=index)
    for index in range(10):
        seen.finish(index, at=3000.0 + index)
    seen.finish(10, at=1.5 * HOUR)
    # The edges are 5 and 30 minutes, 1, 2, 4 and 12 hours. Ten ended after 50 minutes, one after 90; 29 are still
    # in their second hour, at risk for half of it.
    first = seen.times._tables[(False,)]
    assert first.entered == [40, 40, 40, 30, 0, 0, 0]
    assert first.ended == [0, 0, 10, 1, 0, 0, 0]
    assert first.hazard(3, 0.0) == pytest.approx(1 / (30 - 29 / 2 + 20))
    seen.start(spot("late"), 50, at=10 * HOUR)
    assert first.entered == [41, 40, 40, 30, 29, 29, 0]


def test_an_evicted_run_is_no_short_one() -> None:
    seen, done = Watched(), Watched()
    for index in range(20):
        for watched in (seen, done):
            watched.start(spot("s"), index, at=0.0)
        seen.evict(index, at=600.0)
        done.finish(index, at=600.0)
    assert seen.beyond(spot("s"), 1.0) == 1.0
    assert done.beyond(spot("s"), 1.0) < 0.25


def test_after_an_eviction_a_task_is_compared_with_others_that_came_back() -> None:
    seen = Watched()
    for index in range(50):
        seen.start(spot("s"), index, at=0.0)
    for index in range(49):
        seen.finish(index, at=600.0)
    seen.evict(49, at=600.0)
    assert seen.beyond(spot("s"), 1.0) < 0.2
    assert seen.beyond(spot("s"), 1.0, index=49) == 1.0  # nobody was seen to come back so far


def test_other_edges_can_be_asked_for() -> None:
    assert RunTimes((3.0, 1.0)).hours == (1 / 12, 0.5, 1.0, 2.0, 3.0, 4.0, 12.0)


def test_hp_runs_say_nothing() -> None:
    seen = Watched()
    seen.start(hp("h"), 0, at=0.0)
    seen.finish(0, at=60.0)
    assert not seen.times._tables
