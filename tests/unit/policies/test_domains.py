"""Topology domains: all pods of a task in one rack."""

from __future__ import annotations

from typing import Any

import pytest

from gfs import SCHEDULERS, NodeSpec, Parameters, Priority, Role, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import Plan
from gfs.core.events import Cancelled, PodsOn, Shrunk, Submitted
from gfs.core.invariants import check_state
from gfs.core.run import Run

GREEDY = sorted(set(SCHEDULERS) - {"chronus"})
every_scheduler = pytest.mark.parametrize("scheduler", GREEDY)
by_cost = pytest.mark.parametrize("scheduler", ["gfs", "gfs-plus"])


def rack(name: str, *sizes: int, first: int = 0) -> list[NodeSpec]:
    """Nodes of one rack; no label if it has no name."""
    labels = (("rack", name),) if name else ()
    return [NodeSpec(first + i, f"n{first + i}", "A100", size, labels=labels) for i, size in enumerate(sizes)]


class Live:
    """A scheduler that checks itself."""

    def __init__(self, scheduler: str, specs: list[NodeSpec]) -> None:
        self.scheduler = build_scheduler(scheduler, specs, Parameters(quota="none"), period=7200.0, check=True)
        self.tasks: dict[str, Task] = {}

    def submit(self, now: float, kind: Priority, name: str, pods: int, gpus: float, **more: Any) -> Plan:
        task = Task(len(self.tasks), name, "lab", "A100", kind, pods, float(gpus), now, **more)
        self.tasks[name] = task
        return self.tell(now, Submitted(task))

    def hp(self, now: float, name: str, pods: int, gpus: float, **more: Any) -> Plan:
        return self.submit(now, Priority.HP, name, pods, gpus, **{"topology_key": "rack", **more})

    def spot(self, now: float, name: str, pods: int, gpus: float, **more: Any) -> Plan:
        return self.submit(now, Priority.SPOT, name, pods, gpus, **more)

    def tell(self, now: float, *events: Any) -> Plan:
        plan = self.scheduler.handle(now, list(events))
        check_state(self.scheduler.pools["A100"].state)
        return plan

    def run(self, name: str) -> Run:
        return self.scheduler.pools["A100"].state.runs[self.tasks[name].index]

    def why(self, name: str) -> str:
        return next(reason.text() for task, reason in self.scheduler.waiting() if task.name == name)


def on(plan: Plan) -> list[str]:
    """The nodes of what starts, pod by pod."""
    return sorted(where.name for run in plan.starts for where, _, pods, _ in run.places for _ in range(pods))


def evicted(plan: Plan) -> list[str]:
    return sorted(eviction.run.task.name for eviction in plan.evictions)


@every_scheduler
@pytest.mark.parametrize("priority", list(Priority))
def test_the_tightest_rack_that_fits_is_taken(scheduler: str, priority: Priority) -> None:
    """r0 has room for four pods of 8, r1 for one, r2 for two."""
    specs = [*rack("r0", 8, 8, 8, 8), *rack("r1", 8, first=4), *rack("r2", 8, 8, first=5)]
    live = Live(scheduler, specs)
    assert on(live.submit(0, priority, "two", 2, 8, topology_key="rack")) == ["n5", "n6"]
    assert on(live.submit(1, priority, "one", 1, 8, topology_key="rack")) == ["n4"]
    assert len(on(live.submit(2, priority, "three", 3, 8, topology_key="rack"))) == 3
    assert not live.submit(3, priority, "late", 2, 8, topology_key="rack").starts


@every_scheduler
def test_a_task_does_not_spread_over_two_racks(scheduler: str) -> None:
    live = Live(scheduler, [*rack("r0", 8, 8), *rack("r1", 8, 8, first=2)])
    live.hp(0, "h0", 1, 8)
    live.hp(1, "h1", 1, 8)
    assert {live.run(name).nodes[0].spec.label("rack") for name in ("h0", "h1")} == {"r0"}, "the tightest one"
    live.hp(2, "h2", 1, 8)
    live.tell(2, Cancelled(live.tasks["h0"]))  # one node is left in each rack
    assert not live.hp(3, "gang", 2, 8).starts
    assert live.why("gang").startswith("pool A100: 16 idle GPUs, room for 1 of 2 pods of 8: 8 idle GPUs on n")
    assert ", but not in rack r" in live.why("gang")
    live.tell(4, Cancelled(live.tasks["gang"]))
    assert len(on(live.hp(5, "anywhere", 2, 8, topology_key=""))) == 2


@by_cost
def test_the_rack_whose_victims_cost_least_is_taken(scheduler: str) -> None:
    """In r0 two tasks of 8 have run for 3000 s, in r1 one task of two pods for 100 s."""
    live = Live(scheduler, [*rack("r0", 8, 8), *rack("r1", 8, 8, first=2)])
    live.spot(0, "a", 1, 8, topology_key="rack")
    live.spot(0, "b", 1, 8, topology_key="rack")
    live.spot(2900, "gang", 2, 8, topology_key="rack")
    plan = live.hp(3000, "h", 2, 8)
    assert (evicted(plan), on(plan)) == (["gang"], ["n2", "n3"])
    plan = live.hp(3001, "i", 2, 8)
    assert (evicted(plan), on(plan)) == (["a", "b"], ["n0", "n1"])
    assert not live.hp(3002, "j", 2, 8).evictions, "HP holds it all"


@every_scheduler
def test_nobody_is_evicted_where_no_rack_could_hold_it(scheduler: str) -> None:
    live = Live(scheduler, [*rack("r0", 8, 8), *rack("r1", 8, first=2)])
    for name in ("a", "b", "c"):
        live.spot(0, name, 1, 8)
    assert not live.hp(100, "three", 3, 8).evictions
    assert len(live.scheduler.pools["A100"].state.runs) == 3
    assert live.why("three").startswith(
        "pool A100: no idle GPU; without any spot task 2 of 3 pods would fit: 8 GPUs on"
    )


@every_scheduler
def test_nodes_without_the_label_are_in_no_domain(scheduler: str) -> None:
    live = Live(scheduler, [*rack("", 8, 8), *rack("r1", 4, first=2)])
    assert on(live.hp(0, "small", 1, 4)) == ["n2"]
    assert not live.hp(1, "large", 1, 8).starts
    other = Live(scheduler, rack("", 8, 8))
    assert not other.hp(0, "h", 1, 8).starts
    assert other.why("h") == "pool A100: no node has the label rack"


@every_scheduler
def test_all_roles_are_in_one_rack(scheduler: str) -> None:
    """r0 has the GPUs and too few CPUs for the coordinator, r1 both."""
    few = [NodeSpec(i, f"n{i}", "A100", 8, cpus=2.0, labels=(("rack", "r0"),)) for i in range(2)]
    many = [NodeSpec(i, f"n{i}", "A100", 8, cpus=8.0, labels=(("rack", "r1"),)) for i in range(2, 5)]
    live = Live(scheduler, few + many)
    plan = live.hp(0, "g", 0, 0, mixed=(Role(2, 8), Role(1, 0, cpus_per_pod=4.0)))
    assert {where.spec.label("rack") for where in plan.starts[0].nodes} == {"r1"}
    assert plan.starts[0].pods == 3


@every_scheduler
def test_a_task_in_a_rack_shrinks_and_is_evicted_like_any_other(scheduler: str) -> None:
    live = Live(scheduler, rack("r0", 4, 4))
    live.spot(0, "gang", 4, 2, topology_key="rack")
    live.tell(10, Shrunk(live.run("gang"), [PodsOn("n0", 1)]))
    assert [node.idle for node in live.scheduler.pools["A100"].state.nodes] == [2, 0]
    plan = live.hp(100, "h", 2, 4)
    assert (evicted(plan), on(plan)) == (["gang"], ["n0", "n1"])
    assert live.scheduler.pools["A100"].state.waiting[0].task.pods == 3
