"""Runs that are better left alone, and runs that go together."""

from __future__ import annotations

import pytest
from test_state import Live

from builders import hp, spot
from gfs.assembly.schedulers import SCHEDULERS, has_leases
from gfs.core.events import DisruptionRules

ALL = [name for name, definition in SCHEDULERS.items() if not has_leases(definition)]


def protect(live: Live, *names: str, together: tuple[str, ...] = ()) -> None:
    runs = [live.run(name) for name in together]
    live.tell(700, DisruptionRules(frozenset(live.run(name) for name in names), dict.fromkeys(runs, runs)))


def evicted(plan) -> set[str]:
    return {eviction.run.task.name for eviction in plan.evictions}


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("kept", ["first", "second", "third"])
def test_others_go_as_long_as_that_makes_room(scheduler: str, kept: str) -> None:
    live = Live(8, 8, 8, scheduler=scheduler, quota="none")
    for at, name in enumerate(("first", "second", "third")):
        live.submit(at, spot(name, gpus=8))
    protect(live, kept)
    gone = evicted(live.submit(1000, hp("urgent", gpus=8)))
    assert len(gone) == 1
    assert kept not in gone
    assert kept not in evicted(live.submit(1100, hp("next", gpus=8)))


@pytest.mark.parametrize("scheduler", ALL)
def test_it_is_a_wish_and_no_ban(scheduler: str) -> None:
    live = Live(8, scheduler=scheduler, quota="none")
    live.submit(0, spot("only", gpus=8))
    protect(live, "only")
    (eviction,) = live.submit(1000, hp("urgent", gpus=8)).evictions
    assert "against its disruption budget" in eviction.reason.text()


def test_two_small_ones_go_before_a_protected_one() -> None:
    live = Live(8, scheduler="gfs", quota="none")
    live.submit(0, spot("large", gpus=4))
    for name in ("a", "b"):
        live.submit(1, spot(name, gpus=2))
    protect(live, "large")
    assert evicted(live.submit(1000, hp("urgent", gpus=4))) == {"a", "b"}


@pytest.mark.parametrize("scheduler", ["gfs", "gfs-plus", "yarn-cs"])
def test_what_goes_together_goes_whole_or_stays_whole(scheduler: str) -> None:
    live = Live(8, 8, 8, scheduler=scheduler, quota="none")
    live.submit(0, spot("leader", gpus=8))
    live.submit(1, spot("worker", gpus=8))
    live.submit(2, spot("other", gpus=8))
    protect(live, "other", together=("leader", "worker"))
    assert evicted(live.submit(1000, hp("urgent", gpus=8))) == {"leader", "worker"}
    assert live.run("other").alive
