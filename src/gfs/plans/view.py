"""A plan as it is shown."""

from __future__ import annotations

from gfs.plans.plan import CapacityPlan
from gfs.plans.search import Recommendation, SettingResult
from gfs.plans.setting import Setting
from gfs.plans.summary_text import config_text, summary_text
from gfs.report.columns import NOTHING
from gfs.report.plan_view import PlanRow, PlanView
from gfs.telemetry.metrics_prices import prices_text


def view_of(plan: CapacityPlan) -> PlanView:
    """What the terminal and the page show."""
    request = plan.request
    return PlanView(
        about=f"{request.trace.label} under {request.scheduler}: {len(plan.settings)} settings tried.",
        answer=summary_text(plan),
        target=request.target,
        max_wait=request.max_wait,
        meets=plan.recommendation.meets,
        settings=[_setting(plan, result) for result in _ordered(plan)],
        today=[
            _named(plan, plan.chosen, "recommended", recommended=True),
            _named(plan, plan.fixed, f"static, fixed {request.fixed_share:.0%}"),
            _named(plan, plan.free, f"{request.scheduler}, no quota"),
        ],
        nodes=[
            _named(plan, result, f"{result.run.node_share:.0%} of nodes", recommended=result is plan.chosen)
            for result in plan.what_if
        ],
        demand=[_demand(plan, result) for result in plan.demand],
        guarantees=[_guarantee(plan, recommendation) for recommendation in plan.guarantees],
        prices=prices_text(request.prices),
        config=config_text(plan),
    )


def _ordered(plan: CapacityPlan) -> list[SettingResult]:
    """Those within the target by their wait, then the others by their evictions, then those that failed."""
    target = plan.request.target

    def key(result: SettingResult) -> tuple[object, ...]:
        if result.error:
            return (2, 0.0, 0.0, result.setting.rank)
        if result.within(target):
            return (0, result.wait, result.evicted, result.setting.rank)
        return (1, result.evicted, result.wait, result.setting.rank)

    return sorted(plan.settings, key=key)


def _parts(setting: Setting) -> tuple[str, str, str]:
    eta = setting.eta
    return (
        NOTHING if setting.p is None else f"{setting.p:g}",
        NOTHING if setting.hours is None else f"{setting.hours:g}",
        NOTHING if eta is None else f"{eta.least:g}–{eta.most:g}",
    )


def _setting(plan: CapacityPlan, result: SettingResult) -> PlanRow:
    return PlanRow(
        result.setting.label,
        result.figures,
        result.within(plan.request.target),
        _parts(result.setting),
        result is plan.chosen,
        result.error,
    )


def _named(plan: CapacityPlan, result: SettingResult, name: str, *, recommended: bool = False) -> PlanRow:
    left_out = result.figures.get("left_out", 0)
    remark = result.error or (f"left out, too large for it: {left_out:,}" if left_out else "")
    return PlanRow(name, result.figures, result.within(plan.request.target), recommended=recommended, remark=remark)


def _demand(plan: CapacityPlan, result: SettingResult) -> PlanRow:
    return PlanRow(
        f"spot x{result.run.spot_scale:g}",
        result.figures,
        plan.sells(result),
        recommended=result is plan.chosen,
        remark=result.error,
    )


def _guarantee(plan: CapacityPlan, recommendation: Recommendation) -> PlanRow:
    result = recommendation.result
    return PlanRow(
        result.setting.label,
        result.figures,
        plan.sells(result),
        _parts(result.setting),
        recommended=result is plan.chosen,
    )
