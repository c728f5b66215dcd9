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
            freed += _ports_on(run, node)
        return all(taken[port] <= freed[port] for port in rule.ports)

    def waits_for(self, rule: PortRule, node: Node, run: Run) -> bool:
        """Returns whether the run has one of the ports there."""
        return not _ports_on(run, node).keys().isdisjoint(rule.ports)

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


def _ports_on(run: Run, node: Node) -> Counter[str]:
    """Returns the ports that a run has on a node, with the number of its pods that have each."""
    found: Counter[str] = Counter()
    for where, role, pods, _ in run.places:
        rule = rule_of(PortRule, role.rules)
        if where is node and rule is not None:
            found.update(dict.fromkeys(rule.ports, pods))
    return found
