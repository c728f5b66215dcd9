"""The order of nodes from the index against looking at every node, after any history of pods, evictions and time.

The index is asked as the schedulers ask it, through their placers; what it is made of is its own business.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import among

from builders import Draft, Stage
from gfs import Priority, Task
from gfs.core.run import Run
from gfs.policies.gfs.scoring import GfsPlacer
from gfs.policies.placement import best_fit, first_fit

CARD = 1_000_000
GAMMA, M = 0.5, 30.0
SIZES = [0.1, 0.3, 1 / 3, 0.5, 0.75, 1, 1, 2, 3, 4, 8]
QUESTIONS = [
    Draft("x", priority, gpus).task() for priority in Priority for gpus in (0.05, 0.3, 0.5, 0.8, 1, 2, 3, 4, 8)
]


class Obvious:
    """The cards of every node as plain lists, and answers by scan."""

    def __init__(self, sizes: list[int]) -> None:
        self.cards: list[list[list[tuple[Priority, int]]]] = [[[] for _ in range(size)] for size in sizes]
        self.evictions: list[tuple[int, float]] = []
        self.held: dict[Run, list[list[tuple[Priority, int]]]] = {}

    def change(self, run: Run, sign: int) -> None:
        """Its one pod comes, to the fullest GPU that still fits or to idle ones, or goes."""
        entry = (run.task.priority, run.task.share or CARD)
        if sign < 0:
            for card in self.held.pop(run):
                card.remove(entry)
            return
        (node,) = run.nodes
        cards = self.cards[node.index]
        idle = [card for card in cards if not card]
        if run.task.share:
            divided = [card for card in cards if card and sum(m for _, m in card) + run.task.share <= CARD]
            self.held[run] = [max(divided, key=lambda card: sum(m for _, m in card)) if divided else idle[0]]
        else:
            self.held[run] = idle[: run.task.cards]
        for card in self.held[run]:
            card.append(entry)

    def fitting(self, task: Task) -> list[int]:
        def fits(cards: list[list[tuple[Priority, int]]]) -> bool:
            if task.gpus_per_pod < 1:
                return any(CARD - sum(m for _, m in card) >= round(task.gpus_per_pod * CARD) for card in cards)
            return self.idle(cards) >= task.gpus_per_pod

        return [node for node, cards in enumerate(self.cards) if fits(cards)]

    @staticmethod
    def idle(cards: list[list[tuple[Priority, int]]]) -> int:
        return sum(not card for card in cards)

    def first_fit(self, task: Task, now: float) -> list[int]:
        return sorted(self.fitting(task))

    def best_fit(self, task: Task, now: float) -> list[int]:
        return sorted(self.fitting(task), key=lambda i: (self.idle(self.cards[i]), i))

    def gfs(self, task: Task, now: float) -> list[int]:
        def scores(i: int) -> tuple[Any, ...]:
            cards = self.cards[i]
            own = sum(any(priority is task.priority for priority, _ in card) for card in cards)
            return (
                Fraction(self.idle(cards), len(cards)),
                -Fraction(own, len(cards)),
                -self.score3(i, task, now),
                i,
            )

        open_nodes = [i for i in self.fitting(task) if not task.is_spot or self.score3(i, task, now) > 0]
        return sorted(open_nodes, key=scores)

    def score3(self, i: int, task: Task, now: float) -> float:
        ages = [now - when for node, when in self.evictions if node == i]
        e = GAMMA * sum(age < 3600 for age in ages) + (1 - GAMMA) * sum(age < 86400 for age in ages) / 24
        heat = 0.01 * M**e
        return round(max(1 - heat, 0.0) if task.is_spot else min(heat, 1.0), 9)


PLACERS = {
    "gfs": (lambda state: GfsPlacer(state, gamma=GAMMA, m=M), Obvious.gfs),
    "best fit": (lambda state: best_fit(state.pool), Obvious.best_fit),
    "first fit": (lambda state: first_fit(state.pool), Obvious.first_fit),
}


@pytest.mark.parametrize("which", PLACERS)
@settings(max_examples=80)
@given(data=st.data())
def test_the_index_answers_like_a_scan(which: str, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=6))
    stage, obvious = Stage(*sizes), Obvious(sizes)
    build, answer = PLACERS[which]
    placer = build(stage.state)
    questions = [task for task in QUESTIONS if task.gpus_per_pod <= max(sizes)]
    runs: list[Run] = []
    now = 0.0

    def come(number: int) -> None:
        draft = Draft(f"t{number}", data.draw(among(*Priority)), data.draw(among(*SIZES)))
        fitting = obvious.fitting(draft.task())
        if fitting:
            run = stage.holds(f"n{data.draw(st.sampled_from(fitting))}", draft, now)
            obvious.change(run, +1)
            runs.append(run)

    def go(evicted: bool) -> None:
        if runs:
            run = runs.pop(data.draw(st.integers(0, len(runs) - 1)))
            obvious.change(run, -1)
            if evicted and run.task.is_spot:
                stage.evicts(run, now)
                obvious.evictions.append((run.places[0][0].index, now))
            else:
                stage.state.finish(run, now)

    for number in range(data.draw(st.integers(1, 40))):
        what = data.draw(among("come", "come", "come", "finish", "evict", "wait"))
        if what == "come":
            come(number)
        elif what == "wait":
            now += data.draw(among(1.0, 1799.5, 1800.0, 3600.0, 86400.0))
            stage.state.age(now)
        else:
            go(evicted=what == "evict")
        for task in questions:
            best_first = [stage.state.pool.nodes[i] for i in answer(obvious, task, now)]
            assert placer.choose(task) is (best_first[0] if best_first else None), task
            assert list(placer.ranked(task)) == best_first, task
            assert placer.best_of(task, best_first[:0:-1]) is (best_first[1] if best_first[1:] else None), task


def test_a_pool_that_lives_long_answers_as_a_new_one() -> None:
    # 20,000 pods come and go on two nodes: whatever the index keeps of the past must not show, nor slow it down.
    stage = Stage(8, 8)
    placer = GfsPlacer(stage.state)
    for number in range(20_000):
        run = stage.holds(f"n{number % 2}", Draft("t", Priority(number % 3 > 0), 1 + number % 4))
        stage.state.finish(run, 0.0)
    fresh = GfsPlacer(Stage(8, 8).state)
    for task in QUESTIONS:
        assert placer.choose(task).name == fresh.choose(task).name
