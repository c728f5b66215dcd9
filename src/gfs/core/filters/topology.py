"""Topology domains: all pods of a task on nodes with one value of a label, such as one rack.

The domain is chosen before the nodes (`gfs.policies.domains`); within the attempt its roles carry a `DomainRule`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from gfs.core.filters.base import Filter
from gfs.core.node import Node

if TYPE_CHECKING:
    from gfs.core.run import Run


class DomainRule(NamedTuple):
    """The pod may run on nodes with this label only."""

    key: str
    value: str


class DomainFilter(Filter):
    """Admits the nodes of one domain."""

    reads = DomainRule

    def admits(self, rule: DomainRule, node: Node, gone: Collection[Run] = ()) -> bool:
        """Returns whether the node is in the domain."""
        return node.spec.label(rule.key) == rule.value

    def why(self, rule: DomainRule) -> str:
        """Returns the domain."""
        return f"not in {rule.key} {rule.value}"
