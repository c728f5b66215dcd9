"""Where more than cards is asked for, GFS remembers nodes by ask and still chooses the cheapest of all."""

from __future__ import annotations

import random

import pytest

from gfs import NodeSpec, Parameters, Priority, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import Finished, Submitted
from gfs.core.state import PoolState
from gfs.domain.task import NodeFilter
from gfs.domain.units import DAY
from gfs.policies.gfs import fitting, preemption
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.preemption import could_hold, victims_on


def cheapest(state: PoolState, task: Task, now: float) -> tuple[int, list[str]] | None:
    """The node and victims of least cost, by a look at every node: (F+V)/(G+F+V) + 0.5 waste / (cards x T)."""
    pool, options = state.pool, []
    evicted, kept = state.ledger.totals(now)
    for node in pool.nodes:
        if node.spot and could_hold(pool, node, task):
            runs = victims_on(pool, node, task, sorted(node.spot, key=lambda run: (-run.waste(now), run.task.index)))
            waste = sum(run.waste(now) for run in runs) / (pool.capacity * DAY)
            cost = (evicted + len(runs)) / (evicted + kept + len(runs)) + 0.5 * waste
            options.append((round(cost, 12), len(runs), node.index, [run.task.name for run in runs]))
    return min(options)[2:] if options else None


@pytest.mark.parametrize("looks", [0, 3, 100])
@pytest.mark.parametrize(("resources", "cpus_per_gpu"), [("on", 12.0), ("off", 0.0)])
def test_the_remembered_nodes_give_the_cheapest_of_all(
    monkeypatch: pytest.MonkeyPatch, resources: str, cpus_per_gpu: float, looks: int
) -> None:
    monkeypatch.setattr(fitting, "MOST_ASKS", 3)  # asks come and go
    monkeypatch.setattr(preemption, "FEW_NODES", 2)  # nodes are walked by waste
    monkeypatch.setattr(preemption, "MOST_LOOKS", looks)  # by cards alone, or soon among the remembered ones
    specs = tuple(NodeSpec(i, f"n{i}", "A100", 8, cpus=64.0, group="ab"[i % 2]) for i in range(16))
    scheduler = build_scheduler("gfs", specs, Parameters(quota="none", resources=resources), period=DAY)
    state, pick = scheduler.pools["A100"].state, random.Random(1)
    preemptor, victims = GfsPreemptor(state, period=DAY), []
    for index in range(400):
        gpus, priority = pick.choice((0.5, 1.0, 2.0, 4.0)), pick.choice((Priority.HP, Priority.SPOT, Priority.SPOT))
        only = NodeFilter(frozenset("a")) if pick.random() < 0.3 else None
        cpus, now = gpus * pick.choice((4.0, cpus_per_gpu)), 60.0 * index
        task = Task(index, f"t{index}", "lab", "A100", priority, 1, gpus, now, cpus_per_pod=cpus, node_filter=only)
        if priority is Priority.HP and not state.pool.slots(task):
            chosen = preemptor.choose(task, now)
            found = chosen and (chosen.node.index, [run.task.name for run in chosen.runs])
            assert found == cheapest(state, task, now)
            victims += [len(chosen.runs)] if chosen else []
        scheduler.handle(now, [Submitted(task)])
        if index % 3 == 0 and state.runs:
            scheduler.handle(now + 1, [Finished(pick.choice(list(state.runs.values())))])
    assert len(victims) > 30
    assert max(victims) > 1


def test_the_fewest_victims_that_could_do_follow_every_change() -> None:
    # 8 cards, 64 CPUs, 20 of them free: spot tasks hold 4 x 11. An HP pod of one card and 40 CPUs lacks 20: two must
    # go. When one has left, 31 are free and 9 missing: any one will do. When all have left, nobody need go.
    state = PoolState("A100", [NodeSpec(0, "n0", "A100", 8, cpus=64.0)], resources=True)
    (node,) = state.pool.nodes
    runs = []
    for index in range(4):
        task = Task(index, f"s{index}", "lab", "A100", Priority.SPOT, 1, 1.0, 0.0, cpus_per_pod=11.0)
        runs.append(state.start(task, [state.pool.occupy(node, task)], 0.0))
    taker = Task(9, "h", "lab", "A100", Priority.HP, 1, 1.0, 0.0, cpus_per_pod=40.0)
    nodes = fitting.FittingNodes(state.pool)
    assert nodes.known(taker) is None
    assert nodes.remember(taker).levels == {2: {node: None}}
    larger = Task(10, "i", "lab", "A100", Priority.HP, 1, 1.0, 0.0, cpus_per_pod=60.0)
    assert nodes.remember(larger).levels == {4: {node: None}}  # 40 missing: 4 x 11 = 44
    state.finish(runs[0], 1.0)
    ask = nodes.known(taker)
    assert ask is not None
    assert ask.levels == {1: {node: None}}
    assert ask.few_nodes(1, most=1) == [node]
    assert ask.few_nodes(1, most=0) is None
    for run in runs[1:]:
        state.finish(run, 2.0)
    assert nodes.known(taker).levels == {}


def test_an_ask_is_remembered_when_a_search_by_cards_looks_at_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    # One spot task on each of two nodes, which both are looked at: two looks are allowed, then only one.
    state = PoolState("A100", [NodeSpec(i, f"n{i}", "A100", 1, cpus=8.0) for i in range(2)], resources=True)
    for index, node in enumerate(state.pool.nodes):
        task = Task(index, f"s{index}", "lab", "A100", Priority.SPOT, 1, 1.0, 0.0, cpus_per_pod=8.0)
        state.start(task, [state.pool.occupy(node, task)], 0.0)
    taker = Task(9, "h", "lab", "A100", Priority.HP, 1, 1.0, 0.0, cpus_per_pod=8.0)
    monkeypatch.setattr(preemption, "FEW_NODES", 0)  # nodes are walked by waste
    for most, remembered in ((2, False), (1, True)):
        monkeypatch.setattr(preemption, "MOST_LOOKS", most)
        preemptor = GfsPreemptor(state, period=DAY)
        chosen = preemptor.choose(taker, 60.0)
        assert chosen is not None
        assert chosen.node.name == "n0"
        assert (preemptor._fitting.known(taker) is not None) == remembered
