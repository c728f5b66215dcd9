"""Required anti-affinity of pods that run: which other pods must not come near them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gfs.live.translate.rules import Need
from gfs.live.translate.shape import entries, table, text

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Selector(NamedTuple):
    """A label selector; an empty one selects everything."""

    needs: tuple[Need, ...]

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(need.met(labels) for need in self.needs)


class Apart(NamedTuple):
    """One term of anti-affinity."""

    namespaces: frozenset[str] | None
    """Where the pods are that it keeps away; None: anywhere, as far as we can tell."""
    selector: Selector

    def keeps_away(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels must not come near."""
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.selects(labels)


def read_selector(selector: dict[str, Any]) -> Selector:
    """Returns a label selector as we read it."""
    needs = [Need(str(key), "In", (str(value),)) for key, value in table(selector, "matchLabels").items()]
    for each in entries(selector, "matchExpressions"):
        values = each.get("values")
        listed = tuple(map(str, values)) if isinstance(values, list) else ()
        needs.append(Need(text(each, "key"), text(each, "operator"), listed))
    return Selector(tuple(needs))


def read_apart(spec: dict[str, Any], namespace: str) -> tuple[Apart, ...]:
    """Returns the required anti-affinity of a pod; one without a selector keeps no pod away."""
    found = []
    for term in entries(table(table(spec, "affinity"), "podAntiAffinity"), REQUIRED):
        if not isinstance(term.get("labelSelector"), dict):
            continue
        named = term.get("namespaces")
        homes = frozenset(map(str, named)) if isinstance(named, list) and named else frozenset([namespace])
        anywhere = isinstance(term.get("namespaceSelector"), dict)
        found.append(Apart(None if anywhere else homes, read_selector(term["labelSelector"])))
    return tuple(found)
