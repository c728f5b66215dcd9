"""More than cards: CPUs, memory and pods of nodes, and filters on nodes, under every scheduler."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import Draft, Story, event_bytes, hp, nodes, play, spot, workload
from gfs import SCHEDULERS, NodeSpec, Workload, simulate

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
without_leases = pytest.mark.parametrize("scheduler", sorted(set(SCHEDULERS) - {"chronus"}))


def machine(
    name: str, cards: int = 8, cpus: float = 96, memory: float = 0, pods: int = 0, zone: str = ""
) -> NodeSpec:
    return NodeSpec(0, name, "A100", cards, cpus, memory, pods, zone)


def on(machines: list[NodeSpec], *drafts: Draft, scheduler: str = "gfs", **more: Any) -> Story:
    """A story in which resources count and there is no quota."""
    return play(machines, *drafts, scheduler=scheduler, resources="on", quota="none", **more)


# -- placing ---------------------------------------------------------------------------------------------------


@every_scheduler
def test_a_node_with_cards_but_without_cpus_is_not_used(scheduler: str) -> None:
    # n0 has 8 cards and 16 CPUs: after a pod of 12 CPUs, 4 are left, too few for another. n1 has room.
    story = on(
        [machine("n0", cpus=16), machine("n1", cpus=16)],
        hp("a", cpus=12, lasting=5000),
        hp("b", cpus=12, at=300, lasting=5000),
        scheduler=scheduler,
    )
    assert sorted(story.on("a") + story.on("b")) == ["n0", "n1"]


@every_scheduler
@pytest.mark.parametrize(("asks", "what"), [({"memory": 300}, "memory"), ({}, "pods")])
def test_memory_and_the_number_of_pods_limit_a_node_too(scheduler: str, asks: dict[str, float], what: str) -> None:
    # 500 GiB hold one pod of 300; a node of one pod holds one.
    machines = [machine(name, memory=500, pods=0 if what == "memory" else 1) for name in ("n0", "n1")]
    drafts = [hp("a", lasting=5000, **asks), hp("b", at=300, lasting=5000, **asks)]
    story = on(machines, *drafts, scheduler=scheduler)
    assert sorted(story.on("a") + story.on("b")) == ["n0", "n1"]


@every_scheduler
def test_fractions_take_cpus_as_well(scheduler: str) -> None:
    # Both halves would fit on one card, but 10 CPUs hold one pod of 6: the second waits until the first is done.
    story = on(
        [machine("n0", cards=1, cpus=10)],
        hp("a", gpus=0.5, cpus=6, lasting=600),
        hp("b", gpus=0.5, cpus=6, at=10, lasting=600),
        scheduler=scheduler,
    )
    assert story.started("b")[0] >= story.finished("a")


@every_scheduler
def test_a_gang_fills_a_node_only_as_far_as_its_cpus_go(scheduler: str) -> None:
    # Cards for 4 pods of 2 on each node, CPUs (50) for 2 pods of 24: four pods lie two and two.
    story = on(
        [machine("n0", cpus=50), machine("n1", cpus=50)], hp("g", gpus=2, pods=4, cpus=24), scheduler=scheduler
    )
    assert Counter(story.on("g")) == {"n0": 2, "n1": 2}


def test_a_node_that_does_not_say_has_no_limit() -> None:
    story = on(nodes(8), hp("a", gpus=1, cpus=1e6, memory=1e6), hp("b", cpus=1e6))
    assert (story.started("a"), story.started("b")) == ([0], [0])


# -- victims ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["gfs", "gfs-plus", "gfs-p", "static", "yarn-cs", "fgd"])
def test_a_victim_must_free_what_is_short(scheduler: str) -> None:
    # 8 cards: 2 + 2 held by spot, 4 idle; 96 CPUs: 80 held by `busy`, 4 by `idler`, 12 free. HP asks 1 card and
    # 24 CPUs: the cards are there, 12 CPUs are missing. Only `busy` has them.
    story = on(
        [machine("n0")],
        spot("busy", gpus=2, cpus=80, lasting=9000),
        spot("idler", gpus=2, cpus=4, lasting=9000, at=1),
        hp("h", gpus=1, cpus=24, at=100, lasting=50),
        scheduler=scheduler,
    )
    assert story.victims() == ["busy"]
    assert story.started("h") == [130]


@without_leases
def test_nobody_is_evicted_in_vain(scheduler: str) -> None:
    # HP holds 90 of 96 CPUs: no eviction frees 24, though cards would get free.
    story = on(
        [machine("n0")],
        hp("first", gpus=1, cpus=90, lasting=2000),
        spot("s", gpus=1, cpus=1, lasting=9000, at=1),
        hp("second", gpus=1, cpus=24, at=100, lasting=50),
        scheduler=scheduler,
    )
    assert "s" not in story.victims() or scheduler == "lyra"
    assert story.started("second")[0] >= 2000


# -- filters ---------------------------------------------------------------------------------------------------


@every_scheduler
@pytest.mark.parametrize("resources", ["off", "on"])
def test_a_task_uses_only_the_nodes_it_may(scheduler: str, resources: str) -> None:
    # Best fit and the paper's packing would both take n0, where a pod already lies.
    machines = [machine("n0", zone="a"), machine("n1", zone="b")]
    drafts = [hp("first", lasting=5000, only=("a",)), hp("picky", at=300, lasting=100, only=("b",))]
    story = play(machines, *drafts, scheduler=scheduler, resources=resources, quota="none")
    assert (story.on("first"), story.on("picky")) == (["n0"], ["n1"])


@pytest.mark.parametrize("scheduler", ["gfs", "gfs-plus", "gfs-p", "static", "yarn-cs", "fgd", "lyra"])
@pytest.mark.parametrize("resources", ["off", "on"])
def test_victims_are_taken_where_the_task_may_go(scheduler: str, resources: str) -> None:
    # Evicting `a` on n0 would cost least (it has just begun), but the HP task may only use zone b.
    machines = [machine("n0", zone="a"), machine("n1", zone="b")]
    drafts = [
        spot("b", gpus=8, lasting=9000, only=("b",)),
        spot("a", gpus=8, lasting=9000, at=900, only=("a",)),
        hp("h", gpus=8, at=1000, lasting=50, only=("b",)),
    ]
    story = play(machines, *drafts, scheduler=scheduler, resources=resources, quota="none")
    assert story.victims() == ["b"]
    assert story.on("h") == ["n1"]


# -- words -----------------------------------------------------------------------------------------------------


def test_the_reason_names_what_is_short() -> None:
    # 82 of 96 CPUs are held, so 14 are free; all 8 cards but one are idle.
    story = on(
        [machine("n12")],
        hp("first", gpus=0.5, cpus=82, lasting=500),
        spot("s", gpus=8, at=5, lasting=1, cpus=0),
        hp("second", gpus=1, cpus=24, at=10, lasting=50),
    )
    assert story.why_waited("second") == "pool A100: 7 idle cards on n12, but 14 of 96 CPUs free, pod asks 24"


def test_the_reason_names_the_filter() -> None:
    story = on([machine("n0", zone="a"), machine("n1", cards=1, zone="b")],
               hp("first", only=("b",), lasting=500), hp("second", only=("b",), at=10))  # fmt: skip
    assert story.why_waited("second") == (
        "pool A100: 8 idle cards on n0, but not one of the nodes that the task asks for (zone=b)"
    )


# -- on and off ------------------------------------------------------------------------------------------------


@every_scheduler
def test_where_nothing_but_cards_is_short_on_and_off_are_the_same(scheduler: str) -> None:
    drafts = [spot(f"s{i}", gpus=g, pods=p, at=10 * i, lasting=4000, cpus=1)
              for i, (g, p) in enumerate([(1, 1), (2, 2), (4, 1), (0.5, 1), (8, 1), (1, 3)])]  # fmt: skip
    drafts += [hp(f"h{i}", gpus=g, pods=p, at=300 + 40 * i, lasting=900, cpus=1)
               for i, (g, p) in enumerate([(8, 1), (2, 1), (0.25, 1), (8, 2), (1, 4)])]  # fmt: skip
    work = workload([machine(f"n{i}", cpus=1000) for i in range(3)], drafts)
    off, counted = (simulate(work, scheduler=scheduler, quota="none", resources=word) for word in ("off", "on"))
    assert event_bytes(off) == event_bytes(counted)


@st.composite
def crowded(draw: st.DrawFn) -> Workload:
    """Few nodes on which CPUs run out before cards do."""
    machines = [machine(f"n{i}", cards=draw(st.sampled_from([1, 4, 8])), cpus=draw(st.sampled_from([8, 16, 32])))
                for i in range(draw(st.integers(1, 3)))]  # fmt: skip
    drafts = []
    for i in range(draw(st.integers(3, 14))):
        largest = max(node.gpus for node in machines)
        gpus = draw(st.sampled_from([g for g in (0.5, 1, 2, 4) if g <= largest]))
        make = draw(st.sampled_from([hp, spot, spot]))
        able = [node for node in machines if node.gpus >= gpus]
        cpus = draw(st.sampled_from([c for c in (1, 4, 8, 16, 32) if c <= max(node.cpus for node in able)]))
        drafts.append(make(f"t{i:02}", gpus=gpus, cpus=cpus, at=draw(st.sampled_from([0, 60, 300, 600])),
                           lasting=draw(st.sampled_from([50, 600, 4000]))))  # fmt: skip
    return workload(machines, drafts)


@every_scheduler
@settings(max_examples=12, deadline=None)
@given(work=crowded())
def test_no_node_gives_more_cpus_than_it_has(scheduler: str, work: Workload) -> None:
    story = Story(simulate(work, scheduler=scheduler, quota="none", resources="on", check=True))
    has = {node.name: node.cpus for node in work.nodes}
    asks = {task.name: task.cpus_per_pod for task in work.tasks}
    used: Counter[str] = Counter()
    for line in story.lines:
        if line.event != "submit":
            used[line.node] += asks[line.task] if line.event == "start" else -asks[line.task]  # type: ignore[assignment]
            assert used[line.node] <= has[line.node], f"{line.node} at {line.time}"
    assert sum(line.event == "finish" for line in story.lines) == len(work.tasks)
