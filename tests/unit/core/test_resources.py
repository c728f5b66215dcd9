"""CPUs, memory, pods per node and node filters: worked numbers for every scheduler."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import floor
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from builders import csv_text
from gfs import SCHEDULERS, InputError, NodeRule, NodeSpec, Parameters, Priority, Task, Workload, simulate
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import Plan
from gfs.core.events import Cancelled, EvictionDone, Finished, NodeChange, NodeChangeKind, NodesChanged, Submitted
from gfs.core.invariants import check_state
from gfs.core.run import Run
from gfs.policies.gfs.reservation import ReservedNodes

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
GREEDY = sorted(set(SCHEDULERS) - {"chronus"})
every_greedy_scheduler = pytest.mark.parametrize("scheduler", GREEDY)
on_and_off = pytest.mark.parametrize("resources", ["on", "off"])

ZONE_B = (NodeRule(frozenset({"b"}), "zone=b"),)


def node(name: str, gpus: int = 8, **has: Any) -> NodeSpec:
    return NodeSpec(int(name[1:]), name, "A100", gpus, **has)


class Live:
    """A scheduler in which resources count, unless it is told otherwise."""

    def __init__(self, scheduler: str, *specs: NodeSpec, **parameters: Any) -> None:
        numbers = {"resources": "on", "quota": "none", **parameters}
        if numbers["resources"] == "off":  # what nodes state is left out where they are read
            specs = tuple(spec.gpus_only() for spec in specs)
        self.scheduler = build_scheduler(scheduler, specs, Parameters(**numbers), period=7200.0, check=True)
        self.count = 0

    def submit(self, now: float, priority: Priority, name: str, gpus: float = 1, pods: int = 1, **asks: Any) -> Plan:
        task = Task(self.count, name, "lab", "A100", priority, pods, float(gpus), now, **asks)
        self.count += 1
        return self.tell(now, Submitted(task))

    def hp(self, now: float, name: str, gpus: float = 1, pods: int = 1, **asks: Any) -> Plan:
        return self.submit(now, Priority.HP, name, gpus, pods, **asks)

    def spot(self, now: float, name: str, gpus: float = 1, pods: int = 1, **asks: Any) -> Plan:
        return self.submit(now, Priority.SPOT, name, gpus, pods, **asks)

    def tell(self, now: float, *events: Any) -> Plan:
        plan = self.scheduler.handle(now, list(events))
        for pool in self.scheduler.pools.values():
            check_state(pool.state)
        return plan

    def give_up(self, now: float, name: str) -> None:
        """A task is withdrawn: where order is strict it keeps others waiting."""
        state = self.scheduler.pools["A100"].state
        task = next(waiting.task for waiting in state.waiting.values() if waiting.task.name == name)
        assert not self.tell(now, Cancelled(task)).starts

    def run(self, name: str) -> Run:
        return next(run for run in self.scheduler.pools["A100"].state.runs.values() if run.task.name == name)

    def why(self, name: str) -> str:
        return next(reason.text() for task, reason in self.scheduler.waiting() if task.name == name)


def on(plan: Plan) -> list[str]:
    """The nodes of what starts, pod by pod."""
    found = []
    for run in plan.starts:
        for where, _, pods, _ in run.places:
            found += [where.name] * pods
    return sorted(found)


def evicted(plan: Plan) -> list[str]:
    return [eviction.run.task.name for eviction in plan.evictions]


# -- placement -----------------------------------------------------------------------------------------------


@every_scheduler
@pytest.mark.parametrize("priority", list(Priority))
@pytest.mark.parametrize(
    ("short", "ample", "asks"),
    [
        ({"cpus": 4.0}, {"cpus": 96.0}, {"cpus_per_pod": 8.0}),
        ({"memory": 32.0}, {"memory": 1024.0}, {"memory_per_pod": 64.0}),
        (
            {"cpus": 96.0, "memory": 32.0},
            {"cpus": 8.0, "memory": 64.0},
            {"cpus_per_pod": 8.0, "memory_per_pod": 64.0},
        ),
        ({"cpus": 4.0}, {}, {"cpus_per_pod": 8.0}),
    ],
)
@pytest.mark.parametrize("gpus", [1, 0.5])
def test_a_node_with_cards_but_without_the_rest_is_not_used(
    scheduler: str,
    priority: Priority,
    short: dict[str, float],
    ample: dict[str, float],
    asks: dict[str, float],
    gpus: float,
) -> None:
    live = Live(scheduler, node("n0", **short), node("n1", **ample))
    assert on(live.submit(0, priority, "t", gpus, **asks)) == ["n1"]
    off = Live(scheduler, node("n0", **short), node("n1", **ample), resources="off")
    assert on(off.submit(0, priority, "t", gpus, **asks)) == ["n0"], "off, only cards count"


@every_scheduler
@pytest.mark.parametrize("gpus", [1, 0.25])
def test_a_node_takes_so_many_pods_and_no_more(scheduler: str, gpus: float) -> None:
    live = Live(scheduler, node("n0", pods=2), node("n1", pods=1))
    assert on(live.hp(0, "a", gpus, pods=3)) == ["n0", "n0", "n1"]
    assert not live.hp(300, "b", gpus).starts
    done = live.tell(600, Finished(live.run("a")))
    assert len(on(done)) == 1, "now there is room"


@every_greedy_scheduler
def test_fractions_of_one_card_take_cpus_each(scheduler: str) -> None:
    live = Live(scheduler, node("n0", 1, cpus=10.0))
    assert on(live.hp(0, "a", 0.25, cpus_per_pod=4.0)) == ["n0"]
    assert on(live.hp(1, "b", 0.25, cpus_per_pod=4.0)) == ["n0"]
    assert not live.hp(2, "c", 0.25, cpus_per_pod=4.0).starts
    assert live.why("c") == "pool A100: no idle GPUs on n0, but 2 of 10 CPUs free, pod asks 4"
    live.give_up(3, "c")
    assert on(live.hp(4, "d", 0.25, cpus_per_pod=2.0)) == ["n0"]
    live.hp(5, "e", 0.25, cpus_per_pod=4.0)
    assert on(live.tell(6, Finished(live.run("a")))) == ["n0"]


@every_scheduler
@pytest.mark.parametrize("priority", list(Priority))
def test_a_gang_fills_a_node_only_as_far_as_its_cpus_go(scheduler: str, priority: Priority) -> None:
    live = Live(scheduler, node("n0", cpus=16.0), node("n1", cpus=64.0))
    assert on(live.submit(0, priority, "g", 2, pods=6, cpus_per_pod=8.0)) == ["n0"] * 2 + ["n1"] * 4
    other = Live(scheduler, node("n0", cpus=16.0), node("n1", cpus=24.0))
    assert not other.submit(0, priority, "g", 2, pods=6, cpus_per_pod=8.0).starts, "2 + 3 pods find CPUs"
    assert not other.scheduler.pools["A100"].state.runs


@every_scheduler
def test_what_a_node_does_not_state_is_not_limited(scheduler: str) -> None:
    live = Live(scheduler, node("n0"))
    assert on(live.hp(0, "h", 1, pods=8, cpus_per_pod=1000.0, memory_per_pod=1e6)) == ["n0"] * 8


@every_greedy_scheduler
def test_a_node_with_fewer_cpus_than_before_takes_nobody_until_it_fits_again(scheduler: str) -> None:
    live = Live(scheduler, node("n0", cpus=32.0))
    live.hp(0, "a", 1, cpus_per_pod=8.0)
    live.hp(1, "b", 1, cpus_per_pod=8.0)
    live.tell(2, NodesChanged([NodeChange(NodeChangeKind.RESIZED, node("n0", cpus=12.0))]))
    assert not live.hp(3, "c", 1).starts
    assert on(live.tell(4, Finished(live.run("a")))) == ["n0"]
    assert not live.hp(5, "d", 1, cpus_per_pod=8.0).starts
    live.give_up(5, "d")
    assert on(live.hp(6, "e", 1, cpus_per_pod=4.0)) == ["n0"]


# -- reasons -------------------------------------------------------------------------------------------------


@every_greedy_scheduler
def test_the_reason_says_what_is_short(scheduler: str) -> None:
    live = Live(scheduler, node("n12", 16, cpus=96.0, memory=512.0))
    live.hp(0, "a", 8, cpus_per_pod=82.0, memory_per_pod=500.0)
    live.hp(1, "h", 8, cpus_per_pod=24.0)
    assert live.why("h") == "pool A100: 8 idle GPUs on n12, but 14 of 96 CPUs free, pod asks 24"
    live.give_up(1, "h")
    live.hp(2, "m", 1, memory_per_pod=32.0)
    assert live.why("m") == "pool A100: 8 idle GPUs on n12, but 12 of 512 GiB memory free, pod asks 32"


@every_greedy_scheduler
def test_the_reason_says_that_a_node_takes_no_more_pods(scheduler: str) -> None:
    live = Live(scheduler, node("n0", pods=1))
    live.hp(0, "a")
    live.hp(1, "h")
    assert live.why("h") == "pool A100: 7 idle GPUs on n0, but 1 pods run there and it takes no more"


@every_greedy_scheduler
@on_and_off
def test_the_reason_names_the_filter(scheduler: str, resources: str) -> None:
    live = Live(scheduler, node("n0", group="a"), resources=resources)
    live.hp(0, "h", rules=ZONE_B)
    asked = "not one of the nodes that the task asks for (zone=b)"
    assert live.why("h") == f"pool A100: 8 idle GPUs on n0, but {asked}"


@every_scheduler
def test_the_reason_counts_the_pods_of_a_gang_that_find_cpus(scheduler: str) -> None:
    """32 CPUs do for two pods of 16, whatever cards are idle."""
    live = Live(scheduler, node("n0", cpus=32.0))
    assert not live.hp(0, "g", 1, pods=4, cpus_per_pod=16.0).starts
    assert "8 idle GPUs on n0, but 32 of 32 CPUs free, pod asks 16" in live.why("g")
    if scheduler != "chronus":
        assert live.why("g").startswith("pool A100: 8 idle GPUs, room for 2 of 4 pods of 1: ")


@pytest.mark.parametrize("scheduler", sorted(set(GREEDY) - {"lyra"}))
def test_the_reason_does_not_promise_what_evictions_cannot_bring(scheduler: str) -> None:
    """HP holds 30 of 32 CPUs: without spot tasks there are 6 cards and 2 CPUs; the pod asks 4 cards and 8 CPUs."""
    live = Live(scheduler, node("n0", cpus=32.0))
    live.hp(0, "a", 2, cpus_per_pod=30.0)
    live.spot(1, "s", 6, cpus_per_pod=0.0)
    live.hp(2, "h", 4, cpus_per_pod=8.0)
    without = "without any spot task 6 GPUs on n0, but 2 of 32 CPUs free, pod asks 8"
    assert live.why("h") == f"pool A100: no idle GPU; {without}"


# -- victims -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", sorted(set(GREEDY) - {"lyra"}))
def test_the_victim_is_who_holds_what_is_short(scheduler: str) -> None:
    live = Live(scheduler, node("n0", cpus=16.0))
    live.spot(0, "cards", 4, cpus_per_pod=2.0)
    live.spot(1, "cpus", 2, cpus_per_pod=12.0)
    plan = live.hp(100, "h", 2, cpus_per_pod=8.0)
    assert evicted(plan) == ["cpus"]
    assert on(plan) == ["n0"]


@every_greedy_scheduler
def test_the_victim_of_two_nodes_is_where_it_helps(scheduler: str) -> None:
    """n0 has idle cards and too few CPUs whoever goes; on n1 one must go."""
    live = Live(scheduler, node("n0", cpus=8.0), node("n1", cpus=32.0))
    live.spot(0, "s0", 8, cpus_per_pod=2.0)
    live.spot(1, "s1", 8, cpus_per_pod=30.0)
    assert live.run("s0").nodes[0].name == "n0"
    plan = live.hp(100, "h", 1, cpus_per_pod=16.0)
    assert (evicted(plan), on(plan)) == (["s1"], ["n1"])


@every_greedy_scheduler
def test_nobody_is_evicted_in_vain(scheduler: str) -> None:
    live = Live(scheduler, node("n0", cpus=16.0), node("n1", cpus=16.0))
    live.spot(0, "s0", 8, cpus_per_pod=12.0)
    live.spot(1, "s1", 8, cpus_per_pod=12.0)
    assert not evicted(live.hp(100, "too many CPUs", 2, cpus_per_pod=20.0))
    live.give_up(100, "too many CPUs")
    assert not evicted(live.hp(101, "too many pods", 2, pods=3, cpus_per_pod=9.0)), "one pod on each node at most"
    live.give_up(101, "too many pods")
    plan = live.hp(102, "just so", 2, pods=2, cpus_per_pod=9.0)
    assert sorted(evicted(plan)) == ["s0", "s1"]
    assert on(plan) == ["n0", "n1"]


@every_greedy_scheduler
def test_where_pods_are_short_a_victim_makes_room_for_one(scheduler: str) -> None:
    live = Live(scheduler, node("n0", pods=2))
    live.spot(0, "s0", 1)
    live.spot(1, "s1", 1)
    plan = live.hp(100, "h", 1)
    assert len(evicted(plan)) == (2 if scheduler == "lyra" else 1)
    assert on(plan) == ["n0"]


@every_greedy_scheduler
def test_cpus_are_held_until_the_victims_have_left(scheduler: str) -> None:
    live = Live(scheduler, node("n0", cpus=16.0))
    live.spot(0, "s", 2, cpus_per_pod=12.0)
    victim = live.run("s")
    live.hp(100, "h", 2, cpus_per_pod=8.0)
    assert not live.hp(101, "h2", 1, cpus_per_pod=9.0).starts
    live.tell(130, EvictionDone(victim))
    assert on(live.tell(140, Finished(live.run("h")))) == ["n0"]
    assert live.run("h2").start == 140


# -- node filters --------------------------------------------------------------------------------------------


@every_scheduler
@on_and_off
@pytest.mark.parametrize("priority", list(Priority))
@pytest.mark.parametrize(("gpus", "pods"), [(1, 1), (8, 1), (4, 3), (0.5, 1), (0.5, 5)])
def test_a_filter_is_respected_by_placement(
    scheduler: str, resources: str, priority: Priority, gpus: float, pods: int
) -> None:
    specs = [node("n0", group="a"), node("n1", group="b"), node("n2", group="a"), node("n3", group="b")]
    live = Live(scheduler, *specs, resources=resources)
    plan = live.submit(0, priority, "t", gpus, pods=pods, rules=ZONE_B)
    assert len(on(plan)) == pods
    assert set(on(plan)) <= {"n1", "n3"}
    other = Live(scheduler, *specs, resources=resources)
    assert not other.submit(0, priority, "t", 8, pods=3, rules=ZONE_B).starts, "two such nodes, three pods"
    other.give_up(0, "t")
    assert on(other.submit(300, priority, "u", 8, pods=3))[:1] == ["n0"], "others do not mind"


@every_greedy_scheduler
@on_and_off
def test_a_filter_is_respected_by_victims(scheduler: str, resources: str) -> None:
    live = Live(scheduler, *(node(f"n{i}", group="b" if i == 2 else "a") for i in range(4)), resources=resources)
    for number in range(4):
        live.spot(number, f"s{number}", 8)
    plan = live.hp(100, "h", 8, rules=ZONE_B)
    assert evicted(plan) == ["s2"]
    assert on(plan) == ["n2"]
    plan = live.hp(200, "h2", 8, rules=ZONE_B)
    assert not plan.evictions
    assert not plan.starts
    live.give_up(200, "h2")
    assert len(evicted(live.hp(300, "h3", 8, pods=3))) == 3, "a task without a filter may have them"


@every_greedy_scheduler
@on_and_off
def test_a_gang_with_a_filter_evicts_only_where_it_may_go(scheduler: str, resources: str) -> None:
    """The gang that would be cheapest lies on nodes that do not count."""
    specs = [node(f"n{i}", group="b" if i in (1, 3) else "a") for i in range(4)]
    live = Live(scheduler, *specs, resources=resources)
    live.spot(0, "wide", 8, pods=2, rules=(NodeRule(frozenset({"a"}), "zone=a"),))
    live.spot(1, "s1", 8, rules=ZONE_B)
    live.spot(2, "s3", 8, rules=ZONE_B)
    plan = live.hp(100, "h", 8, pods=2, rules=ZONE_B)
    assert sorted(evicted(plan)) == ["s1", "s3"]
    assert on(plan) == ["n1", "n3"]


@every_greedy_scheduler
@on_and_off
def test_the_latest_victim_is_spared_where_the_gang_may_not_go(scheduler: str, resources: str) -> None:
    """By cards alone s2 on n0 wastes least, but n0 is not in zone b."""
    specs = [node(f"n{i}", group="b" if i else "a") for i in range(3)]
    live = Live(scheduler, *specs, resources=resources)
    live.spot(0, "s0", 8, rules=ZONE_B)
    live.spot(10, "s1", 8, rules=ZONE_B)
    live.spot(500, "s2", 8)
    plan = live.hp(600, "h", 8, pods=2, rules=ZONE_B)
    assert (sorted(evicted(plan)), on(plan)) == (["s0", "s1"], ["n1", "n2"])


@every_greedy_scheduler
def test_the_latest_victim_is_spared_where_hp_holds_the_cpus(scheduler: str) -> None:
    """On n0 HP holds 20 of 32 CPUs, so no pod of 24 finds room there whoever goes."""
    live = Live(scheduler, node("n0", 9, cpus=32.0), node("n1", 9, cpus=96.0), node("n2", 9, cpus=96.0))
    live.hp(0, "a", 1, cpus_per_pod=20.0)
    for at, name in ((1, "s1"), (10, "s2"), (500, "s4")):
        live.spot(at, name, 8, cpus_per_pod=4.0)
    plan = live.hp(600, "h", 8, pods=2, cpus_per_pod=24.0)
    assert sorted(evicted(plan)) == sorted(
        run.task.name for run in [eviction.run for eviction in plan.evictions] if run.nodes[0].name != "n0"
    )
    assert on(plan) == ["n1", "n2"]


def test_one_victim_that_holds_the_cpus_makes_room_for_a_whole_gang() -> None:
    """4 pods of 12 CPUs: `cpus` holds 48 of them on one card, `cards` 4 cards and no CPU. Only `cpus` has to go."""
    live = Live("gfs-plus", node("n0", 16, cpus=48.0))
    live.spot(0, "cards", 4)
    live.spot(1, "cpus", 1, cpus_per_pod=48.0)
    plan = live.hp(100, "h", 1, pods=4, cpus_per_pod=12.0)
    assert (evicted(plan), on(plan)) == (["cpus"], ["n0"] * 4)


def test_nodes_are_reserved_for_as_many_pods_as_their_cpus_allow() -> None:
    """A spot gang of 4 pods x 16 CPUs needs two nodes of 32 CPUs, though one node has cards for all of them."""
    live = Live("gfs-plus", *(node(f"n{i}", cpus=32.0) for i in range(3)), starvation_timeout=600.0)
    for number in range(3):
        live.spot(number, f"small{number}", 1, cpus_per_pod=20.0)
    live.spot(5, "gang", 1, pods=4, cpus_per_pod=16.0)
    live.spot(900, "later", 1, cpus_per_pod=20.0)
    reserved = live.scheduler.pools["A100"].state.memory[ReservedNodes]
    assert [node.name for node in reserved.nodes] == ["n0", "n1"]


# -- what could never start ----------------------------------------------------------------------------------


@every_scheduler
@pytest.mark.parametrize(
    ("pods", "cpus", "words"),
    [
        (1, 200.0, "1 pods of 1 GPUs and 200 CPUs each, of which the empty nodes of pool A100 hold 0, so"),
        (7, 32.0, "7 pods of 1 GPUs and 32 CPUs each, of which the empty nodes of pool A100 hold 6, so"),
    ],
)
def test_what_empty_nodes_cannot_hold_is_found_before_anything_runs(
    scheduler: str, pods: int, cpus: float, words: str
) -> None:
    """Two nodes of 96 CPUs hold 3 pods of 32 each."""
    task = Task(0, "big", "lab", "A100", Priority.HP, pods, 1.0, 0.0, cpus_per_pod=cpus)
    work = Workload((task,), (node("n0", cpus=96.0), node("n1", cpus=96.0)), "story", durations=(5.0,))
    with pytest.raises(InputError, match=f"resources=on: task big asks {words} it could never start") as error:
        simulate(work, scheduler=scheduler, resources="on")
    assert f"96 of 96 CPUs free, pod asks {cpus:g}; 1 such tasks" in str(error.value)
    assert "set resources=off" in str(error.value)
    assert simulate(work, scheduler=scheduler, resources="off").metrics.hp.tasks == 1


# -- random workloads ----------------------------------------------------------------------------------------


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Few nodes with few CPUs and pods, many tasks; every task fits an empty cluster."""
    specs = [
        NodeSpec(
            i,
            f"n{i}",
            "A100",
            draw(st.sampled_from([2, 4, 8])),
            draw(st.sampled_from([0.0, 8.0, 12.0, 30.0])),
            draw(st.sampled_from([0.0, 64.0])),
            draw(st.sampled_from([0, 0, 3])),
            draw(st.sampled_from(["a", "b"])),
        )
        for i in range(draw(st.integers(1, 4)))
    ]
    tasks, durations = [], []
    times = sorted(draw(st.lists(st.sampled_from([0.0, 10.0, 300.0, 620.0, 900.0]), min_size=8, max_size=20)))
    for i, at in enumerate(times):
        its_group = NodeRule(frozenset({specs[0].group}), "its group")
        asked = draw(st.sampled_from([(), (), (), (its_group,)]))
        priority = draw(st.sampled_from([Priority.HP, Priority.SPOT, Priority.SPOT]))
        gpus = draw(st.sampled_from([0.5, 0.3, 1.0, 2.0, 4.0]))
        task = Task(
            i, f"t{i:02}", "lab", "A100", priority, 1, gpus, at,
            cpus_per_pod=draw(st.sampled_from([0.0, 0.7, 2.0, 5.0, 8.0])),
            memory_per_pod=draw(st.sampled_from([0.0, 0.0, 30.0])),
            rules=asked,
        )  # fmt: skip
        if not slots(specs, task):
            task = replace(task, gpus_per_pod=1.0, cpus_per_pod=2.0, memory_per_pod=0.0)
        task = replace(task, pods=min(draw(st.sampled_from([1, 1, 2, 4])), slots(specs, task)))
        tasks.append(task)
        durations.append(draw(st.sampled_from([0.0, 50.0, 400.0, 2000.0])))
    return Workload(tuple(tasks), tuple(specs), "story", durations=tuple(durations))


def slots(specs: list[NodeSpec], task: Task) -> int:
    """Pods of a task that the empty nodes take."""
    found = 0
    for spec in specs:
        if not all(spec.group in rule.groups for rule in task.rules):
            continue
        here = spec.gpus // task.cards if task.cards else spec.gpus * floor(1_000_000 / task.share)
        if spec.cpus and task.cpus_per_pod:
            here = min(here, floor(spec.cpus / task.cpus_per_pod))
        if spec.memory and task.memory_per_pod:
            here = min(here, floor(spec.memory / task.memory_per_pod))
        found += min(here, spec.pods) if spec.pods else here
    return found


@every_scheduler
@settings(max_examples=10, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(work=workloads())
def test_no_node_is_over_committed(scheduler: str, work: Workload) -> None:
    result = simulate(work, scheduler=scheduler, check=True, resources="on", quota="none")
    specs, tasks = {spec.name: spec for spec in work.nodes}, {task.name: task for task in work.tasks}
    taken: Counter[tuple[str, str]] = Counter()
    columns = result.events.to_pydict()
    for event, name, where in zip(columns["event"], columns["task"], columns["node"], strict=True):
        sign = {"start": 1, "finish": -1, "evict": -1}.get(event)
        if sign is None:
            continue
        task, spec = tasks[name], specs[where]
        assert all(spec.group in rule.groups for rule in task.rules)
        for what, amount, most in (
            ("CPUs", task.cpus_per_pod, spec.cpus),
            ("memory", task.memory_per_pod, spec.memory),
            ("pods", 1, spec.pods),
        ):
            taken[where, what] += sign * amount  # type: ignore[assignment]
            assert taken[where, what] >= -1e-6, f"{where}: {what}"
            assert not most or taken[where, what] <= most + 1e-6, f"{name} is too much for {where}: {what}"
    assert all(abs(left) < 1e-6 for left in taken.values())
    assert sum(event == "finish" for event in columns["event"]) == sum(task.pods for task in work.tasks)


@every_scheduler
@settings(max_examples=4, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(work=workloads())
def test_off_they_change_nothing(scheduler: str, work: Workload) -> None:
    bare = replace(
        work,
        nodes=tuple(replace(spec, cpus=0.0, memory=0.0, pods=0) for spec in work.nodes),
        tasks=tuple(replace(task, cpus_per_pod=0.0, memory_per_pod=0.0) for task in work.tasks),
    )
    with_numbers = simulate(work, scheduler=scheduler, check=True, quota="none")
    without = simulate(bare, scheduler=scheduler, check=True, quota="none")
    assert csv_text(with_numbers) == csv_text(without)


@every_greedy_scheduler
@on_and_off
@settings(max_examples=25, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(work=workloads())
def test_every_victim_shares_a_node_with_its_taker(scheduler: str, resources: str, work: Workload) -> None:
    live = Live(scheduler, *work.nodes, resources=resources)
    state = live.scheduler.pools["A100"].state
    for task in work.tasks:
        if task.index % 3 == 2 and (run := next((run for run in state.runs.values() if run.start <= 100.0), None)):
            live.tell(100.0 + task.index, Finished(run))
        plan = live.tell(100.0 + task.index, Submitted(task))
        takers = {run.task.name: set(run.nodes) for run in plan.starts}
        for run, reason, _ in plan.evictions:
            taker = takers[reason.by.name]  # type: ignore[attr-defined]
            assert taker & set(run.nodes), f"{run} went for {reason.text()}"


@every_scheduler
@on_and_off
@settings(max_examples=8, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(work=workloads())
def test_pods_with_room_are_counted_right_after_every_change(scheduler: str, resources: str, work: Workload) -> None:
    live = Live(scheduler, *work.nodes, resources=resources)
    pool = live.scheduler.pools["A100"].state.pool
    for number, task in enumerate(work.tasks):
        live.tell(300.0 * number, Submitted(task))
        for other in work.tasks[:6]:
            here = [each.pods_by_gpus(other) for each in pool.nodes]
            by_node = [pool.most_pods(each, other, pods) for each, pods in zip(pool.nodes, here, strict=True)]
            assert pool.slots(other) == sum(by_node)
            with_room = [each for each, pods in zip(pool.nodes, by_node, strict=True) if pods]
            assert pool.nodes_for(other) == with_room == [each for each in pool.nodes if pool.fits(each, other)]
