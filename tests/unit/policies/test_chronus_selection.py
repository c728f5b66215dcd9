"""Who holds the next leases: programs small enough to be solved by hand (docs/schedulers/chronus.md, Chronus)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from builders import Draft, hp, spot
from gfs.core.ports import SolverFigures
from gfs.policies.chronus import program
from gfs.policies.chronus.program import Capacity, LeaseShape, Outcome, TaskGroup, maximise, select


def room(*free: int, parts: float = 0.0, quota: dict[float, float] | None = None) -> Capacity:
    """Nodes with so many cards to lease out."""
    return Capacity(lambda size: sum(cards // size for cards in free), parts, quota or {})


def group(draft: Draft, tasks: int, worth: float) -> TaskGroup:
    """So many tasks, each worth so much per GPU."""
    task = draft.task()
    shape = LeaseShape(task.priority, task.gpus_per_pod, task.pods, task.guarantee_hours)
    return TaskGroup(shape, tasks, worth * task.gpus)


CASES = [
    (
        "everything fits: 3 + 4 of 8 cards",
        [group(spot("a", gpus=1), 3, 1.0), group(spot("b", gpus=4), 1, 1.0)],
        room(8),
        [3, 1],
        0,
    ),
    (
        "the greater worth per GPU first: 4 of b fill the node, a gets nothing",
        [group(spot("a", gpus=1), 8, 1.0), group(spot("b", gpus=2), 4, 1.5)],
        room(8),
        [0, 4],
        1,
    ),
    (
        # 10 cards. By worth per GPU: one 6 (6.6), then no second 6 and nothing else: 6.6.
        # Two 5s: 10 > 6.6. Only a program sees that.
        "a knapsack: two of 5 cards beat one of 6 with more worth per GPU",
        [group(spot("six", gpus=6), 1, 1.1), group(spot("five", gpus=5), 2, 1.0)],
        room(10),
        [0, 2],
        1,
    ),
    (
        # Two nodes with 6 cards each: 12 GPUs in all, but pods of 4 fit once on each: floor(6/4) = 1.
        # Worth: a pod of 4 is 4.0 x 1.2 = 4.8, of 2 is 2.0. Rows: 4s <= 2; 2 x 4s + 2s <= 6: so two 4s, two 2s.
        "cards on different nodes do not add up for one pod",
        [group(spot("four", gpus=4), 3, 1.2), group(spot("two", gpus=2), 3, 1.0)],
        room(6, 6),
        [2, 2],
        1,
    ),
    (
        # The gang of 2 x 8 needs both nodes: worth 16. Without it one task of 5 fits on each: 2 x 5 x 1.5 = 15.
        "a gang takes all its pods or none",
        [group(spot("gang", gpus=8, pods=2), 1, 1.0), group(spot("five", gpus=5), 3, 1.5)],
        room(8, 8),
        [1, 0],
        1,
    ),
    (
        # 8 cards, but spot with a guarantee of 4 h or more may hold 4, with 1 h or more 6.
        "the spot quota limits each guarantee and those above it",
        [group(spot("long", gpus=1, hours=4), 8, 1.5), group(spot("short", gpus=1, hours=1), 8, 1.0)],
        room(8, quota={1.0: 6.0, 4.0: 4.0}),
        [4, 2],
        1,
    ),
    (
        "HP knows no quota",
        [group(hp("h", gpus=4), 2, 1.0)],
        room(8, quota={1.0: 0.0}),
        [2],
        0,
    ),
    (
        # 1 card and free parts of 0.5: two halves on the card and one in the part.
        "fractions use cards and the free parts of divided ones",
        [group(spot("half", gpus=0.5), 5, 1.0)],
        room(1, parts=0.5),
        [3],
        1,
    ),
    (
        # Free parts are nothing for whole cards: 2.5 GPUs of parts do not make a third card.
        "whole cards cannot use free parts",
        [group(spot("one", gpus=1), 4, 1.0)],
        room(2, parts=2.5),
        [2],
        1,
    ),
]


@pytest.mark.parametrize(("groups", "space", "counts", "solves"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_best_set(groups: Sequence[TaskGroup], space: Capacity, counts: list[int], solves: int) -> None:
    """Where everything fits there is no program to solve."""
    found = select(groups, space, seconds=10.0)
    assert found.counts == counts
    assert found.solver == SolverFigures(solves, 0, 0.0)


def test_of_equal_sets_the_same_is_taken_however_the_solver_works() -> None:
    # Twelve groups of equal worth for room that holds a third of them: hundreds of optima without the tie-breaker.
    groups = [group(spot(f"s{i}", gpus=size), 2, 1.0) for i, size in enumerate([3, 5, 6, 7] * 3)]
    rows, limits = program._constraints(groups, room(8, 8, 8, 5))
    values = np.array([g.value for g in groups]) * program._tie_breaker(len(groups))
    most = np.array([g.tasks for g in groups], dtype=float)
    forwards = maximise(values, most, rows, limits, 10.0)
    backwards = maximise(values[::-1].copy(), most, rows[:, ::-1].copy(), limits, 10.0)
    assert forwards.counts is not None
    assert backwards.counts is not None
    assert forwards.counts.tolist() == backwards.counts.tolist()[::-1]


HARD = [group(spot("six", gpus=6), 1, 1.1), group(spot("five", gpus=5), 2, 1.0)]
"""The knapsack above: best 10.0, by worth per GPU 6.6. All three would be worth 16.6."""


def test_no_time_at_all_the_densest_that_fit_are_taken_and_the_gap_is_told() -> None:
    found = select(HARD, room(10), seconds=1e-9)
    assert found.counts == [1, 0]
    # The solver has no bound of its own yet, so that of all tasks counts: (16.6 - 6.6) / 16.6.
    assert found.solver == (1, 1, pytest.approx(1 - 6.6 / 16.6))


def test_time_runs_out_with_a_solution_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ours by worth per GPU is 6.6. What the solver has when it stops counts only if it is better: 10.0 is, 5.0 is
    # not. The gap is measured against its bound of 10.2.
    for counts, kept, value in (([0.0, 2.0], [0, 2], 10.0), ([0.0, 1.0], [1, 0], 6.6)):
        monkeypatch.setattr(program, "maximise", lambda *_, c=counts: Outcome(np.array(c), 10.2, False))
        found = select(HARD, room(10), seconds=1.0)
        assert found.counts == kept
        assert found.solver == (1, 1, pytest.approx(1 - value / 10.2))
