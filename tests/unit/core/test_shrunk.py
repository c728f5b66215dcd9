"""Some pods of a run have ended: it gives back exactly what they held, and goes on as a smaller task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import Draft, hp, nodes, spot
from gfs import SCHEDULERS, NodeSpec, Parameters, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import Plan
from gfs.core.events import (
    Cancelled,
    EvictionDone,
    Finished,
    Lost,
    NodeChange,
    NodeChangeKind,
    NodesChanged,
    PodsOn,
    Shrunk,
    StartFailed,
    Submitted,
    Tick,
    in_order,
)
from gfs.core.node import WHOLE
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.units import MICRO
from gfs.forecasting.meter import DemandMeter

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
on_and_off = pytest.mark.parametrize("resources", ["on", "off"])
every_greedy_scheduler = pytest.mark.parametrize("scheduler", sorted(set(SCHEDULERS) - {"chronus"}))


class Live:
    """A scheduler that checks itself after every instant, and the tasks it was told of."""

    def __init__(self, *machines: int | NodeSpec, scheduler: str = "gfs", **parameters: Any) -> None:
        specs = [m if isinstance(m, NodeSpec) else nodes(m, first=i)[0] for i, m in enumerate(machines)]
        specs = [replace(spec, name=f"n{i}", index=i) for i, spec in enumerate(specs)]
        parameters.setdefault("quota", "none")
        self.scheduler = build_scheduler(scheduler, specs, Parameters(**parameters), period=7200.0, check=True)
        self.tasks: dict[str, Task] = {}

    def submit(self, now: float, *drafts: Draft) -> Plan:
        for draft in drafts:
            self.tasks[draft.name] = draft.task(len(self.tasks))
        return self.tell(now, *(Submitted(self.tasks[draft.name]) for draft in drafts))

    def tell(self, now: float, *events: Any) -> Plan:
        return self.scheduler.handle(now, list(events))

    @property
    def state(self) -> PoolState:
        return self.scheduler.pools["A100"].state

    def run(self, name: str) -> Run:
        return self.state.runs[self.tasks[name].index]

    def idle(self) -> list[int]:
        return [node.idle for node in self.state.nodes]


def started(plan: Plan) -> list[str]:
    return [run.task.name for run in plan.starts]


def evicted(plan: Plan) -> list[str]:
    return [eviction.run.task.name for eviction in plan.evictions]


@every_scheduler
@pytest.mark.parametrize("priority", [hp, spot])
def test_it_gives_back_what_the_pods_held(scheduler: str, priority: Any) -> None:
    """Five pods of one card on two nodes of four: four on the first, one on the second."""
    live = Live(4, 4, scheduler=scheduler)
    live.submit(0, priority("gang", gpus=1, pods=5))
    live.tell(300, Tick())
    run, before = live.run("gang"), live.run("gang").task
    (full,) = [node for node in run.nodes if run.pods_on(node) == 4]
    (other,) = [node for node in run.nodes if run.pods_on(node) == 1]
    live.tell(310, Shrunk(run, [PodsOn(full.name, 3)]))
    assert live.run("gang") is run
    assert (run.task.pods, run.task.gpus, run.task.index, run.task.name) == (2, 2.0, before.index, "gang")
    assert (run.pods_on(full), run.pods_on(other)) == (1, 1)
    assert (full.idle, other.idle) == (3, 3)
    assert live.state.pool.spot_held(0) == (2 * MICRO if before.is_spot else 0)
    live.tell(320, Shrunk(run, [PodsOn(other.name, 1)]))
    assert run.nodes == [full]
    assert (full.idle, other.idle) == (3, 4)
    live.tell(330, Finished(run))
    assert live.idle() == [4, 4]
    assert live.state.pool.spot_in_use == {}


@pytest.mark.parametrize(
    ("pods", "left"),
    [
        ([PodsOn("n0", 1)], 3),
        ([PodsOn("n0", 1), PodsOn("n1", 1)], 2),
        ([PodsOn("n0", 1), PodsOn("n0", 1)], 2),
        ([PodsOn("n0", 7), PodsOn("elsewhere", 1)], 2),
        ([PodsOn("n1", 2), PodsOn("n0", 1)], 1),
        ([PodsOn("n0", 2), PodsOn("n1", 2)], 4),
        ([PodsOn("n0", 9), PodsOn("n1", 9)], 4),
        ([PodsOn("elsewhere", 1)], 4),
        ([], 4),
    ],
)
def test_pods_that_it_does_not_have_are_passed_over_and_so_is_an_end(pods: list[PodsOn], left: int) -> None:
    """Two pods on each of two nodes. All of them at once is no shrinking: then nothing is believed."""
    live = Live(2, 2)
    live.submit(0, spot("gang", gpus=1, pods=4))
    live.tell(10, Shrunk(live.run("gang"), pods))
    assert live.run("gang").task.pods == left
    assert sum(live.idle()) == 4 - left


def test_several_pods_in_one_place_leave_one_by_one() -> None:
    live = Live(8)
    live.submit(0, hp("gang", gpus=2, pods=4))
    run = live.run("gang")
    assert [(node.name, pods, slot) for node, _, pods, slot in run.places] == [("n0", 4, WHOLE)]
    live.tell(10, Shrunk(run, [PodsOn("n0", 3)]))
    assert [(node.name, pods, slot) for node, _, pods, slot in run.places] == [("n0", 1, WHOLE)]
    assert live.idle() == [6]


def test_fractions_leave_one_by_one() -> None:
    """Three halves: two on the first card, one on the second. The last goes first, then a half of the first card."""
    live = Live(2)
    live.submit(0, spot("parts", gpus=0.5, pods=3))
    run = live.run("parts")
    (node,) = run.nodes
    live.tell(10, Shrunk(run, [PodsOn("n0", 1)]))
    assert (node.idle, node.room, run.task.micro) == (1, 0, MICRO)
    live.tell(20, Shrunk(run, [PodsOn("n0", 1)]))
    assert (node.idle, node.room, live.state.pool.spot_in_use) == (1, MICRO // 2, {1.0: MICRO // 2})
    assert run in node.spot


def test_cpus_memory_and_pods_are_given_back() -> None:
    spec = NodeSpec(0, "n0", "A100", 8, cpus=32.0, memory=64.0, pods=4)
    live = Live(spec, resources="on")
    live.submit(0, spot("gang", gpus=1, pods=3, cpus=8, memory=16))
    (node,) = live.state.nodes
    assert node.free == {"cpus": 8, "memory": 16, "pods": 1}
    live.tell(10, Shrunk(live.run("gang"), [PodsOn("n0", 2)]))
    assert node.free == {"cpus": 24, "memory": 48, "pods": 3}
    assert node.spot_use == {"cpus": 8, "memory": 16, "pods": 1}
    assert started(live.submit(20, hp("h", gpus=4, cpus=24))) == ["h"]


@every_scheduler
def test_the_room_is_used_in_the_same_instant(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, hp("gang", gpus=1, pods=4))
    live.tell(300, Tick())
    live.submit(310, hp("next", gpus=2))
    live.tell(600, Shrunk(live.run("gang"), [PodsOn("n0", 2)]), Tick())
    assert live.run("next").task.pods == 1
    assert live.idle() == [0]


@every_scheduler
def test_demand_falls_with_the_pods(scheduler: str) -> None:
    live = Live(8, scheduler=scheduler, quota="weekly-peak")
    live.submit(0, hp("h", gpus=1, pods=6), spot("s", gpus=1))
    live.tell(300, Tick())
    meter = next(
        tell.__self__
        for tell in live.state.listeners.shrunk
        if isinstance(getattr(tell, "__self__", None), DemandMeter)
    )
    assert meter.level().sum() == 6
    live.tell(310, Shrunk(live.run("h"), [PodsOn("n0", 4)]))
    assert meter.level().sum() == 2
    live.tell(320, Finished(live.run("h")))
    assert meter.level().sum() == 0


@every_scheduler
@pytest.mark.parametrize("priority", [hp, spot])
@pytest.mark.parametrize("end", [Lost, StartFailed])
def test_one_that_is_lost_waits_with_what_was_left(scheduler: str, priority: Any, end: Any) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, priority("gang", gpus=1, pods=4))
    live.tell(300, Tick())
    run = live.run("gang")
    live.tell(310, Shrunk(run, [PodsOn("n0", 3)]))
    live.tell(320, end(run), NodesChanged([NodeChange(NodeChangeKind.CORDONED, live.state.nodes[0].spec)]))
    (waiting,) = live.state.waiting.values()
    assert (waiting.task.pods, waiting.number) == (1, 2 if end is Lost else 1)
    live.tell(600, NodesChanged([NodeChange(NodeChangeKind.UNCORDONED, live.state.nodes[0].spec)]), Tick())
    assert live.run("gang").task.pods == 1
    assert live.idle() == [3]
    live.tell(610, Cancelled(live.tasks["gang"]))
    assert live.idle() == [4]


@every_greedy_scheduler
def test_a_victim_waits_with_what_was_left_and_can_be_withdrawn(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, spot("gang", gpus=1, pods=4))
    live.tell(10, Shrunk(live.run("gang"), [PodsOn("n0", 1)]))
    plan = live.submit(20, hp("h", gpus=4))
    assert evicted(plan) == ["gang"]
    (eviction,) = plan.evictions
    assert eviction.reason.gpus == 3  # type: ignore[attr-defined]
    (waiting,) = live.state.waiting.values()
    assert waiting.task.pods == 3
    live.tell(30, Cancelled(live.tasks["gang"]))
    assert not live.state.waiting


@every_greedy_scheduler
def test_a_start_that_waits_for_its_victims_gives_back_at_once(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, spot("s", gpus=4))
    plan = live.submit(10, hp("h", gpus=1, pods=4))
    (run,), (victim,) = plan.starts, [eviction.run for eviction in plan.evictions]
    live.tell(15, Shrunk(run, [PodsOn("n0", 1)]))
    assert live.idle() == [1]
    assert run in live.state.pending
    (again,) = live.tell(20, StartFailed(run)).starts
    assert (again.task.pods, again.start) == (3, 40), "the victim is still there"
    assert live.idle() == [1]
    live.tell(35, EvictionDone(victim))
    assert again.start == 35


def test_what_is_over_or_leaves_does_not_shrink() -> None:
    live = Live(4)
    live.submit(0, spot("s", gpus=1, pods=4))
    run = live.run("s")
    live.submit(10, hp("h", gpus=4))
    live.tell(15, Shrunk(run, [PodsOn("n0", 1)]))
    assert run.task.pods == 4
    assert live.state.waiting[run.task.index].task.pods == 4


@every_scheduler
def test_pods_leave_a_node_that_takes_no_others(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, spot("gang", gpus=1, pods=4))
    live.tell(300, Tick())
    spec = live.state.nodes[0].spec
    live.tell(310, NodesChanged([NodeChange(NodeChangeKind.CORDONED, spec)]))
    live.tell(320, Shrunk(live.run("gang"), [PodsOn("n0", 3)]))
    assert live.idle() == [0]
    live.tell(330, NodesChanged([NodeChange(NodeChangeKind.UNCORDONED, spec)]))
    assert live.idle() == [3]


@on_and_off
def test_victims_are_chosen_by_what_is_left(resources: str) -> None:
    """A gang of 16 cards shrinks to one: to stop it wastes an eighth of what any of 30 tasks of 8 cards would."""
    has = {"cpus": 32.0} if resources == "on" else {}
    live = Live(*(NodeSpec(i, f"n{i}", "A100", 8, **has) for i in range(32)), scheduler="gfs")
    live.submit(0, spot("gang", gpus=1, pods=16))
    live.submit(1, *(spot(f"s{i:02}", gpus=8) for i in range(30)))
    run, pod = live.run("gang"), hp("h").task(99)
    preemptor = live.scheduler.pools["A100"].policy._preemptor  # type: ignore[attr-defined]
    assert preemptor.choose(pod, 600.0).runs != [run]
    first, second = run.nodes
    live.tell(700, Shrunk(run, [PodsOn(first.name, 8), PodsOn(second.name, 7)]))
    assert started(live.submit(800, hp("eight", gpus=8), hp("seven", gpus=7))) == ["eight", "seven"]
    assert preemptor.choose(pod, 900.0).runs == [run]
    assert run.waste(900.0) == 900


def test_it_comes_after_ends_and_before_withdrawals() -> None:
    live = Live(4)
    live.submit(0, spot("a", gpus=1, pods=2), spot("b", gpus=1, pods=2))
    a, b = live.run("a"), live.run("b")
    events = [Cancelled(a.task), Shrunk(b, ()), Shrunk(a, ()), Lost(b), Tick()]
    assert [type(event) for event in in_order(events)] == [Lost, Shrunk, Shrunk, Cancelled, Tick]
    assert in_order(events)[1].run is a  # type: ignore[union-attr]
