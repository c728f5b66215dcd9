"""Which nodes a task asks for: labels, taints, affinity, resolved to groups of nodes where they are read."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from gfs.core.filters.base import Filter
from gfs.core.node import Node

if TYPE_CHECKING:
    from gfs.core.run import Run


class NodeRule(NamedTuple):
    """The pod may run on nodes of these groups only."""

    groups: Container[str]
    """`NodeSpec.group` of the nodes that will do."""
    words: str = ""
    """What was asked for: 'zone=a'."""


class NodeFilter(Filter):
    """Admits nodes of the groups that the rule names."""

    reads = NodeRule

    def __init__(self) -> None:
        self._known: dict[NodeRule, npt.NDArray[np.bool_]] = {}

    def admits(self, rule: NodeRule, node: Node, gone: Collection[Run] = ()) -> bool:
        """Returns whether the node is of such a group."""
        return node.spec.group in rule.groups

    def admitted(self, rule: NodeRule, nodes: Sequence[Node], *, without_spot: bool) -> npt.NDArray[np.bool_]:
        """Returns the same for many nodes."""
        found = self._known.get(rule)
        if found is None:
            groups = [node.spec.group for node in nodes]
            known = {group: group in rule.groups for group in set(groups)}
            found = self._known[rule] = np.array([known[group] for group in groups], dtype=bool)
        return found

    def why(self, rule: NodeRule) -> str:
        """Returns what the task asks for."""
        return f"not one of the nodes that the task asks for ({rule.words or 'node filter'})"
