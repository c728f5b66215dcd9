"""Tasks of several roles and resources by name: all pods or none, with pods that ask for no GPU."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_resources import GREEDY, Live, evicted, node

from gfs import NodeRule, Parameters, Priority, Role, Task, Workload, simulate
from gfs.assembly.schedulers import build_scheduler
from gfs.assembly.snapshot import load_state, save_state
from gfs.core.actions import Plan
from gfs.core.events import Adopted, EvictionDone, Finished, FoundRun, PodsOn, Shrunk
from gfs.core.filters.ports import PortRule

every_greedy_scheduler = pytest.mark.parametrize("scheduler", GREEDY)
BY_RUN = sorted(set(GREEDY) - {"lyra"})
"""Those that evict the runs that are in the way, not all of a node."""


def gang(workers: int = 2, gpus: float = 8, cpus: float = 4.0, **more: Any) -> tuple[Role, ...]:
    """Some workers, and a coordinator without a GPU."""
    return Role(workers, gpus, cpus_per_pod=more.pop("each", 0.0)), Role(1, 0, cpus_per_pod=cpus, **more)


def by_role(plan: Plan) -> list[tuple[int, str, int]]:
    """Role, node and number of pods of what starts."""
    found = Counter[tuple[int, str]]()
    for where, role, pods, _ in (place for run in plan.starts for place in run.places):
        found[role.number, where.name] += pods
    return sorted((number, name, pods) for (number, name), pods in found.items())


@every_greedy_scheduler
@pytest.mark.parametrize("priority", list(Priority))
def test_all_roles_start_together_or_not_at_all(scheduler: str, priority: Priority) -> None:
    """Two nodes for the workers, and CPUs for the coordinator on the third only."""
    specs = [node("n0", cpus=2.0), node("n1", cpus=2.0), node("n2", 1, cpus=16.0)]
    live = Live(scheduler, *specs)
    plan = live.submit(0, priority, "g", mixed=gang())
    assert by_role(plan) == [(0, "n0", 1), (0, "n1", 1), (1, "n2", 1)]
    assert (plan.starts[0].task.pods, plan.starts[0].task.gpus) == (3, 16.0)
    without = Live(scheduler, *specs[:2])
    assert not without.submit(0, priority, "g", mixed=gang()).starts
    assert [each.idle for each in without.scheduler.pools["A100"].state.nodes] == [8, 8]
    assert "2 of 2 CPUs free, pod asks 4" in without.why("g")


@every_greedy_scheduler
def test_a_role_without_gpus_takes_a_full_node_as_well(scheduler: str) -> None:
    live = Live(scheduler, node("n0", cpus=64.0))
    live.hp(0, "full", 8)
    assert not live.hp(1, "g", mixed=gang(1, 1)).starts
    live.give_up(1, "g")
    other = Live(scheduler, node("n0", cpus=64.0))
    assert by_role(other.hp(0, "g", mixed=gang(4, 2))) == [(0, "n0", 4), (1, "n0", 1)]
    assert other.run("g").nodes[0].free == {"cpus": 60.0}


@pytest.mark.parametrize("scheduler", BY_RUN)
def test_victims_for_the_workers_and_for_the_coordinator(scheduler: str) -> None:
    """Two nodes are full of spot work, and the CPUs of n2 are held by a third spot task."""
    live = Live(scheduler, node("n0", cpus=2.0), node("n1", cpus=2.0), node("n2", 1, cpus=16.0))
    live.spot(0, "s0", 8)
    live.spot(1, "s1", 8)
    live.spot(2, "cpus", 1, cpus_per_pod=14.0)
    plan = live.hp(100, "g", mixed=gang())
    assert sorted(evicted(plan)) == ["cpus", "s0", "s1"]
    assert by_role(plan) == [(0, "n0", 1), (0, "n1", 1), (1, "n2", 1)]
    assert plan.starts[0].start == 130


@every_greedy_scheduler
def test_nobody_goes_for_workers_whose_coordinator_finds_no_place(scheduler: str) -> None:
    live = Live(scheduler, node("n0", cpus=2.0), node("n1", cpus=2.0))
    live.spot(0, "s0", 8)
    live.spot(1, "s1", 8)
    plan = live.hp(100, "g", mixed=gang())
    assert not plan.evictions
    assert len(live.scheduler.pools["A100"].state.runs) == 2


@pytest.mark.parametrize("scheduler", BY_RUN)
def test_a_pod_without_gpus_makes_way_with_its_whole_task(scheduler: str) -> None:
    """The coordinator of a spot gang holds the CPUs that HP asks for; its worker is elsewhere."""
    live = Live(scheduler, node("n0", 4, cpus=2.0), node("n1", 1, cpus=16.0))
    assert by_role(live.spot(0, "g", mixed=gang(1, 4, 14.0))) == [(0, "n0", 1), (1, "n1", 1)]
    plan = live.hp(100, "h", 1, cpus_per_pod=8.0)
    assert (evicted(plan), by_role(plan)) == (["g"], [(0, "n1", 1)])


@every_greedy_scheduler
def test_roles_have_rules_of_their_own(scheduler: str) -> None:
    zone_b, port = NodeRule(frozenset("b"), "zone=b"), PortRule(("TCP/1",))
    live = Live(scheduler, *(node(f"n{i}", group="ab"[i // 2]) for i in range(4)))
    roles = (Role(2, 1, rules=(zone_b, port)), Role(1, 0, rules=(NodeRule(frozenset("a")),)))
    found = by_role(live.hp(0, "g", mixed=roles))
    assert found[:2] == [(0, "n2", 1), (0, "n3", 1)]
    assert found[2][1] in ("n0", "n1")


@every_greedy_scheduler
def test_a_role_that_shrinks_gives_back_its_own(scheduler: str) -> None:
    live = Live(scheduler, node("n0", 8, cpus=32.0))
    live.hp(0, "g", mixed=(Role(3, 2, cpus_per_pod=4.0), Role(2, 0, cpus_per_pod=5.0)))
    run, (where,) = live.run("g"), live.run("g").nodes
    assert (where.idle, where.free["cpus"]) == (2, 10.0)
    live.tell(10, Shrunk(run, [PodsOn("n0", 1), PodsOn("n0", 1, role=1)]))
    assert (where.idle, where.free["cpus"]) == (4, 19.0)
    assert [role.pods for role in run.task.roles] == [2, 1]
    live.tell(20, Shrunk(run, [PodsOn("n0", 2)]))
    assert (where.idle, where.free["cpus"]) == (8, 27.0)
    assert [(role.gpus_per_pod, role.pods) for role in run.task.roles] == [(0, 1)]
    live.tell(30, Finished(run))
    assert where.free["cpus"] == 32.0


def test_a_spot_gang_of_which_only_the_coordinator_is_left_ends_well() -> None:
    live = Live("gfs", node("n0", 8, cpus=32.0))
    for name in ("a", "b"):
        live.spot(0, name, mixed=gang(1, 2))
        live.tell(10, Shrunk(live.run(name), [PodsOn("n0", 1)]))
    pool = live.scheduler.pools["A100"].state.pool
    assert (pool.idle, pool.spot_in_use) == (8, {})
    for name in ("a", "b"):
        live.tell(20, Finished(live.run(name)))
    assert pool.nodes[0].free["cpus"] == 32.0


@every_greedy_scheduler
def test_roles_are_found_again(scheduler: str) -> None:
    live = Live(scheduler, node("n0", 8, cpus=32.0), node("n1", 8, cpus=32.0))
    task = Task(7, "g", "lab", "A100", Priority.SPOT, 0, 0, 0.0, mixed=gang(3, 4, 6.0, each=1.0))
    found = FoundRun(task, [PodsOn("n0", 2), PodsOn("n1", 1), PodsOn("n1", 1, role=1)], 0.0)
    live.tell(10, Adopted([found]))
    n0, n1 = live.scheduler.pools["A100"].state.nodes
    assert (n0.idle, n0.free["cpus"], n1.idle, n1.free["cpus"]) == (0, 30.0, 4, 25.0)
    plan = live.hp(100, "h", 8)
    assert evicted(plan) == ["g"]


def test_a_saved_state_has_its_roles(tmp_path: Path) -> None:
    specs = [node("n0", 8, cpus=32.0), node("n1", 8, cpus=32.0)]
    live = Live("gfs", *specs)
    live.spot(0, "runs", mixed=gang(2, 4), topology_key="")
    live.hp(1, "waits", mixed=gang(3, 8))
    save_state(live.scheduler, tmp_path / "state", now=5.0)
    fresh = build_scheduler("gfs", specs, Parameters(quota="none"), period=7200.0, check=True)
    load_state(fresh, tmp_path / "state")
    state = fresh.pools["A100"].state
    (run,), (waiting,) = state.runs.values(), state.waiting.values()
    assert [(where.name, role.number, pods) for where, role, pods, _ in run.places] == [
        (where.name, role.number, pods) for where, role, pods, _ in live.run("runs").places
    ]
    assert [(role.pods, role.gpus_per_pod, role.requests) for role in waiting.task.roles] == [
        (3, 8, (("pods", 1.0),)), (1, 0, (("cpus", 4.0), ("pods", 1.0))),
    ]  # fmt: skip
    before = state.nodes[0].idle
    fresh.handle(10.0, [Shrunk(run, [PodsOn(run.nodes[0].name, 1)])])
    assert (run.task.roles[0].pods, state.nodes[0].idle) == (1, before + 4)


@pytest.mark.parametrize("scheduler", GREEDY)
def test_a_simulation_of_mixed_gangs(scheduler: str) -> None:
    """Two spot gangs fill the pool one after the other; an HP gang stops the first; every pod has its row."""
    specs = (node("n0", cpus=16.0), node("n1", cpus=16.0))
    kinds = [("s0", Priority.SPOT, 0.0), ("s1", Priority.SPOT, 1.0), ("h", Priority.HP, 50.0)]
    tasks = tuple(
        Task(i, name, "lab", "A100", kind, 0, 0, at, mixed=gang(2, 8)) for i, (name, kind, at) in enumerate(kinds)
    )
    work = Workload(tasks, specs, "story", durations=(100.0,) * 3)
    result = simulate(work, scheduler=scheduler, resources="on", quota="none", check=True)
    rows = [row for row in result.events.to_pylist() if row["event"] == "start" and row["task"] == "h"]
    assert sorted((row["node"], row["gpus"], row["cards"]) for row in rows if row["gpus"]) == [
        ("n0", 8.0, "0+1+2+3+4+5+6+7"), ("n1", 8.0, "0+1+2+3+4+5+6+7"),
    ]  # fmt: skip
    assert [(row["gpus"], row["cards"]) for row in rows if not row["gpus"]] == [(0.0, "")]
    assert result.metrics.spot.tasks == 2


def test_a_quota_counts_the_gpus_of_all_roles_and_not_more() -> None:
    """Half of 16 GPUs: a gang of one worker of 4 and four of 1 holds 8."""
    live = Live("static", node("n0"), node("n1"), quota="fixed", quota_share=0.5)
    live.hp(0, "h", 8, pods=2)
    assert not live.spot(1, "g", mixed=(Role(1, 4), Role(4, 1))).starts
    assert [run.task.name for run in live.tell(2, Finished(live.run("h"))).starts] == ["g"]


# -- resources by name ---------------------------------------------------------------------------------------


RDMA = (("rdma/ib", 1.0),)


@every_greedy_scheduler
def test_a_resource_by_name_limits_what_a_node_takes(scheduler: str) -> None:
    short = "n0, but 2 of 2 rdma/ib free, pod asks 1"
    live = Live(scheduler, node("n0", resources=(("rdma/ib", 2.0),)), node("n1", resources=(("rdma/ib", 0.0),)))
    assert not live.hp(0, "three", 1, pods=3, resources=RDMA).starts
    some = "pool A100: 16 idle GPUs, room for 2 of 3 pods of 1"
    assert live.why("three") == f"{some}: 8 idle GPUs on {short}"
    live.give_up(0, "three")
    plan = live.hp(1, "two", 1, pods=2, resources=RDMA)
    assert by_role(plan) == [(0, "n0", 2)]
    assert live.run("two").nodes[0].free == {"rdma/ib": 0.0}
    assert live.hp(2, "without", 8).starts, "one that does not ask for it is not limited by it"


@pytest.mark.parametrize("scheduler", BY_RUN)
def test_the_victim_is_who_holds_the_resource(scheduler: str) -> None:
    live = Live(scheduler, node("n0", resources=(("rdma/ib", 1.0),)))
    live.spot(0, "rdma", 1, resources=RDMA)
    live.spot(900, "other", 1)
    plan = live.hp(1000, "h", 1, resources=RDMA)
    assert evicted(plan) == ["rdma"]
    victim = plan.evictions[0].run
    live.tell(1030, EvictionDone(victim))
    assert live.run("h").nodes[0].free == {"rdma/ib": 0.0}


@every_greedy_scheduler
def test_a_node_that_does_not_state_a_resource_is_not_limited_by_it(scheduler: str) -> None:
    live = Live(scheduler, node("n0", resources=(("rdma/ib", 1.0),)), node("n1"))
    assert len(live.hp(0, "g", 1, pods=8, resources=(("rdma/ib", 2.0),)).starts) == 1
    assert live.run("g").nodes[0].name == "n1"
