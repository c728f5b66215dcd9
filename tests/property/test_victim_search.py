"""The search for victims against a look at everything: nodes with CPUs, memory, `rdma/ib`, ports, zones, divided GPUs,
runs with several roles, pods without GPUs, and nodes that hold more than they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from strategies import among

from gfs import NodeRule, NodeSpec, Priority, Role, Task
from gfs.core.events import NodeChange, NodeChangeKind
from gfs.core.filters.ports import PortRule
from gfs.core.invariants import check_state
from gfs.core.node import GPUS, WHOLE, Node
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.core.trial import Trial
from gfs.domain.units import MICRO
from gfs.policies.gfs.gang_victims import EvictionCost, GangPreemptor, GangSearch
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.gfs.spot_table import NOBODY, SpotTable

PERIOD = 7200.0
SLACK = 1e-9
PORTS = (PortRule(("TCP/8080",)), PortRule(("TCP/8080", "TCP/9090")))
ZONE_A = NodeRule(frozenset("a"), "zone=a")


# -- pools ---------------------------------------------------------------------------------------------------


@st.composite
def nodes(draw: st.DrawFn, *, limited: bool = True) -> list[NodeSpec]:
    """Some nodes; of what they have besides GPUs some state nothing."""
    found = []
    for i in range(draw(st.integers(1, 4))):
        has: dict[str, Any] = {"group": draw(among("a", "b"))}
        if limited and draw(st.booleans()):
            has |= {"cpus": draw(among(0.0, 8.0, 20.0)), "memory": draw(among(0.0, 32.0)), "pods": draw(among(0, 3, 6))}
            has["resources"] = draw(among((), (("rdma/ib", 2.0),), (("rdma/ib", 0.0),)))
        found.append(NodeSpec(i, f"n{i}", "A100", draw(among(1, 2, 4, 8)), **has))
    return found


@st.composite
def roles(draw: st.DrawFn, *, ports: bool = True, whole: bool = False) -> Role:
    """A role of one to three pods."""
    gpus = draw(among(1, 1, 2, 4)) if whole else draw(among(0, 0.3, 0.5, 0.7, 1, 1, 2, 4))
    rules = draw(among((), (), (ZONE_A,), *([(each,) for each in PORTS] if ports else ())))
    return Role(
        draw(among(1, 1, 2, 3)),
        gpus,
        cpus_per_pod=draw(among(0.0, 0.0, 2.0, 5.0)),
        memory_per_pod=draw(among(0.0, 0.0, 8.0)),
        resources=draw(among((), (), (("rdma/ib", 1.0),))),
        rules=rules,
    )


@st.composite
def pools(draw: st.DrawFn, *, limited: bool = True, fractions: bool = True, smaller: bool = True) -> PoolState:
    """A pool with random HP and spot runs on it, some of several roles; its nodes may hold more than they have."""
    state = PoolState("A100", draw(nodes(limited=limited)))
    kind = roles(whole=not fractions)
    for index in range(draw(st.integers(4, 20))):
        mixed = tuple(draw(kind) for _ in range(draw(among(1, 1, 1, 2))))
        if not limited:
            mixed = tuple(Role(role.pods, role.gpus_per_pod) for role in mixed)
        come(state, index, draw(among(*Priority, Priority.SPOT)), mixed, draw)
    if smaller and draw(st.booleans()):
        specs = [replace(node.spec, gpus=max(node.total - draw(among(0, 1, 2)), 1)) for node in state.nodes]
        specs = [replace(spec, cpus=spec.cpus and max(spec.cpus - draw(among(0.0, 6.0)), 1.0)) for spec in specs]
        state.change_nodes([NodeChange(NodeChangeKind.RESIZED, spec) for spec in specs], 0.0)
        state.rebuild()
    check_state(state)
    return state


def come(state: PoolState, index: int, priority: Priority, mixed: tuple[Role, ...], draw: st.DrawFn) -> None:
    """A task starts on random nodes that have room for it, if all its pods find some."""
    number = draw(among(1, 2, 13))
    task = Task(
        index, f"t{index:02}", "lab", "A100", priority, 0, 0, 0.0, mixed=mixed,
        checkpoint_interval=draw(among(600.0, 1700.0, 3600.0)), earlier_runs=number - 1,
    )  # fmt: skip
    trial = Trial(state.pool)
    for role in task.roles:
        for _ in range(role.pods):
            fitting = [node for node in state.pool.nodes if state.pool.fits(node, role)]
            if not fitting:
                trial.rollback()
                return
            trial.place(draw(st.sampled_from(fitting)), role)
    state.start(task, trial.commit(), draw(among(0.0, 300.0, 900.0)))


# -- what there is, by counting --------------------------------------------------------------------------------


def admits(state: PoolState, node: Node, role: Role, gone: Collection[Run] = ()) -> bool:
    """Whether one more pod of the role fits on the node without these runs."""
    whole, divided, used, ports = 0, Counter[int](), Counter[str](), set[str]()
    for run in state.runs.values():
        for where, theirs, pods, slot in run.places if run not in gone else ():
            if where is node:
                if slot == WHOLE:
                    whole += pods * theirs.cards
                else:
                    divided[slot] += theirs.share
                used.update({name: pods * amount for name, amount in theirs.requests})
                ports.update(port for rule in theirs.rules if isinstance(rule, PortRule) for port in rule.ports)
    idle = node.spec.gpus - whole - len(divided)
    if idle < 0 or (role.cards and idle < role.cards):
        return False
    if role.share and not idle and all(load + role.share > MICRO for load in divided.values()):
        return False
    has, wanted = node.spec.limits(), dict(role.requests)
    if any(used[name] > amount + SLACK for name, amount in has.items()):
        return False
    if any(used[name] + wanted.get(name, 0.0) > amount + SLACK for name, amount in has.items() if wanted.get(name)):
        return False
    for rule in role.rules:
        if isinstance(rule, PortRule) and ports.intersection(rule.ports):
            return False
        if isinstance(rule, NodeRule) and node.spec.group not in rule.groups:
            return False
    return True


def spot_on(state: PoolState, node: Node) -> list[Run]:
    return [run for run in state.runs.values() if run.task.is_spot and node in run.nodes]


def spared_by_waste(state: PoolState, node: Node, role: Role, now: float) -> list[Run]:
    """Alg. 2: all spot runs of the node go, but for those that can be spared, the one that wastes most first."""
    gone = spot_on(state, node)
    for run in sorted(gone, key=lambda run: (-run.waste(now), run.task.index)):
        others = [other for other in gone if other is not run]
        if admits(state, node, role, others):
            gone = others
    return gone


def cheapest(state: PoolState, role: Role, now: float, kept: int, evicted: int) -> tuple[int, list[str]] | None:
    """The node and victims of least cost, by a look at every node: (F+V)/(G+F+V) + 0.5 waste / (GPUs x T)."""
    options = []
    for node in state.pool.nodes:
        if spot_on(state, node) and admits(state, node, role, spot_on(state, node)):
            runs = spared_by_waste(state, node, role, now)
            broken, waste = evicted + len(runs), sum(run.waste(now) for run in runs)
            cost = broken / (kept + broken) + 0.5 * waste / (state.pool.capacity * PERIOD)
            options.append((round(cost, 12), len(runs), node.index, sorted(run.task.name for run in runs)))
    return min(options)[2:] if options else None


# -- the cheapest node -----------------------------------------------------------------------------------------


def test_gfs_finds_the_cheapest_of_all_nodes() -> None:
    seen = Counter[str]()

    @settings(max_examples=300, phases=(Phase.explicit, Phase.generate))
    @given(state=pools(), asked=st.lists(roles(), min_size=1, max_size=6), now=among(1000.0, 5000.0))
    def compare(state: PoolState, asked: list[Role], now: float) -> None:
        seen.update(compare_choices(state, asked, now))

    compare()
    for what in ("several victims", "several nodes", "without GPUs", "a part of a GPU", "divided", "overfull", "ports"):
        assert seen[what] >= 10, seen


def compare_choices(state: PoolState, asked: list[Role], now: float) -> Counter[str]:
    """Compares the choice for each role that finds no room; what was seen."""
    seen = Counter[str]()
    preemptor, tells = (GfsPreemptor(state, period=PERIOD, tell=tell) for tell in (False, True))
    task = Task(99, "h", "lab", "A100", Priority.HP, 0, 0, now, mixed=tuple(asked))
    evicted, kept = state.ledger.totals(now)
    for role in task.roles:
        for node in state.pool.nodes:
            assert state.pool.fits(node, role) == admits(state, node, role), (node, role.requests)
            assert state.pool.could_hold(node, role) == admits(state, node, role, spot_on(state, node))
        if state.pool.nodes_for(role):
            continue
        chosen = preemptor.choose(role, now)
        found = chosen and (chosen.node.index, sorted(run.task.name for run in chosen.runs))  # type: ignore[union-attr]
        assert found == cheapest(state, role, now, kept, evicted)
        told = tells.choose(role, now)
        assert (told and told[:3]) == (chosen and chosen[:3]), "to be told what else was weighed changes nothing"
        if chosen is None:
            continue
        seen["several victims"] += len(chosen.runs) > 1
        seen["several nodes"] += sum(state.pool.could_hold(node, role) for node in state.pool.nodes) > 1
        seen["without GPUs"] += not role.gpus_per_pod
        seen["a part of a GPU"] += bool(role.share)
        seen["divided"] += bool(chosen.node and chosen.node.shares)
        seen["overfull"] += bool(chosen.node and chosen.node.overfull)
        seen["ports"] += any(isinstance(rule, PortRule) for rule in role.rules)
    return seen


# -- several of one node ---------------------------------------------------------------------------------------


def search_for(state: PoolState, role: Role, pods: int, price: float) -> GangSearch:
    preemptor = GangPreemptor(state, eviction_price=price)
    return GangSearch(state.pool, preemptor.spot, role, pods, preemptor.losses(1000.0), price)


def least(state: PoolState, node: Node, role: Role, cost: EvictionCost, now: float) -> float:
    """The least cost of any set of spot runs of the node that makes room for one more pod, by trying all."""

    def pods(gone: Collection[Run]) -> int:
        free = {GPUS: float(node.idle - node.surplus), **node.free}
        for run in gone:
            for where, theirs, many, _ in run.places:
                if where is node:
                    free[GPUS] += many * theirs.cards
                    for name, amount in theirs.requests:
                        if name in free:
                            free[name] += many * amount
        if any(left < -SLACK for left in free.values()):
            return 0
        wanted = [(free[name], amount) for name, amount in role.requests if name in free]
        return int(min([free[GPUS] // role.cards, *((left + SLACK) // amount for left, amount in wanted)]))

    runs, before, best = spot_on(state, node), pods(()), inf
    for size in range(1, len(runs) + 1):
        for some in combinations(runs, size):
            if pods(some) > before:
                best = min(best, sum(cost.of(run, now) for run in some))
    return best


def compare_bundles(state: PoolState, asked: Sequence[Role], price: float) -> int:
    """Compares the cheapest runs on every node without divided GPUs; how often several had to go."""
    task, several = Task(99, "h", "lab", "A100", Priority.HP, 0, 0, 0.0, mixed=tuple(asked)), 0
    for role in task.roles:
        search, each = search_for(state, role, role.pods, price), EvictionCost(price, state.rules)
        for node in state.pool.nodes:
            if node.spot and not node.shares and state.pool.admits(node, role):
                runs, cost = search._cheapest(node)
                numbers = [search._spot.runs[number] for number in runs]
                assert cost == pytest.approx(least(state, node, role, each, 1000.0))
                assert cost == inf or cost == pytest.approx(sum(each.of(run, 1000.0) for run in numbers if run))
                several += len(runs) > 1
    return several


PRICES = among(0.5, 2.0, 1e6)


@settings(max_examples=200)
@given(
    state=pools(limited=False, fractions=False),
    asked=st.lists(roles(ports=False, whole=True), min_size=1, max_size=4),
    price=PRICES,
)
def test_the_cheapest_of_one_node_are_exact_where_only_gpus_count(
    state: PoolState, asked: list[Role], price: float
) -> None:
    compare_bundles(state, asked, price)


@settings(max_examples=300)
@given(
    state=pools(fractions=False),
    asked=st.lists(roles(ports=False, whole=True), min_size=1, max_size=4),
    price=PRICES,
)
def test_the_cheapest_of_one_node_are_exact_where_all_counts(state: PoolState, asked: list[Role], price: float) -> None:
    compare_bundles(state, asked, price)


@settings(max_examples=200)
@given(
    state=pools(),
    role=roles(ports=False, whole=True),
    pods=st.integers(1, 5),
    price=PRICES,
)
def test_victims_of_a_gang_make_room_for_all_of_it(state: PoolState, role: Role, pods: int, price: float) -> None:
    (asked,) = Task(99, "h", "lab", "A100", Priority.HP, 0, 0, 0.0, mixed=(role,)).roles
    before = state.pool.slots(asked)
    victims = search_for(state, asked, pods, price).victims()
    if victims is None:
        return
    assert len(set(victims)) == len(victims) > 0
    trial = Trial(state.pool)
    for run in victims:
        trial.evict(run)
    assert state.pool.slots(asked) - before >= pods
    trial.rollback()
    for run in victims:
        for other in (each for each in victims if each is not run):
            trial.evict(other)
        assert state.pool.slots(asked) - before < pods, f"{run} could have stayed"
        trial.rollback()


# -- the table -------------------------------------------------------------------------------------------------


def held(run: Run, node: Node, name: str) -> float:
    """What a run holds of something on a node: of GPUs also those that it has a part of."""
    total = 0.0
    for where, role, pods, slot in run.places:
        if where is node:
            amount = dict(role.requests).get(name, 0.0) if name != GPUS else float(role.cards or slot != WHOLE)
            total += pods * amount
    return total


@settings(max_examples=150)
@given(state=pools(), data=st.data())
def test_the_table_says_what_nodes_hold_after_any_changes(state: PoolState, data: st.DataObject) -> None:
    table, trial, evicted = SpotTable(state.pool), Trial(state.pool), list[Run]()
    for index in range(100, 100 + data.draw(st.integers(1, 12))):
        what = data.draw(among("come", "come", "finish", "try", "back", "evict"))
        spot = [run for run in state.runs.values() if run.task.is_spot and run not in evicted]
        if what == "come" and not evicted:
            come(state, index, data.draw(among(*Priority)), (data.draw(roles()),), data.draw)
        elif what == "back":
            trial.rollback()
            evicted.clear()
        elif what == "finish" and spot and not evicted:
            state.finish(data.draw(st.sampled_from(spot)), 2000.0)
        elif spot:
            run = data.draw(st.sampled_from(spot))
            trial.evict(run)
            evicted.append(run)
            if what == "evict" and len(evicted) == 1:
                trial.commit()
                state.evict(run, 2000.0)
                evicted.clear()
        if data.draw(st.booleans()):
            check_table(table, state)
    trial.rollback()
    check_table(table, state)


def check_table(table: SpotTable, state: PoolState) -> None:
    """Compares every cell with what the node holds."""
    table.refresh()
    wasted = table.waste(3000.0)
    for node in state.pool.nodes:
        cells = [number for number in table.cells[node.index].tolist() if number != NOBODY]
        runs = [table.runs[number] for number in cells]
        assert runs == list(node.spot)
        for cell, (number, run) in enumerate(zip(cells, runs, strict=True)):
            assert run is not None
            assert (table.number(run), table.index(number), table.run_number[number]) == (
                number, run.task.index, run.number,
            )  # fmt: skip
            assert wasted[number] == run.waste(3000.0)
            for name in table.names:
                mine = held(run, node, name) if name == GPUS or name in node.free else 0.0
                assert table.held[name][node.index, cell] == mine
        for name in table.names:
            amounts = sorted(table.held[name][node.index, : len(cells)].tolist(), reverse=True)
            for k in range(table.cells.shape[1]):
                assert table.most_held[name][node.index, k] == pytest.approx(sum(amounts[: k + 1]))
            assert not table.held[name][node.index, len(cells) :].any()
