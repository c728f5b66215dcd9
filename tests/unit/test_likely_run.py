"""Admission by how long a task will likely run: which quotas count for it, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from builders import Stage, hp, spot
from gfs import Parameters
from gfs.assembly.admissions import build_admission
from gfs.assembly.context import Context
from gfs.core.actions import Plan
from gfs.core.ledger import GuaranteeLedger
from gfs.core.ports import QuotaRow
from gfs.core.reasons import OverQuota
from gfs.core.run import Run
from gfs.domain.execution import ExecutionRules
from gfs.domain.task import Task
from gfs.policies.admission import ByGuarantee
from gfs.policies.fit import best_fit
from gfs.policies.gfs.likely_run import ByLikelyRun
from gfs.policies.gfs.run_times import RunTimes
from gfs.policies.greedy import GreedyPolicy
from gfs.policies.queues import SizedQueue
from gfs.policies.random_node import RandomPreemptor


class Known(RunTimes):
    """Says how likely a run lasts beyond 1 and 2 hours, the same for all tasks."""

    def __init__(self, *shares: float) -> None:
        super().__init__()
        self.shares = dict(zip((1.0, 2.0), shares, strict=True))

    def beyond(self, task: Task, hours: float) -> float:
        """As given."""
        return self.shares[hours]


def likely(*shares: float) -> ByLikelyRun:
    return ByLikelyRun(Known(*shares), (1.0, 2.0, 4.0))


@pytest.mark.parametrize(
    ("shares", "guarantee", "lengths"),
    [
        ((0.4, 0.2), 4, (4, 1)),  # likely done in an hour
        ((0.6, 0.4), 4, (4, 2)),  # likely done in two
        ((0.6, 0.5), 4, (4,)),  # as likely as not is not likely
        ((0.9, 0.9), 4, (4,)),  # likely outlasts everything: no longer look than the guarantee
        ((0.4, 0.2), 2, (2, 1)),
        ((0.6, 0.2), 2, (2,)),
        ((0.4, 0.2), 1, (1,)),  # its guarantee is not longer than the shortest look
        ((0.4, 0.2), 0.5, (0.5,)),
    ],
)
def test_which_quotas_count(shares: tuple[float, ...], guarantee: float, lengths: tuple[float, ...]) -> None:
    assert likely(*shares).lengths(spot("s", hours=guarantee).task()) == lengths
    assert ByGuarantee().lengths(spot("s", hours=guarantee).task()) == (guarantee,)


def test_the_answer_stays_while_the_task_waits_and_is_given_anew_when_it_comes_back() -> None:
    times, task = Known(0.4, 0.2), spot("s", hours=4).task()
    admission = ByLikelyRun(times, (1.0, 2.0, 4.0))
    assert admission.lengths(task) == (4, 1)
    times.shares = {1.0: 0.9, 2.0: 0.9}
    assert admission.lengths(task) == (4, 1)
    plan = Plan()
    plan.starts.append(Run(task, 1, [], 0.0, 0.0))
    admission.decided(plan, 0.0)
    assert admission.lengths(task) == (4,)


def test_what_it_says() -> None:
    admission, task = likely(0.4, 0.2), spot("s", hours=4).task()
    assert admission.why(task, 1) == "likely done by then, guaranteed 4 h"
    assert admission.why(task, 4) == ""


class Foreseen:
    """A quota of 6 for one hour and of 2 for four: a peak is foreseen."""

    def limit(self, guarantee_hours: float) -> float:
        """What is left."""
        return 6.0 if guarantee_hours <= 1 else 2.0

    def tick(self, now: float) -> None:
        """Nothing changes."""

    def rows(self) -> Sequence[QuotaRow]:
        """Nobody asks."""
        return ()

    def why(self, guarantee_hours: float) -> str:
        """What led to it."""
        return "a peak is foreseen"


def policy(stage: Stage, admission: ByLikelyRun | ByGuarantee) -> GreedyPolicy:
    return GreedyPolicy(
        stage.pool,
        hp_queue=SizedQueue(),
        spot_queue=SizedQueue(admission.lengths),
        placer=best_fit(stage.pool),
        preemptor=RandomPreemptor(stage.pool, 0),
        quota=Foreseen(),
        ledger=GuaranteeLedger(),
        rules=ExecutionRules(),
        admission=admission,
    )


def started(made: GreedyPolicy, *tasks: Task) -> list[str]:
    return [run.task.name for run in made.decide(tasks, False, 0.0).starts]


def test_who_will_be_done_before_the_peak_starts_and_who_will_not_waits() -> None:
    task = spot("s", gpus=4, hours=4).task()
    assert started(policy(Stage(8), ByGuarantee()), task) == []
    assert started(policy(Stage(8), likely(0.9, 0.9)), task) == []
    assert started(policy(Stage(8), likely(0.4, 0.2)), task) == ["s"]


def test_the_quota_of_its_likely_hours_is_kept_and_it_counts_with_its_guarantee() -> None:
    made = policy(Stage(8), likely(0.4, 0.2))
    tasks = [spot(name, gpus=gpus, hours=4).task(i) for i, (name, gpus) in enumerate([("a", 4), ("b", 3)])]
    assert started(made, *tasks) == ["a"]  # 4 + 3 are more than 6
    assert made.pool.spot_held(4) == 4_000_000
    ((waits, reason),) = made.waiting()
    assert waits.name == "b"
    assert reason == OverQuota("A100", 6, 4, 3, 1, "a peak is foreseen", "likely done by then, guaranteed 4 h")
    assert reason.text() == (
        "pool A100: spot quota 6 for 1 h (likely done by then, guaranteed 4 h): a peak is foreseen;"
        " 4 in use, task asks 3"
    )


def test_the_quota_of_the_guarantee_will_do_where_short_ones_have_used_up_the_other() -> None:
    made = policy(Stage(8), likely(0.4, 0.2))
    short, long = spot("short", gpus=6, hours=1).task(0), spot("long", gpus=2, hours=4).task(1)
    assert started(made, short, long) == ["short", "long"]  # 6 of 6 for an hour, 2 of 2 for four


def test_who_waited_for_cards_starts_by_the_shorter_quota_when_they_are_free() -> None:
    """The pass over those who wait looks at the larger of both rooms: 6 for an hour, though 2 for four."""
    made = policy(Stage(8), likely(0.4, 0.2))
    first, task = hp("h", gpus=8).task(0), spot("s", gpus=4, hours=4).task(1)
    (run,) = made.decide([first], False, 0.0).starts
    assert started(made, task) == []
    made.finish(run, 60.0)
    assert [run.task.name for run in made.decide((), True, 60.0).starts] == ["s"]


@pytest.mark.parametrize(
    ("guarantees", "looks"),
    [
        ((4.0,), (1.0, 2.0, 4.0)),
        ((1.0,), (1.0,)),  # none is shorter
        ((0.5, 1.5), (0.5, 1.0, 1.5)),
        ((24.0,), (1.0, 2.0, 4.0, 24.0)),
    ],
)
def test_there_is_a_quota_for_the_usual_hours_that_are_shorter(
    guarantees: tuple[float, ...], looks: tuple[float, ...]
) -> None:
    context = Context(
        Stage(8).pool, GuaranteeLedger(), Parameters(admission="likely"), period=3600.0, guarantees=guarantees
    )
    admission, for_quota = build_admission(context)
    assert isinstance(admission, ByLikelyRun)
    assert for_quota.guarantees == looks
    assert len(context.observers) == 2
