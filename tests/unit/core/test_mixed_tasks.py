"""Ports, topology keys, priorities and pods without GPUs, where runs are pending, leave or shrink."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import hp, nodes, play, rules_of, spot
from gfs import SCHEDULERS, Parameters, Role, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import EvictionDone, Finished, Lost, PodsOn, Shrunk, Submitted, Tick
from gfs.core.invariants import check_state
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
every_greedy_scheduler = pytest.mark.parametrize("scheduler", sorted(set(SCHEDULERS) - {"chronus"}))
PORT = ("TCP/80",)


def cluster(*sizes: int, scheduler: str = "gfs") -> Scheduler:
    return build_scheduler(scheduler, nodes(*sizes), Parameters(quota="none"), period=7200.0, check=True)


def run_of(scheduler: Scheduler, task: Task) -> Run:
    return scheduler.pools["A100"].state.runs[task.index]


@every_greedy_scheduler
def test_a_port_is_free_when_the_evicted_run_that_has_it_has_left(scheduler: str) -> None:
    """s has the port on both nodes. h takes all of n0; p finds the GPUs of n1 idle, but the port is held until 130."""
    live = cluster(8, 8, scheduler=scheduler)
    s, h = spot("s", gpus=1, pods=2, ports=PORT).task(0), hp("h", gpus=8, pods=1).task(1)
    other = hp("other", gpus=8).task(2)
    live.handle(0.0, [Submitted(s)])
    victim = run_of(live, s)
    live.handle(100.0, [Submitted(h)])
    p = hp("p", gpus=1, ports=PORT).task(3)
    live.handle(101.0, [Submitted(p)])
    assert run_of(live, p).start == 130.0
    live.handle(120.0, [EvictionDone(victim)])
    assert run_of(live, p).start == 120.0
    assert other.index not in live.pools["A100"].state.runs


def test_room_is_promised_only_to_those_that_wait_for_it() -> None:
    """p waits for a victim on n0, and has taken 4 idle GPUs of n1. The 4 of wide on n1 are not among these.

    At 110 wide is evicted for its 8 GPUs on n2. The rest of n1 is held by it until 140, whoever else waits.
    """
    live = cluster(8, 8, 8)
    drafts = [
        spot("first", gpus=8, only=("a",)),
        spot("wide", gpus=4, pods=2, only=("b", "c"), ports=PORT),
        hp("p", gpus=4, pods=3, only=("a", "b")),
        hp("r", gpus=8, only=("c",)),
        spot("q", gpus=4, only=("b",)),
    ]
    first, wide, p, r, q = (draft.task(index) for index, draft in enumerate(drafts))
    specs = [replace(node, group=group) for node, group in zip(nodes(8, 8, 8), "abc", strict=True)]
    live = build_scheduler("gfs", specs, Parameters(quota="none"), period=7200.0, check=True)
    live.handle(0.0, [Submitted(first)])
    live.handle(0.0, [Submitted(wide)])
    live.handle(100.0, [Submitted(p)])
    assert run_of(live, p).start == 130.0
    live.handle(110.0, [Submitted(r)])
    live.handle(115.0, [Submitted(q)])
    assert [run_of(live, task).start for task in (p, r, q)] == [130.0, 140.0, 140.0]


@pytest.mark.parametrize("scheduler", ["gfs", "gfs-plus", "static", "fgd"])
def test_the_first_guarantee_begins_when_the_victim_has_left(scheduler: str) -> None:
    """s2 gets GPUs that a victim holds until 4,000: its first hour ends at 7,600."""
    live = cluster(4, scheduler=scheduler)
    s, h, s2 = spot("s", gpus=4).task(0), hp("h", gpus=2).task(1), spot("s2", gpus=2).task(2)
    live.handle(0.0, [Submitted(s)])
    victim = run_of(live, s)
    live.handle(100.0, [Submitted(h), Submitted(s2)])
    state = live.pools["A100"].state
    assert run_of(live, s2).start == 130.0
    live.handle(4000.0, [EvictionDone(victim)])
    assert state.ledger.counts(3600.0, 7599.0).periods == 0
    assert state.ledger.counts(3600.0, 7600.0).periods == 1


@every_scheduler
def test_a_mixed_spot_task_is_counted_by_its_gpus_where_a_quota_is_short(scheduler: str) -> None:
    """One pod of 4 GPUs and four of none are 4 GPUs: half of the pool, and not 5 x 4."""
    roles = (Role(1, 4.0), Role(4, 0.0))
    story = play(nodes(8), hp("h", gpus=8, lasting=300), spot("s", roles=roles, at=10), scheduler=scheduler,
                 quota="fixed", quota_share=0.5)  # fmt: skip
    assert story.started("s") == [300.0]


@every_scheduler
def test_a_run_of_which_only_pods_without_gpus_are_left_goes_on(scheduler: str) -> None:
    live = cluster(8, 8, scheduler=scheduler)
    s, other = spot("s", roles=(Role(1, 4.0), Role(2, 0.0))).task(0), spot("o", gpus=1).task(1)
    live.handle(0.0, [Submitted(s), Submitted(other)])
    run, state = run_of(live, s), live.pools["A100"].state
    name = next(node.name for node, role, _, _ in run.places if role.cards)
    live.handle(10.0, [Shrunk(run, [PodsOn(name, 1, 0)])])
    assert (run.task.pods, run.task.gpus, state.pool.idle) == (2, 0, 15)
    check_state(state)
    live.handle(15.0, [Finished(run_of(live, other))])
    live.handle(20.0, [Lost(run)])
    live.handle(300.0, [Tick()])
    assert run_of(live, s).task.pods == 2


@pytest.mark.parametrize("lasting", [100, 900])
def test_the_lease_of_a_round_goes_to_the_higher_priority_though_it_waited_less(lasting: float) -> None:
    story = play(
        nodes(8),
        hp("busy", gpus=8, lasting=lasting),
        hp("low", gpus=8, at=10, urgency=-1),
        hp("high", gpus=8, at=250),
        scheduler="chronus",
    )
    assert story.started("high") < story.started("low")


def test_leases_stop_in_no_domain_while_another_one_has_idle_room() -> None:
    specs = [replace(node, labels=(("rack", f"r{node.index}"),)) for node in nodes(8, 8)]
    story = play(
        specs,
        spot("s", gpus=8, lasting=3000, only=("",)),
        hp("h", gpus=4, pods=2, at=10, topology="rack"),
        scheduler="chronus",
    )
    assert story.on("s") == ["n0"]
    assert story.on("h") == ["n1", "n1"]
    assert not story.victims()


def test_domains_are_compared_under_lyra_by_runs_that_are_off_their_nodes_already() -> None:
    """Each rack is on loan; of r0 two small tasks go, of r1 one: 1 is less than 2."""
    specs = [replace(node, labels=(("rack", f"r{node.index}"),)) for node in nodes(4, 4)]
    story = play(
        specs,
        spot("s1", gpus=2, lasting=900),
        spot("s2", gpus=2, lasting=900),
        spot("s3", gpus=4, lasting=900, at=1),
        hp("h", gpus=4, at=100, topology="rack"),
        scheduler="lyra",
    )
    assert story.victims() == ["s3"]
    assert story.on("h") == ["n1"]


def test_rules_of_a_draft_name_groups_and_ports() -> None:
    assert len(rules_of(("a",), PORT)) == 2
    assert rules_of() == ()
