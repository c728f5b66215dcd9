"""The pool of a pod: the one GPU model that its selector or affinity names, or the only one in the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from gfs.live.translate.rules import NodeRule


class Refusal(NamedTuple):
    """Why a pod is not placed, in words."""

    text: str


def pool_of(rule: NodeRule, label: str, models: Collection[str]) -> str | Refusal:
    """Returns the GPU model that a pod is for, or why there is none."""
    named = _named(rule, label)
    if named is not None and len(named) == 1:
        return next(iter(named))
    possible = set(models) if named is None else named & set(models)
    if len(possible) == 1:
        return possible.pop()
    if named is None and not models:
        return Refusal(f"no node of the cluster has GPUs and the label {label}")
    if named is None:
        return Refusal(f"it names no GPU model, and there are {_listed(models)}: select one by the label {label}")
    if not named:
        return Refusal(f"no GPU model meets all that it asks of the label {label}")
    return Refusal(f"it would take several GPU models ({_listed(named)}): name one by the label {label}")


def _named(rule: NodeRule, label: str) -> set[str] | None:
    """Returns the models that selector and affinity name; None: they leave it open."""
    selected = {value for key, value in rule.selector if key == label}
    found: set[str] | None = set(selected) or None
    by_term = [
        [set(need.values) for need in term if need.key == label and need.operator == "In"] for term in rule.terms
    ]
    if by_term and all(by_term):
        of_terms = set().union(*(set.intersection(*values) for values in by_term))
        found = of_terms if found is None else found & of_terms
    return found


def _listed(models: Iterable[str]) -> str:
    names = sorted(models)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
