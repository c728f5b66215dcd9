"""A plan: what was tried, what is recommended, what other nodes would do, what could be sold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gfs.batch.job import JobResult
from gfs.domain.errors import InputError
from gfs.plans.choose import Choice, Outcome, best_by_guarantee, choose
from gfs.plans.demand import first_scales, largest_scale, last_scale
from gfs.plans.question import Question
from gfs.plans.rounds import first_round, second_round, third_round
from gfs.plans.runs import PlanRun
from gfs.plans.setting import Setting

Compute = Callable[[Sequence[PlanRun]], tuple[Mapping[PlanRun, JobResult], Mapping[PlanRun, str]]]
"""Gives the answers of runs, and why the others failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer."""

    question: Question
    settings: list[Outcome]
    """Every setting that was tried, in the order of the rounds."""
    choice: Choice
    fixed: Outcome
    """What operators have today: a fixed quota."""
    free: Outcome
    """The same scheduler without any quota."""
    what_if: list[Outcome]
    """The recommended setting with fewer, as many and more nodes."""
    demand: list[Outcome]
    """The recommended setting with less, as much and more spot work."""
    guarantees: list[Choice]
    """The best setting for each length of the guarantee."""

    @property
    def chosen(self) -> Outcome:
        """The run of the recommended setting."""
        return self.choice.outcome

    @property
    def largest(self) -> Outcome | None:
        """The most spot work that was tried and can be sold; None if not even the least can."""
        scale = largest_scale({outcome.run.spot_scale: self.sells(outcome) for outcome in self.demand})
        return next((outcome for outcome in self.demand if outcome.run.spot_scale == scale), None)

    def sells(self, outcome: Outcome) -> bool:
        """Within the target, and with a mean wait below the limit."""
        return outcome.sells(self.question.target, self.question.max_wait)

    def runs(self) -> list[Outcome]:
        """Every run once."""
        every = [*self.settings, self.fixed, self.free, *self.what_if, *self.demand]
        return list({outcome.run: outcome for outcome in every}.values())


def make_plan(question: Question, compute: Compute) -> Plan:
    """Simulate what has to be known, round by round, and draw the conclusions."""
    target = question.target
    first = _with_runs(question, first_round(question.levers))
    found = _outcomes(compute, [*first, *((Setting(), run) for run in question.today())])
    settings, (fixed, free) = found[: len(first)], found[len(first) :]
    for next_round in (second_round,) if question.quick else (second_round, third_round):
        settings += _outcomes(compute, _with_runs(question, next_round(question.levers, settings, target)))
    choice = choose(settings, target)
    what_if, demand = _around(question, choice.outcome, compute)
    return Plan(question, settings, choice, fixed, free, what_if, demand, best_by_guarantee(settings, target))


def _around(question: Question, chosen: Outcome, compute: Compute) -> tuple[list[Outcome], list[Outcome]]:
    """The recommended setting with other nodes, and with other spot work."""
    setting, limits = chosen.setting, (question.target, question.max_wait)
    shares, scales = question.other_shares(), first_scales(chosen.sells(*limits), question.quick)
    runs = [question.run(setting, node_share=share) for share in shares]
    runs += [question.run(setting, spot_scale=scale) for scale in scales]
    found = _outcomes(compute, [(setting, run) for run in runs])
    what_if, demand = [chosen, *found[: len(shares)]], [chosen, *found[len(shares) :]]
    last = None if question.quick else last_scale({o.run.spot_scale: o.sells(*limits) for o in demand})
    if last is not None:
        demand += _outcomes(compute, [(setting, question.run(setting, spot_scale=last))])
    return (
        sorted(what_if, key=lambda outcome: outcome.run.node_share),
        sorted(demand, key=lambda outcome: outcome.run.spot_scale),
    )


def _with_runs(question: Question, settings: Sequence[Setting]) -> list[tuple[Setting, PlanRun]]:
    return [(setting, question.run(setting)) for setting in settings]


def _outcomes(compute: Compute, pairs: Sequence[tuple[Setting, PlanRun]]) -> list[Outcome]:
    """What comes of these runs; raises InputError where there is no eviction rate to plan by."""
    answers, errors = compute([run for _, run in pairs])
    found = [Outcome(run, setting, answers.get(run, {}), errors.get(run, "")) for setting, run in pairs]
    for outcome in found:
        if not outcome.error and outcome.figures["spot_eviction_rate"] is None:
            raise InputError(
                f"{outcome.run.scheduler} runs tasks by leases and evicts none, so a target for evictions"
                " says nothing about it; plan for gfs or gfs-plus"
            )
    return found
