"""The answer in plain words, as an operator wants it: what to set, what it gives, what it would take."""

from __future__ import annotations

from gfs.plans.choose import Outcome
from gfs.plans.plan import Plan
from gfs.report.columns import amount, percent, short_seconds

HALVES = ("first half", "second half")


def answer(plan: Plan) -> str:
    """One paragraph; its first sentence says whether the target can be kept."""
    sentences = [_advice(plan), _today(plan), _nodes(plan), _delivered(plan), _sold(plan), _caution(plan)]
    return " ".join(sentence for sentence in sentences if sentence)


def _advice(plan: Plan) -> str:
    chosen, target = plan.chosen, percent(plan.question.target)
    wait = short_seconds(chosen.wait)
    count = f"{chosen.figures['spot_evictions']:,} of {chosen.figures['spot_runs']:,}"
    came = f"{percent(chosen.evicted)} of spot runs ({count}) are evicted and spot tasks wait {wait} on average"
    if not plan.choice.meets:
        missed = f"which misses the target by {100 * plan.choice.missed_by:.2g} points."
        if len(plan.settings) == 1:
            return (
                f"The only setting tried, {chosen.setting.label}, does not keep evictions at or below {target} of"
                f" spot runs: {came}, {missed}"
            )
        return (
            f"None of the {len(plan.settings)} settings tried keeps evictions at or below {target} of spot runs."
            f" The nearest is {chosen.setting.label}: {came}, {missed}"
        )
    if len(plan.settings) == 1:
        return f"Only one setting was tried, {chosen.setting.label}: {came} (target: at most {target})."
    if plan.choice.alike:
        return (
            f"All settings come to the same on this trace, so keep the usual ones, {chosen.setting.label}: {came}"
            f" (target: at most {target})."
        )
    return f"Set {chosen.setting.label}: {came} (target: at most {target})."


def _today(plan: Plan) -> str:
    share = f"{plan.question.fixed_share:.0%}"
    return (
        f"With a fixed quota of {share} of each pool, as operators have it today, it would be"
        f" {_figures(plan.fixed)};"
        f" without any quota {_figures(plan.free)}.{_needless(plan)}"
    )


def _needless(plan: Plan) -> str:
    """Said where today's ways are within the target and better: then no forecast is needed for it."""
    better = [
        name
        for name, outcome in (("the fixed quota", plan.fixed), ("no quota", plan.free))
        if outcome.keeps(plan.question.target) and (outcome.wait < plan.chosen.wait or not plan.choice.meets)
    ]
    if not better:
        return ""
    kept = "kept as well and waits are shorter" if plan.choice.meets else "kept"
    return f" With {' or with '.join(better)} the target is {kept}: here it takes no forecast."


def _figures(outcome: Outcome) -> str:
    if outcome.error:
        return "impossible to run"
    return f"{percent(outcome.evicted)} and {short_seconds(outcome.wait)}"


def _nodes(plan: Plan) -> str:
    others = [outcome for outcome in plan.what_if if outcome.run.node_share != 1]
    if not others:
        return "The cluster is too small to ask for 10% more or fewer nodes: that is less than one."
    parts = []
    for outcome in others:
        share = outcome.run.node_share
        change = f"{abs(100 * (share - 1)):.0f}% {'fewer' if share < 1 else 'more'} nodes"
        if outcome.error:
            parts.append(f"{change} it cannot run ({outcome.error})")
            continue
        if not outcome.has_spot:
            parts.append(f"{change} no spot task would fit")
            continue
        words = f"{change} {_figures(outcome)}"
        if outcome.keeps(plan.question.target) != plan.choice.meets:
            words += ", within the target" if not plan.choice.meets else ", beyond the target"
        left_out = outcome.figures["left_out"]
        if left_out:
            words += f" ({left_out:,} task{'s' * (left_out > 1)} too large for such a cluster left out)"
        parts.append(words)
    return f"With {'; with '.join(parts)}."


def _delivered(plan: Plan) -> str:
    figures = plan.chosen.figures
    promise = f"the guarantee of {plan.chosen.run.parameters().guarantee_hours:g} h"
    if plan.question.own_guarantees:
        promise = "their guarantees"
    return (
        f"Spot tasks get {amount(figures['spot_gpu_hours'])} useful GPU-hours a month,"
        f" {percent(figures['spot_guarantee_hit_rate'])} of their runs with {promise} kept."
    )


def _sold(plan: Plan) -> str:
    largest = plan.largest
    limits = f"within the target and a mean wait of {short_seconds(plan.question.max_wait)}"
    if largest is None:
        return f"Not even {plan.demand[0].run.spot_scale:g} times this spot work can be sold {limits}."
    scale, sold = largest.run.spot_scale, f"{amount(largest.figures['spot_gpu_hours'])} GPU-hours a month"
    failing = next((o.run.spot_scale for o in plan.demand if o.run.spot_scale > scale), None)
    if failing is None:
        return f"With this setting at least {scale:g} times the spot work could be sold {limits}: {sold}."
    if scale == 1:
        return f"With this setting this much can be sold {limits}, but not {failing:g} times as much."
    only = "only " if scale < 1 else ""
    return f"With this setting {only}{scale:g} times the spot work can be sold {limits}: {sold}."


def _caution(plan: Plan) -> str:
    figures, target = plan.chosen.figures, plan.question.target
    rates = figures["first_half_eviction_rate"], figures["second_half_eviction_rate"]
    beyond = [f"its {half} alone" for half, rate in zip(HALVES, rates, strict=True) if rate > target]
    evicted = f"{percent(rates[0])} were evicted in its first half, {percent(rates[1])} in its second"
    words = f"One trace is one sample: {evicted}"
    return f"{words}; {beyond[0]} misses the target." if beyond and plan.choice.meets else f"{words}."
