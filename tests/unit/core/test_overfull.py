"""Nodes that hold more than they have: nothing is placed there, HP may evict there, and the counting is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import Draft, hp, spot
from gfs import SCHEDULERS, NodeSpec, Parameters, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import Plan
from gfs.core.events import (
    Adopted,
    EvictionDone,
    Finished,
    FoundRun,
    NodeChange,
    NodeChangeKind,
    NodesChanged,
    PodsOn,
    Shrunk,
    Submitted,
    Tick,
    Wake,
)
from gfs.core.node import Node
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.preemption import victims_on

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
GREEDY = sorted(set(SCHEDULERS) - {"chronus"})
every_greedy_scheduler = pytest.mark.parametrize("scheduler", GREEDY)
BY_RUN = sorted(set(GREEDY) - {"lyra"})
"""Those that evict the runs that are in the way, not all of a node."""
on_and_off = pytest.mark.parametrize("resources", ["on", "off"])


class Live:
    """One node n0 under a scheduler that checks itself after every instant."""

    def __init__(self, gpus: int = 8, *, scheduler: str = "gfs", resources: str = "off", **has: Any) -> None:
        self.spec = NodeSpec(0, "n0", "A100", gpus, **has)
        if resources == "on":  # more than GPUs is stated, so all nodes are asked for more than GPUs
            self.spec = replace(self.spec, resources=(("rdma/ib", 8.0),))
        parameters = Parameters(quota="none", resources=resources)
        self.scheduler = build_scheduler(scheduler, [self.spec], parameters, period=7200.0, check=True)
        self.tasks: dict[str, Task] = {}

    def task(self, draft: Draft) -> Task:
        return self.tasks.setdefault(draft.name, draft.task(len(self.tasks)))

    def submit(self, now: float, *drafts: Draft) -> Plan:
        return self.tell(now, *(Submitted(self.task(draft)) for draft in drafts))

    def tell(self, now: float, *events: Any) -> Plan:
        return self.scheduler.handle(now, list(events))

    def resize(self, now: float, **has: Any) -> Plan:
        self.spec = replace(self.spec, **has)
        return self.tell(now, NodesChanged([NodeChange(NodeChangeKind.RESIZED, self.spec)]))

    @property
    def state(self) -> PoolState:
        return self.scheduler.pools["A100"].state

    @property
    def node(self) -> Node:
        return self.state.nodes[0]

    def run(self, name: str) -> Run:
        return self.state.runs[self.tasks[name].index]


def started(plan: Plan) -> list[str]:
    return [run.task.name for run in plan.starts]


def evicted(plan: Plan) -> list[str]:
    return sorted(eviction.run.task.name for eviction in plan.evictions)


@on_and_off
@pytest.mark.parametrize("scheduler", BY_RUN)
@pytest.mark.parametrize(("asked", "victims", "left"), [(1, 1, 0), (2, 2, 3), (5, 2, 0), (6, 0, 0)])
def test_what_is_free_is_what_it_has_less_what_the_others_hold(
    scheduler: str, resources: str, asked: int, victims: int, left: int
) -> None:
    """8 GPUs held by A (4) and B (4), and 5 are left: without A 5 - 4 = 1 is free, without both 5."""
    live = Live(scheduler=scheduler, resources=resources)
    live.submit(0, spot("a", gpus=4), spot("b", gpus=4))
    live.resize(10, gpus=5)
    assert (live.node.idle, live.node.surplus, live.node.hp_free) == (0, 3, 5)
    assert live.state.pool.capacity == 5
    plan = live.submit(20, hp("h", gpus=asked))
    assert len(plan.evictions) == victims
    assert started(plan) == ["h"] * (victims > 0)
    assert live.node.idle == left
    if not victims:
        assert live.node.surplus == 3, "nobody was evicted in vain"


@on_and_off
def test_lyra_takes_back_the_whole_node(resources: str) -> None:
    live = Live(scheduler="lyra", resources=resources)
    live.submit(0, spot("a", gpus=4), spot("b", gpus=4))
    live.resize(10, gpus=5)
    assert evicted(live.submit(20, hp("h", gpus=1))) == ["a", "b"]
    assert live.node.idle == 4


@on_and_off
@pytest.mark.parametrize(("asked", "stopped"), [(1, 1), (2, 2), (5, 2)])
def test_leases_that_end_there_make_room_alike(resources: str, asked: int, stopped: int) -> None:
    live = Live(scheduler="chronus", resources=resources)
    live.submit(0, spot("a", gpus=4), spot("b", gpus=4))
    live.resize(10, gpus=5)
    live.submit(20, hp("h", gpus=asked))
    gone: list[str] = []
    for moment in range(300, 7200, 300):
        gone += evicted(live.tell(float(moment), Tick(), Wake()))
        if live.tasks["h"].index in live.state.runs:
            break
    assert len(gone) == stopped
    assert live.run("h").nodes == [live.node]


@on_and_off
@pytest.mark.parametrize("resized", [5, 7])
def test_hp_is_not_evicted_and_what_it_holds_too_much_is_missing(resources: str, resized: int) -> None:
    """HP holds 6 and a spot run 2. With 5 GPUs no eviction helps; with 7 the spot run makes way for one GPU."""
    live = Live(resources=resources)
    live.submit(0, hp("h", gpus=6), spot("s", gpus=2))
    live.resize(10, gpus=resized)
    assert (live.node.hp_free, live.node.hp_surplus) == ((0, 1) if resized == 5 else (1, 0))
    plan = live.submit(20, hp("one", gpus=1))
    assert evicted(plan) == ([] if resized == 5 else ["s"])
    assert "closed" not in "".join(reason.text() for _, reason in live.scheduler.waiting())


@every_scheduler
@on_and_off
def test_cards_that_are_given_back_get_idle_beyond_the_deficit(scheduler: str, resources: str) -> None:
    """Four runs of 2 on 8 GPUs, 3 are left: 8, 6, 4, 2 held, so 0, 0, 0, 1 idle; then 3."""
    live = Live(scheduler=scheduler, resources=resources)
    live.submit(0, *(hp(f"h{i}", gpus=2) for i in range(4)))
    live.tell(300, Tick())
    live.resize(310, gpus=3)
    seen = [(live.node.idle, live.node.surplus)]
    for i in range(4):
        live.tell(320 + i, Finished(live.run(f"h{i}")))
        seen.append((live.node.idle, live.node.surplus))
    assert seen == [(0, 5), (0, 3), (0, 1), (1, 0), (3, 0)]
    live.submit(400, hp("last", gpus=3))
    live.tell(600, Tick())
    assert live.run("last").nodes == [live.node]
    assert live.node.idle == 0


@every_scheduler
@on_and_off
def test_nothing_is_placed_there_and_it_is_used_as_soon_as_it_fits(scheduler: str, resources: str) -> None:
    live = Live(4, scheduler=scheduler, resources=resources)
    live.submit(0, hp("a", gpus=2), hp("b", gpus=2))
    live.tell(300, Tick())
    live.resize(310, gpus=3)
    live.submit(320, hp("c", gpus=1), spot("s", gpus=0.5))
    live.tell(600, Tick())
    assert not {"c", "s"} & {run.task.name for run in live.state.runs.values()}
    live.tell(900, Finished(live.run("a")), Tick())
    assert live.run("c").nodes == [live.node]
    assert (live.node.idle, live.node.overfull) == (0, False)


@every_scheduler
def test_a_run_that_shrinks_gives_back_what_was_missing_first(scheduler: str) -> None:
    live = Live(scheduler=scheduler)
    live.submit(0, spot("gang", gpus=1, pods=8))
    live.tell(300, Tick())
    live.resize(310, gpus=5)
    live.tell(320, Shrunk(live.run("gang"), [PodsOn("n0", 2)]))
    assert (live.node.idle, live.node.surplus) == (0, 1)
    live.tell(330, Shrunk(live.run("gang"), [PodsOn("n0", 3)]))
    assert (live.node.idle, live.node.surplus) == (2, 0)


@pytest.mark.parametrize(
    ("has", "asks", "victims"),
    [
        ({"cpus": 20.0}, {"cpus": 4.0}, ["b"]),
        ({"cpus": 20.0}, {"cpus": 5.0}, ["a", "b"]),
        ({"cpus": 20.0}, {}, ["b"]),
        ({"cpus": 15.0}, {}, ["a", "b"]),
        ({"memory": 40.0}, {"memory": 8.0}, ["b"]),
        ({"memory": 40.0}, {"memory": 9.0}, ["a", "b"]),
        ({"pods": 1}, {}, ["a", "b"]),
    ],
)
@pytest.mark.parametrize("scheduler", BY_RUN)
def test_cpus_memory_and_pods_may_be_less_than_nothing(
    scheduler: str, has: dict[str, Any], asks: dict[str, Any], victims: list[str]
) -> None:
    """A and B hold 16 CPUs and 32 GiB each of 32 and 64; then the node has fewer. Four GPUs are idle all the time."""
    live = Live(scheduler=scheduler, resources="on", cpus=32.0, memory=64.0, pods=10)
    live.submit(0, spot("a", gpus=2, cpus=16, memory=32), spot("b", gpus=2, cpus=16, memory=32))
    live.resize(10, **has)
    assert live.node.overfull
    assert live.node.idle == 4
    assert not live.submit(15, spot("other", gpus=1)).starts, "not even one that asks for GPUs alone"
    plan = live.submit(20, hp("h", gpus=1, **asks))
    assert len(evicted(plan)) == len(victims)
    assert started(plan)[0] == "h"


def test_what_is_short_is_said_in_numbers() -> None:
    live = Live(resources="on", cpus=32.0)
    live.submit(0, hp("a", gpus=2, cpus=16), hp("b", gpus=2, cpus=16))
    live.resize(10, cpus=20.0)
    live.submit(20, spot("s", gpus=1))
    live.submit(21, hp("h", gpus=1, cpus=1))
    said = {task.name: reason.text() for task, reason in live.scheduler.waiting()}
    assert said["s"] == "pool A100: 4 idle GPUs on n0, but 32 CPUs are in use, more than its 20"
    asked = live.tasks["h"]
    assert live.state.pool.short_of(live.node, asked, without_spot=True) == "32 CPUs are in use by HP, more than its 20"
    live.tell(30, Finished(live.run("a")))
    assert not live.state.waiting


@every_greedy_scheduler
@on_and_off
def test_runs_that_are_found_may_hold_more(scheduler: str, resources: str) -> None:
    live = Live(4, scheduler=scheduler, resources=resources)
    found = [FoundRun(live.task(spot(name, gpus=3)), [PodsOn("n0", 1)], 0.0) for name in ("a", "b")]
    live.tell(10, Adopted(found))
    assert (live.node.idle, live.node.surplus) == (0, 2)
    plan = live.submit(20, hp("h", gpus=4))
    assert evicted(plan) == ["a", "b"]
    assert started(plan) == ["h"]


@every_greedy_scheduler
@on_and_off
def test_fractions_hold_cards_too(scheduler: str, resources: str) -> None:
    """Three GPUs with a half of HP on one, a half of spot on another, a whole one of spot; then one is left.

    HP gets its other half once both spot runs have gone, and no whole GPU.
    """
    live = Live(3, scheduler=scheduler, resources=resources)
    found = [
        FoundRun(live.task(hp("h", gpus=0.5)), [PodsOn("n0", 1)], 0.0),
        FoundRun(live.task(spot("w", gpus=1)), [PodsOn("n0", 1)], 1.0),
        FoundRun(live.task(spot("f", gpus=0.6)), [PodsOn("n0", 1)], 2.0),
    ]
    live.tell(10, Adopted(found))
    live.resize(20, gpus=1)
    assert (live.node.surplus, live.node.room, live.node.hp_free) == (2, 0, 0)
    assert not live.submit(25, spot("s", gpus=0.2)).starts
    assert not live.submit(30, hp("whole", gpus=1)).evictions
    if scheduler == "lyra":
        return  # a node with HP is not on loan: nobody is evicted there
    live.tell(35, *(Finished(live.run(name)) for name in ("w",)))
    assert (live.node.surplus, live.node.room) == (1, 0)
    plan = live.submit(40, hp("half", gpus=0.5))
    if scheduler == "yarn-cs":
        assert not plan.starts, "it stands behind the first in the queue"
    else:
        assert (evicted(plan), started(plan)) == (["f"], ["half"])


def test_a_start_there_waits_for_all_victims() -> None:
    """A (4) and B (4) hold 8 of 5 GPUs: a pod of 2 has room when both have left."""
    live = Live()
    live.submit(0, spot("a", gpus=4), spot("b", gpus=4))
    live.resize(10, gpus=5)
    plan = live.submit(20, hp("h", gpus=2))
    (taker,), victims = plan.starts, [eviction.run for eviction in plan.evictions]
    assert {run: left.takers for run, left in live.state.leaving.items()} == {run: [taker] for run in victims}
    live.tell(30, EvictionDone(victims[0]))
    assert live.state.pending == {taker: 1}
    live.tell(40, EvictionDone(victims[1]))
    assert (live.state.pending, taker.start) == ({}, 40)


def test_a_restart_leaves_what_is_idle() -> None:
    """5 GPUs are left, B has 4 of them and A is done. One is idle, also after a rebuild."""
    live = Live()
    live.submit(0, spot("a", gpus=4), spot("b", gpus=4))
    live.resize(10, gpus=5)
    live.tell(20, Finished(live.run("a")))
    held = list(live.run("b").places)
    assert live.node.idle == 1
    live.scheduler.pools["A100"].rebuild()
    assert (live.run("b").places, live.node.idle) == (held, 1)


def test_the_search_counts_the_deficit() -> None:
    live = Live()
    live.submit(0, spot("a", gpus=4), spot("b", gpus=3), hp("h", gpus=1))
    live.resize(10, gpus=5)
    pool, node = live.state.pool, live.node
    order = [live.run("b"), live.run("a")]  # b is spared first
    for cards, victims in ((1, ["a"]), (2, ["a", "b"]), (4, ["a", "b"])):
        task = hp("x", gpus=cards).task(99)
        assert pool.could_hold(node, task)
        assert sorted(run.task.name for run in victims_on(pool, node, task, order)) == victims
        chosen = GfsPreemptor(live.state, period=7200.0).choose(task, 20.0)
        assert chosen is not None
        assert len(chosen.runs) == len(victims)
    assert not pool.could_hold(node, hp("x", gpus=5).task(99))
