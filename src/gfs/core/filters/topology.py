"""Topology domains: all pods of a task on nodes with one value of a label, such as one rack.

The domain is chosen before the nodes (`gfs.policies.domains`); within the attempt its roles carry a `DomainRule`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

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

    def __init__(self) -> None:
        self._values: dict[str, npt.NDArray[np.str_]] = {}
        """Label -> its value on each node."""

    def admits(self, rule: DomainRule, node: Node, gone: Collection[Run] = ()) -> bool:
        """Returns whether the node is in the domain."""
        return node.spec.label(rule.key) == rule.value

    def admitted(self, rule: DomainRule, nodes: Sequence[Node], *, without_spot: bool) -> npt.NDArray[np.bool_]:
        """Returns the same for many nodes."""
        values = self._values.get(rule.key)
        if values is None:
            values = self._values[rule.key] = np.array([node.spec.label(rule.key) for node in nodes])
        there: npt.NDArray[np.bool_] = values == rule.value
        return there

    def why(self, rule: DomainRule) -> str:
        """Returns the domain."""
        return f"not in {rule.key} {rule.value}"
