"""A plan in plain English: three sentences that answer, then what else is to be known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gfs.domain.units import HOUR
from gfs.plans.candidates import Candidate
from gfs.plans.choice import Rival
from gfs.plans.evidence import Sums
from gfs.plans.plan import CapacityPlan, PlanResult, PoolChoice
from gfs.plans.request import Assignment
from gfs.plans.targets import Conflict, Target, figure_of
from gfs.report.columns import amount, percent, short_seconds
from gfs.telemetry.prices import prices_text
from gfs.version import __version__

WAIT = "spot-wait-mean"


def answer_text(plan: CapacityPlan) -> str:
    """Three sentences: what to run and what it gives, what it is better than, how sure that is."""
    return " ".join([_advice(plan), _next_best(plan), _certainty(plan)])


def details_text(plan: CapacityPlan) -> str:
    """What else is to be known, in a paragraph."""
    return " ".join(sentence for sentence in (_nodes(plan), _sold(plan), _caution(plan)) if sentence)


def named(assignment: Assignment) -> str:
    """What to run, in words: once where all pools have the same, else pool by pool."""
    by_candidate: dict[Candidate, list[str]] = {}
    for model, candidate in assignment:
        by_candidate.setdefault(candidate, []).append(model)
    if len(by_candidate) == 1:
        return next(iter(by_candidate)).sentence
    return "; ".join(f"on {' and '.join(models)} {candidate.sentence}" for candidate, models in by_candidate.items())


def figures_text(sums: Sums) -> str:
    """Evictions and the mean wait."""
    return f"{percent(sums.evicted)} of spot runs evicted, {short_seconds(sums.spot_wait)} mean spot wait"


def targets_text(targets: Sequence[Target]) -> str:
    """Such as 'evictions ≤ 5.00% and spot-wait-p95 ≤ 2 h'."""
    return " and ".join(target.label for target in targets)


def other_figures(targets: Sequence[Target]) -> list[Target]:
    """Targets about figures that `figures_text` does not tell."""
    return [target for target in targets if target.figure not in ("evictions", WAIT)]


def _advice(plan: CapacityPlan) -> str:
    sums, targets, what = plan.chosen.sums, plan.request.targets, named(plan.chosen.assignment)
    more = "".join(f", {t.figure} {t.written(t.value(sums))}" for t in other_figures(targets))
    came = f"{figures_text(sums)}{more}"
    count = len({candidate for choice in plan.pools for candidate in choice.tried})
    if plan.meets:
        if plan.alike and count > 1:
            return f"All {count} settings come to the same on this trace, so the simplest will do, {what}: {came}."
        return f"Run {what}: {came}, within {targets_text(targets)}."
    missed = [f"{t.figure} is {t.written(t.value(sums))} instead of {t.written(t.bound)}" for t in targets]
    missed = [words for words, target in zip(missed, targets, strict=True) if not target.met(sums)]
    why = _why(plan.pools)
    return f"{why}; what comes nearest is {what}: {came} ({' and '.join(missed)})."


def _why(pools: Sequence[PoolChoice]) -> str:
    found = {choice.conflict: choice.pool.gpu_model for choice in pools if choice.conflict is not None}
    if not found:
        return "Each pool can meet the targets alone, but their common run misses them"
    where = f" in pool {next(iter(found.values()))}" if len(pools) > 1 else ""
    return conflict_text(next(iter(found)), where)


def conflict_text(at_odds: Conflict, where: str = "") -> str:
    """Which targets cannot be met, or not together."""
    if at_odds.alone:
        return f"Nothing that was tried meets {' or '.join(target.label for target in at_odds.alone)}{where}"
    each = "either alone" if len(at_odds.together) == 2 else "each alone"
    return f"The targets {targets_text(at_odds.together)} cannot be met together{where}, {each} can"


def _next_best(plan: CapacityPlan) -> str:
    if not plan.rivals:
        return "Nothing of another kind was tried."
    kept = [rival for rival in plan.rivals if rival.meets]
    if not kept:
        first = plan.rivals[0]
        also = "else " if plan.meets else ""
        return (
            f"Nothing {also}of another kind meets the targets; nearest is {first.candidate.sentence}"
            f" ({figures_text(first.sums)})."
        )
    first = kept[0]
    words = f"The next best of another kind, {first.candidate.sentence}, has {figures_text(first.sums)}: "
    return words + finding_text(plan, first) + "."


def finding_text(plan: CapacityPlan, rival: Rival) -> str:
    """Whether the difference to a rival is more than chance, in words."""
    where = f"{len(plan.seeds)} other seeds" if plan.seeds else f"this trace's {len(plan.evidence)} {plan.block}s"
    if rival.wait is None or rival.finding is None:
        if plan.seeds or plan.block:
            return "not compared on other seeds" if plan.seeds else "not compared"
        return "the trace is too short to say whether that is chance"
    if rival.finding == "no difference":
        return f"no difference in waits that {where} could show"
    longer = "longer" if rival.wait.value > 0 else "shorter"
    low, high = sorted((abs(rival.wait.low), abs(rival.wait.high)))
    return f"its waits are {longer} by {short_seconds(low)} to {short_seconds(high)} over {where}, more than chance"


def _certainty(plan: CapacityPlan) -> str:
    unseen, targets = plan.unseen, plan.request.targets
    if unseen is None:
        return "The trace is shorter than four days, so how sure these figures are cannot be told."
    figures = [("evicted", "evictions", percent), ("waited", WAIT, short_seconds)]
    shown = []
    for _, figure, written in figures:
        found = unseen.interval(figure)
        shown.append(found.shown(written) if found else written(figure_of(figure, unseen.sums)))
    sums = unseen.sums
    missed = [target for target in targets if not target.met(sums)]
    kept = "the targets hold there, too" if len(targets) > 1 else "the target holds there, too"
    verdict = f"there it misses {targets_text(missed)}" if missed else kept
    doubtful = [t for t in targets if t.met(sums) and (i := unseen.interval(t.figure)) and i.high > t.bound]
    if not missed and doubtful:
        verdict += f", but their interval reaches beyond {targets_text(doubtful)}"
    if plan.seeds:
        return f"On {unseen.reported_on} it gives {shown[0]} evicted and {shown[1]}: {verdict}."
    same = unseen.assignment == plan.chosen.assignment
    what = "it" if same else named(unseen.assignment)
    return (
        f"Chosen on {unseen.chosen_on} alone it would be {'the same' if same else what}, and over {unseen.reported_on}"
        f" that gives {shown[0]} evicted and {shown[1]}: {verdict}."
    )


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
        words = f"{change} {_short_figures(result)}"
        if _meets(plan, result) != plan.meets:
            words += ", beyond the targets" if plan.meets else ", within the targets"
        left_out = result.figures["left_out"]
        if left_out:
            words += f" ({left_out:,} task{'s' * (left_out > 1)} too large for such a cluster left out)"
        parts.append(words)
    return f"With {'; with '.join(parts)}."


def _meets(plan: CapacityPlan, result: PlanResult) -> bool:
    return all(target.met(result.sums) for target in plan.request.targets)


def _short_figures(result: PlanResult) -> str:
    return f"{percent(result.sums.evicted)} evicted and {short_seconds(result.sums.spot_wait)}"


def _sold(plan: CapacityPlan) -> str:
    own = plan.price_list[0]
    limits = f"within the targets and a mean wait of {short_seconds(plan.request.max_wait)}"
    if own.sold is None:
        least = own.results[0].run.spot_scale
        if least == 1:
            return f"This spot work cannot be sold {limits}."
        return f"Not even {least:g} times this spot work can be sold {limits}."
    scale, sold = own.sold.run.spot_scale, f"{amount(own.sold.figures['spot_gpu_hours'])} GPU-hours a month"
    failing = next((r.run.spot_scale for r in own.results if r.run.spot_scale > scale), None)
    if failing is None:
        return f"At least {scale:g} times the spot work could be sold {limits}: {sold}."
    if scale == 1:
        return f"This much can be sold {limits}, {sold}, but not {failing:g} times as much."
    only = "Only " if scale < 1 else ""
    return f"{only}{scale:g} times the spot work can be sold {limits}: {sold}."


def _caution(plan: CapacityPlan) -> str:
    figures, words = plan.chosen.figures, ""
    runs, hours = figures["spot_runs"], figures["period_hours"]
    share = min((target.bound for target in plan.request.targets if target.figure == "evictions"), default=0.0)
    if runs * share < 1 and share:
        count = f"{runs:,} spot run{'s' * (runs != 1)}"
        one = f": one eviction alone would be {percent(1 / runs)}" if runs else ""
        words += f"With {count} it cannot be told whether {percent(share)} is kept{one}."
    if hours < 24:
        words += f" It covers {short_seconds(hours * HOUR)}: what it gives a month is a rough guess."
    return words.strip()


def summary(plan: CapacityPlan) -> dict[str, Any]:
    """Everything that is known of it (docs/reference/files.md#plan)."""
    request, unseen = plan.request, plan.unseen
    figures = dict.fromkeys(["evictions", WAIT, *(target.figure for target in request.targets)])
    return {
        "answer": answer_text(plan),
        "details": details_text(plan),
        "trace": request.trace.label,
        "seed": request.seed,
        "targets": {target.figure: target.bound for target in request.targets},
        "max_wait": request.max_wait,
        "guarantee_hours": request.guarantee if request.guarantee is not None else request.promised,
        "meets_targets": plan.meets,
        "recommended": _result(plan.chosen),
        "by": None if plan.chosen.groups is None else plan.chosen.groups.to_dict(),
        "pools": [_pool(plan, choice) for choice in plan.pools],
        "rivals": [
            {
                "setting": rival.candidate.label,
                "meets_targets": rival.meets,
                "evictions": rival.sums.evicted,
                "spot_wait_mean": rival.sums.spot_wait,
                "wait_difference": None if rival.wait is None else [rival.wait.value, rival.wait.low, rival.wait.high],
                "finding": rival.finding,
            }
            for rival in plan.rivals
        ],
        "certainty": {
            "blocks": f"{len(plan.evidence)} {'seed' if plan.seeds else plan.block}s"
            if plan.seeds or plan.block
            else "",
            "confidence": 0.9,
            "intervals": {name: _interval(plan.interval(name)) for name in figures},
        },
        "out_of_sample": None
        if unseen is None
        else {
            "chosen_on": unseen.chosen_on,
            "reported_on": unseen.reported_on,
            "setting": {model: candidate.label for model, candidate in unseen.assignment},
            "promised": {name: figure_of(name, unseen.promised) for name in figures},
            "reported": {name: figure_of(name, unseen.sums) for name in figures},
            "intervals": {name: _interval(unseen.interval(name)) for name in figures},
        },
        "settings": [_result(result) for result in plan.results],
        "what_if": [_result(result) for result in plan.what_if],
        "price_list": [
            {
                "guarantee_hours": row.hours if row.hours is not None else request.promised,
                "largest_spot_scale": row.sold.run.spot_scale if row.sold else None,
                "sellable_gpu_hours": row.sold.figures["guaranteed_gpu_hours"] if row.sold else 0.0,
                "runs": [{**_result(result), "sells": plan.sells(result)} for result in row.results],
            }
            for row in plan.price_list
        ],
        "prices": prices_text(request.prices),
        "version": __version__,
    }


def _interval(found: Any) -> list[float] | None:
    return None if found is None else [found.low, found.high]


def _pool(plan: CapacityPlan, choice: PoolChoice) -> dict[str, Any]:
    targets, sums = plan.request.targets, choice.sums
    at_odds = choice.conflict
    return {
        "gpu_model": choice.pool.gpu_model,
        "gpus": choice.pool.gpus,
        "spot_tasks": choice.pool.spot_tasks,
        "scheduler": choice.candidate.scheduler,
        "parameters": dict(choice.candidate.values()),
        "figures": {
            name: figure_of(name, sums) for name in dict.fromkeys(["evictions", WAIT, *(t.figure for t in targets)])
        },
        "meets_targets": all(target.met(sums) for target in targets),
        "cannot_be_met": None
        if at_odds is None
        else {
            "alone": [target.figure for target in at_odds.alone],
            "together": [target.figure for target in at_odds.together],
        },
    }


def _result(result: PlanResult) -> dict[str, Any]:
    run = result.run
    pools = {pool.gpu_model: {"scheduler": pool.scheduler, **dict(pool.values)} for pool in run.pools}
    return {
        "scheduler": run.scheduler,
        "parameters": dict(run.settings),
        **({"pools": pools} if pools else {}),
        "node_share": run.node_share,
        "spot_scale": run.spot_scale,
        **({"guarantee_hours": run.guarantee} if run.guarantee is not None else {}),
        "figures": result.figures,
        **({"error": result.error} if result.error else {}),
    }
