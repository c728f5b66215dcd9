"""FGD against an obvious one that works out F by its definition, node by node and run by run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from oracle import (
    Cards,
    OraclePool,
    Settings,
    Stay,
    compare_logs,
    fits,
    idle_cards,
    need,
    room,
    without,
)
from strategies import Case, among, cases

from builders import Draft, Stage
from gfs import Parameters, Priority, Task, simulate
from gfs.assembly.compositions import FGD
from gfs.assembly.context import Context
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import SUBMIT, Record
from gfs.core.node import WHOLE, Node
from gfs.core.run import Run
from gfs.policies.fgd.fragmentation import ArrivalMix
from gfs.policies.fgd.placement import FgdPlacer
from gfs.policies.fgd.preemption import FgdPreemptor
from gfs.simulator.engine import Engine
from promises import CARD

# -- the obvious one ---------------------------------------------------------------------------------------

Mix = Counter[float]
"""GPUs per pod -> tasks that have arrived."""


def micro(gpus: float) -> int:
    return round(gpus * CARD)


def expected_fragmentation(node: Cards, mix: Mix) -> int:
    """F by its definition, in micro-cards, with the number of tasks of a size in the place of its probability."""
    idle = len(idle_cards(node))
    parts = [room(card) for card in node if card]
    total = 0
    for gpus, count in mix.items():
        holds = idle >= gpus if gpus >= 1 else any(room(card) >= micro(gpus) for card in node)
        if not holds:
            lost = idle * CARD + sum(parts)
        elif gpus >= 1:
            lost = sum(parts)
        else:
            lost = sum(part for part in parts if part < micro(gpus))
        total += count * lost
    return total


def with_pod(node: Cards, task: Task) -> Cards:
    """The node with a pod of the task where the pool would put it."""
    after = node.copy()
    share = need(task)
    if share:
        parts = [(room(card), i) for i, card in enumerate(node) if card and room(card) >= share]
        taken = [min(parts)[1]] if parts else idle_cards(node)[:1]
    else:
        taken = idle_cards(node)[: int(task.gpus_per_pod)]
    for card in taken:
        after[card].append((Stay(task, 0), share or CARD))
    return after


def best_node(cluster: Sequence[Cards], task: Task, mix: Mix) -> int | None:
    def growth(i: int) -> int:
        before = expected_fragmentation(cluster[i], mix)
        return expected_fragmentation(with_pod(cluster[i], task), mix) - before

    return min((i for i, node in enumerate(cluster) if fits(node, task)), key=lambda i: (growth(i), i), default=None)


def spot_on(node: Cards) -> list[Any]:
    return list(dict.fromkeys(run for card in node for run, _ in card if run.task.is_spot))


def best_victims(cluster: Sequence[Cards], task: Task, mix: Mix) -> tuple[int, list[Any]] | None:
    options = []
    for i, node in enumerate(cluster):
        if fits(without(node, spot_on(node)), task):
            gone = victims_on(node, task, mix)
            after = expected_fragmentation(with_pod(without(node, gone), task), mix)
            options.append((len(gone), after - expected_fragmentation(node, mix), i, gone))
    if not options:
        return None
    _, _, i, gone = min(options, key=lambda option: option[:3])
    return i, gone


def victims_on(node: Cards, task: Task, mix: Mix) -> list[Any]:
    """Everybody but those that can be spared one after the other."""

    def spared_first(run: Any) -> tuple[Any, ...]:
        after = without(node, [run])
        whole_cards = sum(other is run and size == CARD for card in node for other, size in card)
        if fits(after, task):
            return True, 0, -expected_fragmentation(with_pod(after, task), mix), run.task.index
        return False, whole_cards, -expected_fragmentation(after, mix), run.task.index

    gone = spot_on(node)
    for run in sorted(gone, key=spared_first):
        others = [other for other in gone if other is not run]
        if fits(without(node, others), task):
            gone = others
    return gone


# -- whole runs --------------------------------------------------------------------------------------------


class ObviousPool(OraclePool):
    """The slow scheduler of the other comparisons, with FGD's choices."""

    def mix(self, now: float) -> Mix:
        return Counter(task.gpus_per_pod for task in self.tasks if task.submit_time <= now)

    def best_node(self, task: Task, now: float) -> int | None:
        return best_node(self.cluster, task, self.mix(now))

    def whom_to_evict(self, task: Task, now: float) -> tuple[int, list[Stay]] | None:
        chosen = best_victims(self.cluster, task, self.mix(now))
        if chosen is not None:
            node = self.cluster[chosen[0]]
            self.seen["several victims"] += len(chosen[1]) > 1
            self.seen["evicted from a divided card"] += any(0 < room(card) < CARD for card in node)
        return chosen


def with_victims_by_cards_alone(case: Case) -> Case:
    """Returns the case with HP tasks that wait where more than cards would decide who goes.

    The obvious scheduler weighs cards alone when it chooses victims; nodes it chooses in every respect.
    """

    def waits(task: Task) -> bool:
        return not task.is_spot and (case.parameters["resources"] == "on" or bool(task.rules))

    tasks = (replace(task, preempts=False) if waits(task) else task for task in case.work.tasks)
    return replace(case, work=replace(case.work, tasks=tuple(tasks)))


def test_fgd_does_what_the_obvious_one_does() -> None:
    seen = Counter[str]()

    @settings(max_examples=350, phases=(Phase.explicit, Phase.generate))
    @given(cases(max_tasks=30, mixes=False))
    def compare(case: Case) -> None:
        given_, resources = case.parameters, case.parameters["resources"] == "on"
        case = with_victims_by_cards_alone(case)
        result = simulate(case.work, scheduler="fgd", **given_)
        rows = []
        for model in case.work.capacity():
            pool = ObviousPool(
                case.work,
                model,
                Settings(
                    scheduler="fgd",
                    quota_share=given_["quota_share"] if given_["quota"] == "fixed" else None,
                    grace=given_["grace_period"],
                    on_grace=given_["checkpoint_on_grace"],
                    resources=resources,
                ),
            )
            rows += pool.play()
            seen.update(pool.seen)
        compare_logs(case.work, result.events, rows, resources=resources)

    compare()
    # About a third of what is usual, as the cases tried depend on the version of Hypothesis.
    for what, least in {
        "eviction": 150,
        "gang evicted": 15,
        "HP gang preempts": 30,
        "fraction preempts": 5,
        "preemption rolled back": 10,
        "several victims": 40,
        "evicted from a divided card": 20,
        "enough cards, but not of the rest": 700,
    }.items():
        assert seen[what] >= least, f"{what}: only {seen[what]} times; make the load higher"


# -- single choices ----------------------------------------------------------------------------------------

SIZES = [0.2, 0.25, 0.25, 0.3, 0.5, 0.5, 0.75, 1, 1, 1, 2, 2, 3, 4, 8]
QUESTIONS = [Draft("x", Priority.HP, gpus).task(10_000) for gpus in (0.2, 0.25, 0.3, 0.5, 0.8, 1, 2, 3, 4, 6, 8)]


def cards_of(sizes: Sequence[int], runs: Sequence[Run]) -> list[Any]:
    cluster: list[Any] = [Cards([] for _ in range(size)) for size in sizes]
    slots: dict[tuple[Node, int], int] = {}
    for run in runs:
        for node, role, pods, slot in run.places:
            if slot == WHOLE:
                places = [*idle_cards(cluster[node.index])[: pods * role.cards]]
            else:
                places = [slots.setdefault((node, slot), (idle_cards(cluster[node.index]) or [0])[0])]
            for card in places:
                cluster[node.index][card].append((run, role.share or CARD))
    return cluster


@settings(max_examples=300)
@given(data=st.data())
def test_every_choice_is_that_of_looking_at_all_nodes(data: st.DataObject) -> None:
    # Spot work comes and goes on few nodes of few sizes, so that many nodes look alike and ties are common.
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 4, 4, 8]), min_size=1, max_size=5))
    menu = data.draw(st.lists(st.sampled_from([g for g in SIZES if g <= max(sizes)]), min_size=1, max_size=4))
    stage, runs = Stage(*sizes), list[Run]()
    learnt, mix = ArrivalMix(), Counter[float]()
    placer, preemptor = FgdPlacer(stage.state, learnt), FgdPreemptor(stage.pool, learnt)
    questions = [task for task in QUESTIONS if task.gpus_per_pod <= max(sizes)]

    for number in range(data.draw(st.integers(1, 25))):
        what = data.draw(among("come", "come", "come", "come", "go", "ask"))
        if what == "come":
            kind = data.draw(among(Priority.SPOT, Priority.SPOT, Priority.SPOT, Priority.HP))
            draft = Draft(f"t{number}", kind, data.draw(st.sampled_from(menu)), data.draw(among(1, 1, 2)))
            learnt.learn([draft.task()])
            mix[float(draft.gpus)] += 1
            cluster, where = cards_of(sizes, runs), []
            for _ in range(draft.pods):
                fitting = [i for i, node in enumerate(cluster) if fits(node, draft.task())]
                if fitting:
                    where.append(data.draw(st.sampled_from(fitting)))
                    cluster[where[-1]] = with_pod(cluster[where[-1]], draft.task())
            if len(where) == draft.pods:
                runs.append(stage.spread([f"n{i}" for i in where], draft))
        elif what == "go" and runs:
            run = runs.pop(data.draw(st.integers(0, len(runs) - 1)))
            stage.state.finish(run, 0.0)
        elif mix:
            cluster = cards_of(sizes, runs)
            for task in questions:
                node = placer.choose(task)
                assert (node.index if node else None) == best_node(cluster, task, mix), task
                if node is None:
                    chosen = preemptor.choose(task, 0.0)
                    expected = best_victims(cluster, task, mix)
                    found = chosen and (chosen.node.index, sorted(run.task.name for run in chosen.runs))
                    assert found == (expected and (expected[0], sorted(run.task.name for run in expected[1]))), task


def test_a_pool_that_lives_long_chooses_as_a_new_one() -> None:
    # 20,000 pods come and go on three nodes: whatever is kept of the past must not show.
    stage, mix = Stage(8, 8, 8), ArrivalMix()
    placer, preemptor = FgdPlacer(stage.state, mix), FgdPreemptor(stage.pool, mix)
    mix.learn([Draft("a", Priority.HP, gpus).task() for gpus in (0.5, 1, 2, 8)])
    for number in range(20_000):
        run = stage.holds(f"n{number % 3}", Draft("t", Priority(number % 4 > 0), (0.5, 1, 2, 3, 4)[number % 5]))
        if number % 7 == 0:
            placer.choose(run.task)
            preemptor.choose(run.task, 0.0)
        stage.state.finish(run, 0.0)
    for task in QUESTIONS:
        assert placer.choose(task) is stage.node("n0"), "all are empty"
        assert preemptor.choose(task, 0.0) is None, "nobody is there"


# -- the mix -----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(case=cases(max_tasks=25, mixes=False))
def test_the_mix_is_exactly_what_has_arrived_in_the_pool(case: Case) -> None:
    work, mixes = case.work, dict[str, ArrivalMix]()
    arrived = {model: Counter[int]() for model in work.capacity()}

    def watched(context: Context, mix: ArrivalMix) -> FgdPlacer:
        """A placer that looks at the mix before every choice: the task it is asked for must be in it already."""
        placer, model = FgdPlacer(context.state, mix), context.pool.gpu_model
        mixes[model] = mix
        choose = placer.choose

        def choose_with_a_look(task: Task) -> Node | None:
            assert mix.tasks == arrived[model]
            return choose(task)

        placer.choose = choose_with_a_look
        return placer

    def note(record: Record) -> None:
        _, event, task, _, _ = record
        if event == SUBMIT:
            arrived[task.gpu_model][micro(task.gpus_per_pod)] += 1

    definition = replace(FGD, name="watched", placer=watched)
    scheduler = build_scheduler(definition, work.nodes, Parameters(), period=3600.0)
    assert not any(mix.tasks for mix in mixes.values()), "nothing is known before the first arrival"
    Engine(work, scheduler, note, rules=Parameters().rules).run()
    for model, mix in mixes.items():
        assert mix.tasks == arrived[model], "each task counts once, however often it was evicted"
        assert sum(mix.tasks.values()) == sum(task.gpu_model == model for task in work.tasks)


@pytest.mark.parametrize("pieces", [1, 3])
@settings(max_examples=60)
@given(
    requests=st.lists(st.sampled_from(SIZES), max_size=12),
    idle=st.integers(0, 8),
    parts=st.lists(st.sampled_from([0.05, 0.25, 0.5, 0.7, 0.75, 0.9]), max_size=3),
)
def test_f_is_its_definition(pieces: int, requests: list[float], idle: int, parts: list[float]) -> None:
    mix = ArrivalMix()
    tasks = [Draft("x", Priority.SPOT, gpus).task() for gpus in requests]
    for piece in range(pieces):
        mix.learn(tasks[piece::pieces])
    filler = [Draft("y", Priority.HP, 1 - part).task() for part in parts]
    node = Cards([*([] for _ in range(idle)), *([(Stay(task, 1), need(task))] for task in filler)])
    parts_left = [CARD - need(task) for task in filler]
    assert mix.fragmentation(idle, parts_left) == expected_fragmentation(node, Counter(requests))
