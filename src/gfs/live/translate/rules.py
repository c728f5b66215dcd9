"""Which nodes a pod may use: node selector, required node affinity, taints and tolerations.

Nodes with the same labels, as far as anybody asks for them, and the same taints are one *group*, named by a text from
which both can be read again. A rule says of any such text whether it will do; so a node of a kind never seen before
needs no new rule, and the core asks nothing but `group in rule`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

NAME_FIELD = "metadata.name"
"""The only field that node affinity can match besides labels."""
BY_NAME = f"field {NAME_FIELD}"
"""The field is treated like a label of this name, which no label can have."""
MOST_EXPRESSIONS = 1000
"""Labels, values and tolerations of one pod: each is looked at for every kind of node."""
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
BLOCKING = ("NoSchedule", "NoExecute")
CLOSED = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of nodes that take no pods at all: such nodes are closed to everybody."""


_WHOLE = re.compile(r"[+-]?[0-9]{1,63}")


class Taint(NamedTuple):
    """A taint that keeps pods away."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """What a pod puts up with; an empty key or effect stands for any key or effect."""

    key: str
    exists: bool
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        """Whether it is this taint that is put up with."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.exists if not self.key else self.exists or self.value == taint.value


class Need(NamedTuple):
    """One expression on a label."""

    key: str
    operator: str
    values: tuple[str, ...]

    def met(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels will do."""
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


def _whole(text: str | None) -> int | None:
    """A number as the API server reads one: of 64 bits, without blanks and underscores."""
    if text is None or not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class NodeRule:
    """All that a pod asks of the labels and taints of its node. Equal rules are equal asks."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Need, ...], ...] = ()
    """Required node affinity: one of these must be met whole; none at all: anything goes."""
    tolerations: tuple[Toleration, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.selector, self.terms, self.tolerations)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return NodeRule, (self.selector, self.terms, self.tolerations)  # hashes of texts differ between processes

    def __contains__(self, group: object) -> bool:
        return isinstance(group, str) and _admits(self, group)

    @property
    def keys(self) -> frozenset[str]:
        """The labels it looks at."""
        return frozenset([key for key, _ in self.selector] + [need.key for term in self.terms for need in term])

    @property
    def size(self) -> int:
        """Labels, values and tolerations in it."""
        needs = sum(1 + len(need.values) for term in self.terms for need in term)
        return len(self.selector) + needs + len(self.tolerations)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether selector and affinity are met."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        return not self.terms or any(term and all(need.met(labels) for need in term) for term in self.terms)

    def admits(self, labels: Mapping[str, str], taints: Iterable[Taint]) -> bool:
        """Whether a node with these labels and taints will do."""
        return self.matches(labels) and all(any(each.covers(taint) for each in self.tolerations) for taint in taints)

    def text(self) -> str:
        """What is asked for, in words."""
        words = [f"{key}={value}" for key, value in self.selector]
        if self.terms:
            words.append(" or ".join(" and ".join(need.text() for need in term) or "nothing" for term in self.terms))
        return ", ".join(words) or "a node without taints that it does not tolerate"


@lru_cache(maxsize=1 << 16)
def _admits(rule: NodeRule, group: str) -> bool:
    return rule.admits(*read_group(group))


def group_name(labels: Mapping[str, str], taints: Iterable[Taint], asked: Container[str]) -> str:
    """The name of the group of nodes with these labels, as far as they are `asked` for, and these taints."""
    shown = {key: labels[key] for key in sorted(labels) if key in asked}
    return json.dumps([shown, sorted(taints)], separators=(",", ":")) if shown or taints else ""


@lru_cache(maxsize=1 << 14)
def read_group(group: str) -> tuple[dict[str, str], tuple[Taint, ...]]:
    """Labels and taints that a group's name stands for; of a text that is none, nothing."""
    if not group:
        return {}, ()
    labels, taints = json.loads(group)
    return labels, tuple(Taint(*taint) for taint in taints)
