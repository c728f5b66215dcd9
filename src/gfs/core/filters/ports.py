"""Ports of the host: two pods with the same port cannot share a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from gfs.core.filters.base import Filter, rule_of
from gfs.core.node import Node, Place

if TYPE_CHECKING:
    from gfs.core.run import Run


class PortRule(NamedTuple):
    """The pod takes these ports of its node, such as ('TCP/8080',)."""

    ports: tuple[str, ...]


class PortFilter(Filter):
    """Admits nodes on which none of the ports is taken."""

    reads = PortRule
    by_spec = False
    most = 1

    def __init__(self) -> None:
        self._taken: dict[Node, Counter[str]] = {}
        """Node -> port -> pods that have it."""

    def admits(self, rule: PortRule, node: Node, gone: Collection[Run] = ()) -> bool:
        """Returns whether all its ports are free there."""
        taken = self._taken.get(node)
        if not taken:
            return True
        freed: Counter[str] = Counter()
        for run in gone:
            for where, role, pods, _ in run.places:
                theirs = rule_of(PortRule, role.rules)
                if where is node and theirs is not None:
                    freed.update(dict.fromkeys(theirs.ports, pods))
        return all(taken[port] <= freed[port] for port in rule.ports)

    def why(self, rule: PortRule) -> str:
        """Returns the ports that are asked for."""
        return f"port {', '.join(rule.ports)} of the host is taken"

    def moved(self, rule: PortRule, place: Place, pods: int) -> None:
        """Counts the pods that have each port."""
        taken = self._taken.setdefault(place[0], Counter())
        for port in rule.ports:
            taken[port] += pods
        if not +taken:
            del self._taken[place[0]]
