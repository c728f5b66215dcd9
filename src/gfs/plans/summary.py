"""A plan as the object of its JSON file."""

from __future__ import annotations

from typing import Any

from gfs.plans.choose import Outcome
from gfs.plans.plan import Plan
from gfs.plans.words import answer
from gfs.telemetry.metrics_prices import prices_note
from gfs.version import __version__


def summary(plan: Plan) -> dict[str, Any]:
    """Everything that is known of it."""
    question, largest = plan.question, plan.largest
    return {
        "answer": answer(plan),
        "trace": question.trace.label,
        "scheduler": question.scheduler,
        "seed": question.seed,
        "target_evictions": question.target,
        "max_wait": question.max_wait,
        "meets_target": plan.choice.meets,
        "missed_by": plan.choice.missed_by,
        "recommended": _outcome(plan.chosen),
        "settings": [_outcome(outcome) for outcome in plan.settings],
        "today": [_outcome(plan.fixed), _outcome(plan.free)],
        "what_if": [_outcome(outcome) for outcome in plan.what_if],
        "demand": [{**_outcome(outcome), "sells": plan.sells(outcome)} for outcome in plan.demand],
        "guarantees": [
            {**_outcome(choice.outcome), "meets_target": choice.meets, "sells": plan.sells(choice.outcome)}
            for choice in plan.guarantees
        ],
        "largest_spot_scale": largest.run.spot_scale if largest else None,
        "prices": prices_note(),
        "version": __version__,
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    run = outcome.run
    return {
        "scheduler": run.scheduler,
        "parameters": dict(run.settings),
        "node_share": run.node_share,
        "spot_scale": run.spot_scale,
        "figures": outcome.figures,
        **({"error": outcome.error} if outcome.error else {}),
    }
