"""Who must go where nodes hold more than they have: compared with counting, set by set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import combinations
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from test_trial_rollback import busy_stages, get_smaller

from builders import Draft, Stage
from gfs import Priority, Task
from gfs.core.invariants import check_state
from gfs.core.node import WHOLE, Node
from gfs.core.run import Run
from gfs.core.trial import Trial
from gfs.domain.units import MICRO
from gfs.policies.fgd.fragmentation import ArrivalMix
from gfs.policies.fgd.preemption import FgdPreemptor
from gfs.policies.gfs.gang_victims import GangPreemptor
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.preemption import victims_on

ASKS = [Draft("x", Priority.HP, gpus).task(99) for gpus in (0.2, 0.5, 1, 2, 3, 4, 8)]
PERIOD = 7200.0


@st.composite
def overfull_stages(draw: st.DrawFn) -> Stage:
    """Busy nodes of which most have lost cards."""
    stage = draw(busy_stages())
    get_smaller(stage, [max(node.total - draw(st.integers(0, 4)), 1) for node in stage.pool.nodes])
    return stage


def left(stage: Stage, node: Node, gone: Collection[Run] = ()) -> tuple[int, list[int]]:
    """Cards that the node has less those that are held, and what is held of each: by counting."""
    whole, load = 0, Counter[int]()
    for run in stage.state.runs.values():
        if run not in gone:
            for where, role, pods, slot in run.places:
                if where is node and slot == WHOLE:
                    whole += pods * role.cards
                elif where is node:
                    load[slot] += role.share
    return node.spec.gpus - whole - len(load), list(load.values())


def pods_that_fit(stage: Stage, node: Node, task: Task, gone: Collection[Run] = ()) -> int:
    """How many pods the node has room for without these runs."""
    cards, loads = left(stage, node, gone)
    if cards < 0:
        return 0
    if task.cards:
        return cards // task.cards
    return cards * (MICRO // task.share) + sum((MICRO - load) // task.share for load in loads)


def sets(runs: Collection[Run]) -> Iterator[tuple[Run, ...]]:
    """All sets of these runs, small ones first."""
    for size in range(len(runs) + 1):
        yield from combinations(runs, size)


@settings(max_examples=150)
@given(stage=overfull_stages())
def test_counts_are_those_of_the_runs(stage: Stage) -> None:
    check_state(stage.state)
    everybody = [run for run in stage.state.runs.values() if run.task.is_spot]
    for task in ASKS:
        now = sum(pods_that_fit(stage, node, task) for node in stage.pool.nodes)
        then = sum(pods_that_fit(stage, node, task, everybody) for node in stage.pool.nodes)
        assert stage.pool.slots(task) == now
        assert stage.pool.slots(task, without_spot=True) == then
        for node in stage.pool.nodes:
            assert stage.pool.could_hold(node, task) == (pods_that_fit(stage, node, task, everybody) > 0)


@settings(max_examples=150)
@given(stage=overfull_stages())
def test_victims_make_room_and_none_of_them_could_stay(stage: Stage) -> None:
    for task in ASKS:
        for node in stage.pool.nodes:
            if pods_that_fit(stage, node, task) or not stage.pool.could_hold(node, task):
                continue
            victims = victims_on(stage.pool, node, task, sorted(node.spot, key=lambda run: run.task.index))
            assert pods_that_fit(stage, node, task, victims)
            for run in victims:
                assert not pods_that_fit(stage, node, task, [other for other in victims if other is not run])


@settings(max_examples=150)
@given(stage=overfull_stages(), now=st.sampled_from([100.0, 5000.0]))
def test_gfs_finds_the_cheapest_node(stage: Stage, now: float) -> None:
    preemptor = GfsPreemptor(stage.state, period=PERIOD)
    evicted, kept = stage.state.ledger.totals(now)
    weight = 0.5 / (max(stage.pool.capacity, 1) * PERIOD)
    for task in ASKS:
        if any(pods_that_fit(stage, node, task) for node in stage.pool.nodes):
            continue
        best: tuple[float, int, int] = (inf, 0, 0)
        for node in stage.pool.nodes:
            if stage.pool.could_hold(node, task):
                order = sorted(node.spot, key=lambda run: (-run.waste(now), run.task.index))
                victims = victims_on(stage.pool, node, task, order)
                broken = evicted + len(victims)
                cost = broken / (broken + kept) + weight * sum(run.waste(now) for run in victims)
                best = min(best, (round(cost, 12), len(victims), node.index))
        chosen = preemptor.choose(task, now)
        if best[0] == inf:
            assert chosen is None
        else:
            assert chosen is not None
            assert chosen.node is stage.pool.nodes[best[2]]
            assert len(chosen.runs) == best[1]


@settings(max_examples=100)
@given(stage=overfull_stages())
def test_fgd_and_gangs_make_room(stage: Stage) -> None:
    """FGD with the fewest victims where no card is divided; the search for gangs with enough."""
    mix = ArrivalMix()
    mix.learn(ASKS)
    fgd, gang = FgdPreemptor(stage.pool, mix), GangPreemptor(stage.state)
    whole = not any(node.shares for node in stage.pool.nodes)
    for task in ASKS:
        if any(pods_that_fit(stage, node, task) for node in stage.pool.nodes):
            continue
        able = [node for node in stage.pool.nodes if stage.pool.could_hold(node, task)]
        chosen = fgd.choose(task, 100.0)
        assert (chosen is not None) == bool(able)
        if chosen is not None:
            assert chosen.node is not None
            assert pods_that_fit(stage, chosen.node, task, chosen.runs)
            if whole:
                fewest = min(
                    next(len(some) for some in sets(node.spot) if pods_that_fit(stage, node, task, some))
                    for node in able
                )
                assert len(chosen.runs) == fewest
        for pods in (1, 2, 3):
            victims = gang.choose_gang(task, pods, 100.0)
            if victims is not None:
                assert sum(pods_that_fit(stage, node, task, victims.runs) for node in stage.pool.nodes) >= pods


@settings(max_examples=100)
@given(stage=overfull_stages())
def test_what_the_last_victim_leaves_can_be_used(stage: Stage) -> None:
    """Runs go one by one: idle is what is left, and pods are placed on it until nothing is."""
    trial, one = Trial(stage.pool), Draft("x", Priority.HP, 1, pods=99).task(99)
    gone: list[Run] = []
    for run in stage.runs:
        trial.evict(run)
        gone.append(run)
        for node in stage.pool.nodes:
            assert node.idle == max(left(stage, node, gone)[0], 0)
    for node in stage.pool.nodes:
        cards = node.idle
        for _ in range(cards):
            trial.place(node, one)
        assert node.idle == 0
    trial.rollback()
    check_state(stage.state)
