"""A plan in plain English: what to set, what it gives, what it would take; and its config and JSON files."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from gfs.domain.units import HOUR
from gfs.plans.plan import CapacityPlan
from gfs.plans.search import SettingResult
from gfs.report.columns import amount, percent, short_seconds
from gfs.telemetry.prices import prices_text
from gfs.version import __version__

HALVES = ("first half", "second half")


def summary_text(plan: CapacityPlan) -> str:
    """One paragraph; its first sentence says whether the target can be kept."""
    sentences = [_advice(plan), _today(plan), _nodes(plan), _delivered(plan), _sold(plan), _caution(plan)]
    return " ".join(sentence for sentence in sentences if sentence)


def _advice(plan: CapacityPlan) -> str:
    chosen, target = plan.chosen, percent(plan.request.target)
    wait = short_seconds(chosen.wait)
    count = f"{chosen.figures['spot_evictions']:,} of {chosen.figures['spot_runs']:,}"
    evicted = f"{percent(chosen.evicted)} of spot runs ({count}) are evicted and spot tasks wait {wait} on average"
    if not plan.meets:
        missed = f"which misses the target by {100 * (chosen.evicted - plan.request.target):.2g} points."
        if len(plan.settings) == 1:
            return (
                f"The only setting tried, {chosen.setting.label}, does not keep evictions at or below {target} of"
                f" spot runs: {evicted}, {missed}"
            )
        return (
            f"None of the {len(plan.settings)} settings tried keeps evictions at or below {target} of spot runs."
            f" The nearest is {chosen.setting.label}: {evicted}, {missed}"
        )
    if len(plan.settings) == 1:
        return f"Only one setting was tried, {chosen.setting.label}: {evicted} (target: at most {target})."
    if plan.alike:
        return (
            f"All settings come to the same on this trace, so keep the usual ones, {chosen.setting.label}: {evicted}"
            f" (target: at most {target})."
        )
    return f"Set {chosen.setting.label}: {evicted} (target: at most {target})."


def _today(plan: CapacityPlan) -> str:
    share = f"{plan.request.fixed_share:.0%}"
    return (
        f"With a fixed quota of {share} of each pool, as operators have it today, it would be"
        f" {_figures(plan.fixed)};"
        f" without any quota {_figures(plan.free)}.{_needless(plan)}"
    )


def _needless(plan: CapacityPlan) -> str:
    """Where today's ways are as good or better, no forecast is needed: say so."""
    meets, chosen = plan.meets, plan.chosen
    today = [(name, r) for name, r in (("the fixed quota", plan.fixed), ("no quota", plan.free)) if not r.error]
    kept = [(name, r) for name, r in today if r.within(plan.request.target)]
    better = [name for name, r in kept if r.wait < chosen.wait or not meets]
    if better:
        words = "kept as well and waits are shorter" if meets else "kept"
        return f" With {' or with '.join(better)} the target is {words}: here it takes no forecast."
    better = [name for name, r in today if r.evicted <= chosen.evicted and r.wait < chosen.wait]
    if better and not meets:
        return f" With {' or with '.join(better)} there are no more evictions and waits are shorter."
    return ""


def _figures(result: SettingResult) -> str:
    if result.error:
        return "impossible to run"
    return f"{percent(result.evicted)} and {short_seconds(result.wait)}"


def _nodes(plan: CapacityPlan) -> str:
    others = [result for result in plan.what_if if result.run.node_share != 1]
    if not others:
        return "The cluster is too small to ask for 10% more or fewer nodes: that is less than one."
    parts = []
    for result in others:
        share = result.run.node_share
        change = f"{abs(100 * (share - 1)):.0f}% {'fewer' if share < 1 else 'more'} nodes"
        if result.error:
            parts.append(f"{change} it cannot run ({result.error})")
            continue
        if not result.has_spot:
            parts.append(f"{change} no spot task would fit")
            continue
        words = f"{change} {_figures(result)}"
        if result.within(plan.request.target) != plan.meets:
            words += ", beyond the target" if plan.meets else ", within the target"
        left_out = result.figures["left_out"]
        if left_out:
            words += f" ({left_out:,} task{'s' * (left_out > 1)} too large for such a cluster left out)"
        parts.append(words)
    return f"With {'; with '.join(parts)}."


def _delivered(plan: CapacityPlan) -> str:
    figures = plan.chosen.figures
    promise = f"the guarantee of {plan.chosen.run.parameters().guarantee_hours:g} h"
    if plan.request.own_guarantees:
        promise = "their guarantees"
    return (
        f"Spot tasks get {amount(figures['spot_gpu_hours'])} useful GPU-hours a month,"
        f" {percent(figures['spot_guarantee_hit_rate'])} of their runs with {promise} kept."
    )


def _sold(plan: CapacityPlan) -> str:
    largest = plan.largest
    limits = f"within the target and a mean wait of {short_seconds(plan.request.max_wait)}"
    if largest is None:
        least = plan.demand[0].run.spot_scale
        if least == 1:
            return f"This spot work cannot be sold {limits}."
        return f"Not even {least:g} times this spot work can be sold {limits}."
    scale, sold = largest.run.spot_scale, f"{amount(largest.figures['spot_gpu_hours'])} GPU-hours a month"
    failing = next((o.run.spot_scale for o in plan.demand if o.run.spot_scale > scale), None)
    if failing is None:
        return f"With this setting at least {scale:g} times the spot work could be sold {limits}: {sold}."
    if scale == 1:
        return f"With this setting this much can be sold {limits}, but not {failing:g} times as much."
    only = "only " if scale < 1 else ""
    return f"With this setting {only}{scale:g} times the spot work can be sold {limits}: {sold}."


def _caution(plan: CapacityPlan) -> str:
    figures, target = plan.chosen.figures, plan.request.target
    rates = figures["first_half_eviction_rate"], figures["second_half_eviction_rate"]
    beyond = [f"its {half} alone" for half, rate in zip(HALVES, rates, strict=True) if rate > target]
    evicted = f"{percent(rates[0])} were evicted in its first half, {percent(rates[1])} in its second"
    words = f"One trace is one sample: {evicted}"
    words += f"; {beyond[0]} misses the target." if beyond and plan.meets else "."
    runs, hours = figures["spot_runs"], figures["period_hours"]
    if runs * target < 1 and target:
        count = f"{runs:,} spot run{'s' * (runs != 1)}"
        one = f": one eviction alone would be {percent(1 / runs)}" if runs else ""
        words += f" With {count} it cannot be told whether {percent(target)} is kept{one}."
    if hours < 24:
        words += f" It covers {short_seconds(hours * HOUR)}: what it gives a month is a rough guess."
    return words


def config_text(plan: CapacityPlan) -> str:
    """TOML: why, how to use it, and the parameters that differ from the usual ones or were chosen."""
    run = plan.chosen.run
    seed = f" --seed {run.seed}" if run.seed else ""
    use = f"gfs simulate --scheduler {run.scheduler}{seed} --config gfs.toml --jobs JOBS --nodes NODES"
    lines = [
        f"Made by gfs plan {__version__} for {run.trace.label}.",
        *textwrap.wrap(summary_text(plan), 100),
        f"Use it: {use}",
    ]
    values = [f"{name} = {json.dumps(value)}" for name, value in run.settings]
    return "\n".join([*(f"# {line}" for line in lines), "", *values]) + "\n"


def summary(plan: CapacityPlan) -> dict[str, Any]:
    """Everything that is known of it."""
    request, largest = plan.request, plan.largest
    return {
        "answer": summary_text(plan),
        "trace": request.trace.label,
        "scheduler": request.scheduler,
        "seed": request.seed,
        "target_evictions": request.target,
        "max_wait": request.max_wait,
        "meets_target": plan.meets,
        "missed_by": 0.0 if plan.meets else plan.chosen.evicted - request.target,
        "recommended": _result(plan.chosen),
        "settings": [_result(result) for result in plan.settings],
        "today": [_result(plan.fixed), _result(plan.free)],
        "what_if": [_result(result) for result in plan.what_if],
        "demand": [{**_result(result), "sells": plan.sells(result)} for result in plan.demand],
        "guarantees": [
            {**_result(best), "meets_target": best.within(request.target), "sells": plan.sells(best)}
            for best in plan.guarantees
        ],
        "largest_spot_scale": largest.run.spot_scale if largest else None,
        "prices": prices_text(request.prices),
        "version": __version__,
    }


def _result(result: SettingResult) -> dict[str, Any]:
    run = result.run
    return {
        "scheduler": run.scheduler,
        "parameters": dict(run.settings),
        "node_share": run.node_share,
        "spot_scale": run.spot_scale,
        "figures": result.figures,
        **({"error": result.error} if result.error else {}),
    }
