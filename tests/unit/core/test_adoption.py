"""Runs that nobody here started: what a scheduler takes over after a restart without a saved state."""

from __future__ import annotations

import pytest
from test_state import Live, started

from builders import hp, spot
from gfs import SCHEDULERS
from gfs.core.events import (
    Adopted,
    Cancelled,
    Finished,
    FoundRun,
    Lost,
    NodeChange,
    NodeChangeKind,
    NodesChanged,
    StartFailed,
    Submitted,
    Tick,
)
from gfs.domain.units import HOUR
from gfs.forecasting.meter import DemandMeter

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))


@every_scheduler
def test_cards_of_adopted_runs_are_given_to_nobody_else(scheduler: str) -> None:
    live = Live(4, 4, scheduler=scheduler)
    here, there, gang = (
        live.task(hp("h", gpus=2)),
        live.task(spot("s", gpus=1)),
        live.task(hp("g", gpus=1, pods=3)),
    )
    found = [
        FoundRun(here, [("n0", 1)], 100.0),
        FoundRun(there, [("n1", 1)], 50.0, 3),
        FoundRun(gang, [("n0", 2), ("n1", 1)], 200.0),
    ]
    plan = live.tell(300, Adopted(found), Tick())
    assert not plan.starts
    assert live.idle() == 2, "8 cards less 2, 1 and 3"
    assert live.run("s").number == 3
    assert {node.name: live.run("g").pods_on(node) for node in live.run("g").nodes} == {"n0": 2, "n1": 1}
    assert started(live.submit(600, hp("late", gpus=4))) == [], "there is no node with four cards"
    live.tell(900, Finished(live.run("h")), Finished(live.run("g")), Tick())
    assert [node.name for node in live.run("late").nodes] == ["n0"], "the node that is free now"
    assert live.idle() == 3


@every_scheduler
def test_a_task_that_waits_and_turns_out_to_run_waits_no_longer(scheduler: str) -> None:
    """Saved, then bound, then killed: the saved state says that it waits."""
    live = Live(2, scheduler=scheduler, quota="weekly-peak")
    live.submit(0, hp("first", gpus=2))
    live.submit(10, spot("second", gpus=2), hp("third", gpus=1))
    live.tell(300, Tick())
    live.tell(310, Finished(live.run("first")), Adopted([FoundRun(live.tasks["third"], [("n0", 1)], 305.0)]))
    assert "third" not in live.waits()
    assert live.run("third").start == 305.0
    assert live.part(DemandMeter).level().sum() == 1
    live.tell(600, Finished(live.run("third")), Cancelled(live.tasks["second"]), Tick())
    assert live.part(DemandMeter).level().sum() == 0
    assert live.waits() == {}


@every_scheduler
def test_what_is_known_already_is_passed_over(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, hp("a", gpus=2))
    before = live.run("a")
    live.tell(10, Adopted([FoundRun(live.tasks["a"], [("n0", 1)], 0.0)]))
    assert live.run("a") is before
    assert live.idle() == 2


@every_scheduler
def test_a_node_that_holds_more_than_it_has_takes_nothing_until_it_fits(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    one, two = live.task(hp("one", gpus=3)), live.task(hp("two", gpus=3))
    live.tell(300, Adopted([FoundRun(one, [("n0", 1)], 0.0), FoundRun(two, [("n0", 1)], 0.0)]))
    live.submit(310, hp("three", gpus=1))
    live.tell(600, Tick())
    assert "closed" not in live.waits()["three"]
    assert live.state().pool.capacity == 4
    live.tell(900, Lost(live.run("one")), Cancelled(one), Tick())
    assert live.run("three").nodes[0].name == "n0"
    assert live.idle() == 0


@every_scheduler
def test_a_run_on_a_node_that_is_not_there_is_lost(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    task = live.task(spot("s", gpus=1, pods=2))
    plan = live.tell(300, Adopted([FoundRun(task, [("n0", 1), ("gone", 1)], 100.0, 2)]))
    assert [(lost.run.task.name, lost.text()) for lost in plan.lost] == [("s", "node gone is not there")]
    live.tell(600, Tick())
    assert live.run("s").number == 3
    assert live.state().ledger.totals(700.0) == (0, 0)


def test_a_node_told_of_in_the_same_instant_is_there() -> None:
    live = Live(4)
    fresh = live.state().nodes[0].spec.__class__(1, "n1", "A100", 8)
    task = live.task(hp("h", gpus=8))
    added = NodesChanged([NodeChange(NodeChangeKind.ADDED, fresh)])
    assert not live.tell(5, Adopted([FoundRun(task, [("n1", 1)], 1.0)]), added).lost
    assert live.run("h").nodes[0].name == "n1"


def test_periods_before_the_adoption_do_not_count() -> None:
    """H = 1 h. One run is 90 minutes old when it is adopted, another 30: half an hour later
    each completes a period, and an hour after that once more."""
    live = Live(8)
    old, young = live.task(spot("old", gpus=1)), live.task(spot("young", gpus=1))
    live.tell(0, Adopted([FoundRun(old, [("n0", 1)], -1.5 * HOUR), FoundRun(young, [("n0", 1)], -0.5 * HOUR)]))
    ledger = live.state().ledger
    assert ledger.totals(0.0) == (0, 0)
    assert ledger.totals(0.5 * HOUR) == (0, 2)
    assert ledger.totals(1.5 * HOUR) == (0, 4)
    live.tell(1.75 * HOUR, Finished(live.run("old")))
    assert ledger.totals(1.75 * HOUR) == (0, 5), "its fourth period, which it was in, is kept"


@every_scheduler
def test_fractions_find_a_card_and_a_late_failure_is_no_harm(scheduler: str) -> None:
    live = Live(2, scheduler=scheduler, quota="weekly-peak")
    a, b, c = (live.task(spot(name, gpus=0.6)) for name in "abc")
    live.tell(300, Adopted([FoundRun(task, [("n0", 1)], 200.0) for task in (a, b)]))
    assert live.idle() == 0, "0.6 and 0.6 do not share a card"
    live.tell(310, StartFailed(live.run("b")), Submitted(c))
    assert live.state().waiting[b.index].number == 1
    assert live.idle() == 1
