"""A filter: whether a node may take a pod of a role, asked by placement and by the search for victims alike."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from gfs.core.node import MOST_PODS, Node, Place

if TYPE_CHECKING:
    from gfs.core.run import Run


class Filter:
    """Decides by one kind of rule. A role without such a rule is never shown to it.

    Each pool has its own filters, made again whenever the pool is rebuilt.
    """

    reads: ClassVar[type[Any]]
    """The class of the rules that it decides by; a role names them in `rules`."""

    by_spec: ClassVar[bool] = True
    """Whether only what a node is counts, and not the pods that it holds."""

    most: ClassVar[int] = MOST_PODS
    """Pods with one rule that fit on one node."""

    def admits(self, rule: Any, node: Node, gone: Collection[Run] = ()) -> bool:
        """Returns whether the node may take a pod with this rule, once these spot runs have gone."""
        raise NotImplementedError

    def admitted(self, rule: Any, nodes: Sequence[Node], *, without_spot: bool) -> npt.NDArray[np.bool_]:
        """Returns the same for many nodes (if every spot run went)."""
        admits = self.admits
        return np.array([admits(rule, node, node.spot if without_spot else ()) for node in nodes], dtype=bool)

    def why(self, rule: Any) -> str:
        """Returns what a node that is not admitted lacks, in words to follow 'but'."""
        raise NotImplementedError

    def waits_for(self, rule: Any, node: Node, run: Run) -> bool:
        """Returns whether a pod with this rule can begin on the node only when an evicted run has left it."""
        return False

    def moved(self, rule: Any, place: Place, pods: int) -> None:
        """Notes that so many pods with this rule came to a place; below 0: they left it."""


def rule_of(kind: type[Any], rules: Sequence[Hashable]) -> Any:
    """Returns the rule of this class, or None."""
    return next((rule for rule in rules if isinstance(rule, kind)), None)
