"""Which nodes a pod may use: GPU model, node selector, required node affinity, taints and tolerations. Label selectors.

Nodes with the same labels, as far as pods ask for them, and the same taints are one *group*. Its name is a text from
which both can be read again, and the core asks only `group in rule`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from gfs.live.translate.shape import Json, entries, table, text

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FIELD = "field "
"""Prefix of the label that stands for a field in node affinity. Real labels cannot have it."""
BY_NAME = f"{FIELD}metadata.name"
"""The only field that node affinity can match."""
BLOCKING = ("NoSchedule", "NoExecute")
CLOSED = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of nodes that take no pods at all."""
EQUAL, EXISTS = "Equal", "Exists"
"""Operators of tolerations. A toleration with another one tolerates nothing."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,63}")


class Taint(NamedTuple):
    """A taint that keeps pods away."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A toleration; an empty key or effect stands for any key or effect."""

    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        """Whether it tolerates this taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == EXISTS or (self.key != "" and self.operator == EQUAL and self.value == taint.value)


class Need(NamedTuple):
    """An expression on a label."""

    key: str
    operator: str
    values: tuple[str, ...]

    def met(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet it."""
        have = labels.get(self.key)
        match self.operator:
            case "In":
                return have in self.values
            case "NotIn":
                return have not in self.values
            case "Exists":
                return have is not None
            case "DoesNotExist":
                return have is None
        number, bound = _whole(have), _whole(self.values[0] if len(self.values) == 1 else None)
        if number is None or bound is None:
            return False
        return (self.operator == "Gt" and number > bound) or (self.operator == "Lt" and number < bound)

    def text(self) -> str:
        """As an operator would write it."""
        return f"{self.key} {self.operator} {','.join(self.values)}".strip()


def _whole(value: str | None) -> int | None:
    """Returns a number as the API server reads one: of 64 bits, without blanks and underscores."""
    if value is None or not _WHOLE.fullmatch(value):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


def all_met(needs: Iterable[Need], labels: Mapping[str, str]) -> bool:
    """Whether labels meet all of these needs; an empty selector selects everything."""
    return all(need.met(labels) for need in needs)


def read_selector(selector: Json) -> tuple[Need, ...]:
    """Returns what a label selector asks for."""
    equal = [Need(str(key), "In", (str(value),)) for key, value in table(selector, "matchLabels").items()]
    return (*equal, *_needs(selector, "matchExpressions"))


def _needs(thing: Json, name: str, prefix: str = "") -> list[Need]:
    found = []
    for each in entries(thing, name):
        values = each.get("values")
        listed = tuple(map(str, values)) if isinstance(values, list) else ()
        found.append(Need(prefix + text(each, "key"), text(each, "operator"), listed))
    return found


class LabelRule(msgspec.Struct, frozen=True, cache_hash=True):
    """All that a pod asks of the labels and taints of its node."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Need, ...], ...] = ()
    """Required node affinity: a node must meet one of these whole; no terms: there is none."""
    tolerations: tuple[Toleration, ...] = ()

    def __contains__(self, group: object) -> bool:
        return isinstance(group, str) and _admits(self, group)

    @property
    def keys(self) -> frozenset[str]:
        """Returns the labels that it depends on."""
        return frozenset([key for key, _ in self.selector] + [need.key for term in self.terms for need in term])

    @property
    def size(self) -> int:
        """Returns the number of labels, values and tolerations in it."""
        needs = sum(1 + len(need.values) for term in self.terms for need in term)
        return len(self.selector) + needs + len(self.tolerations)

    def admits(self, labels: Mapping[str, str], taints: Iterable[Taint]) -> bool:
        """Whether a node with these labels and taints will do."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        if self.terms and not any(term and all_met(term, labels) for term in self.terms):
            return False
        return all(any(each.covers(taint) for each in self.tolerations) for taint in taints)

    def text(self) -> str:
        """Returns the rule in words."""
        words = [f"{key}={value}" for key, value in self.selector]
        if self.terms:
            words.append(" or ".join(" and ".join(need.text() for need in term) or "nothing" for term in self.terms))
        return ", ".join(words) or "a node without taints that it does not tolerate"


def read_rule(spec: Json) -> LabelRule:
    """Returns selector, required affinity and tolerations of a pod."""
    selector = {str(key): str(value) for key, value in table(spec, "nodeSelector").items()}
    affinity = table(table(spec, "affinity"), "nodeAffinity")
    terms = [
        (*_needs(term, "matchExpressions"), *_needs(term, "matchFields", FIELD))
        for term in entries(affinity.get(REQUIRED), "nodeSelectorTerms")
    ]
    if affinity.get(REQUIRED) is not None and not terms:
        terms = [()]  # no node will do
    tolerations = {
        Toleration(text(each, "key"), text(each, "operator") or EQUAL, text(each, "value"), text(each, "effect"))
        for each in entries(spec, "tolerations")
    }
    return LabelRule(tuple(sorted(selector.items())), tuple(terms), tuple(sorted(tolerations)))


@lru_cache(maxsize=1 << 16)
def _admits(rule: LabelRule, group: str) -> bool:
    return rule.admits(*_labels_and_taints(group))


def group_name(labels: Mapping[str, str], taints: Iterable[Taint], asked: Container[str]) -> str:
    """Returns the name of the group of nodes with these labels, as far as they are `asked` for, and these taints."""
    shown = {key: labels[key] for key in sorted(labels) if key in asked}
    return json.dumps([shown, sorted(taints)], separators=(",", ":")) if shown or taints else ""


@lru_cache(maxsize=1 << 14)
def _labels_and_taints(group: str) -> tuple[dict[str, str], tuple[Taint, ...]]:
    if not group:
        return {}, ()
    labels, taints = json.loads(group)
    return labels, tuple(Taint(*taint) for taint in taints)


class Refusal(NamedTuple):
    """Why a pod is not placed, in words."""

    text: str


def pool_of(rule: LabelRule, label: str, models: Collection[str]) -> str | Refusal:
    """Returns the GPU model that a pod is for, or why there is none."""
    named = _named(rule, label)
    possible = set(models) if named is None else named
    if len(possible) > 1:
        possible = possible.intersection(models)
    if len(possible) == 1:
        return possible.pop()
    if named:
        return Refusal(f"it would take several GPU models ({_listed(named)}): name one by the label {label}")
    if named is not None:
        return Refusal(f"no GPU model meets all that it asks of the label {label}")
    if models:
        return Refusal(f"it names no GPU model, and there are {_listed(models)}: select one by the label {label}")
    return Refusal(f"no node of the cluster has GPUs and the label {label}")


def _named(rule: LabelRule, label: str) -> set[str] | None:
    """Returns the models that selector and affinity name; None: they leave it open."""
    named = [{value} for key, value in rule.selector if key == label]
    by_term = [
        [set(need.values) for need in term if need.key == label and need.operator == "In"] for term in rule.terms
    ]
    if by_term and all(by_term):
        named.append(set().union(*(set.intersection(*values) for values in by_term)))
    return set.intersection(*named) if named else None


def _listed(models: Iterable[str]) -> str:
    names = sorted(models)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
