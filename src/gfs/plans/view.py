"""A plan as it is shown."""

from __future__ import annotations

from gfs.plans.choose import Choice, Outcome
from gfs.plans.config import config_text
from gfs.plans.plan import Plan
from gfs.plans.setting import Setting
from gfs.plans.words import answer
from gfs.report.columns import NOTHING
from gfs.report.plan_view import PlanRow, PlanView
from gfs.telemetry.metrics_prices import prices_note


def view_of(plan: Plan) -> PlanView:
    """What the terminal and the page show."""
    question = plan.question
    return PlanView(
        about=f"{question.trace.label} under {question.scheduler}: {len(plan.settings)} settings tried.",
        answer=answer(plan),
        target=question.target,
        max_wait=question.max_wait,
        meets=plan.choice.meets,
        settings=[_setting(plan, outcome) for outcome in _ordered(plan)],
        today=[
            _named(plan, plan.chosen, "recommended", recommended=True),
            _named(plan, plan.fixed, f"static, fixed {question.fixed_share:.0%}"),
            _named(plan, plan.free, f"{question.scheduler}, no quota"),
        ],
        nodes=[
            _named(plan, outcome, f"{outcome.run.node_share:.0%} of nodes", recommended=outcome is plan.chosen)
            for outcome in plan.what_if
        ],
        demand=[_demand(plan, outcome) for outcome in plan.demand],
        guarantees=[_guarantee(plan, choice) for choice in plan.guarantees],
        prices=prices_note(),
        config=config_text(plan),
    )


def _ordered(plan: Plan) -> list[Outcome]:
    """Those within the target by their wait, then the others by their evictions, then those that failed."""
    target = plan.question.target

    def key(outcome: Outcome) -> tuple[object, ...]:
        if outcome.error:
            return (2, 0.0, 0.0, outcome.setting.rank)
        if outcome.keeps(target):
            return (0, outcome.wait, outcome.evicted, outcome.setting.rank)
        return (1, outcome.evicted, outcome.wait, outcome.setting.rank)

    return sorted(plan.settings, key=key)


def _parts(setting: Setting) -> tuple[str, str, str]:
    eta = setting.eta
    return (
        NOTHING if setting.p is None else f"{setting.p:g}",
        NOTHING if setting.hours is None else f"{setting.hours:g}",
        NOTHING if eta is None else f"{eta.least:g}–{eta.most:g}",
    )


def _setting(plan: Plan, outcome: Outcome) -> PlanRow:
    return PlanRow(
        outcome.setting.label,
        outcome.figures,
        outcome.keeps(plan.question.target),
        _parts(outcome.setting),
        outcome is plan.chosen,
        outcome.error,
    )


def _named(plan: Plan, outcome: Outcome, name: str, *, recommended: bool = False) -> PlanRow:
    left_out = outcome.figures.get("left_out", 0)
    remark = outcome.error or (f"left out, too large for it: {left_out:,}" if left_out else "")
    return PlanRow(name, outcome.figures, outcome.keeps(plan.question.target), recommended=recommended, remark=remark)


def _demand(plan: Plan, outcome: Outcome) -> PlanRow:
    return PlanRow(
        f"spot x{outcome.run.spot_scale:g}",
        outcome.figures,
        plan.sells(outcome),
        recommended=outcome is plan.chosen,
        remark=outcome.error,
    )


def _guarantee(plan: Plan, choice: Choice) -> PlanRow:
    outcome = choice.outcome
    return PlanRow(
        outcome.setting.label,
        outcome.figures,
        plan.sells(outcome),
        _parts(outcome.setting),
        recommended=outcome is plan.chosen,
    )
