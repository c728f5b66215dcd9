"""Required anti-affinity of pods that run: which other pods must not come near them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gfs.live.translate.rules import REQUIRED, Need, all_met, read_selector
from gfs.live.translate.shape import Json, entries, table


class Apart(NamedTuple):
    """A term of anti-affinity."""

    namespaces: frozenset[str] | None
    """Where the pods are that it keeps away; None: anywhere, since we do not read labels of namespaces."""
    selector: tuple[Need, ...]

    def keeps_away(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels must not come near."""
        return (self.namespaces is None or namespace in self.namespaces) and all_met(self.selector, labels)


def read_apart(spec: Json, namespace: str) -> tuple[Apart, ...]:
    """Returns the required anti-affinity of a pod; a term without a selector keeps no pod away."""
    found = []
    for term in entries(table(table(spec, "affinity"), "podAntiAffinity"), REQUIRED):
        if not isinstance(term.get("labelSelector"), dict):
            continue
        named = term.get("namespaces")
        homes = frozenset(map(str, named)) if isinstance(named, list) and named else frozenset([namespace])
        anywhere = isinstance(term.get("namespaceSelector"), dict)
        found.append(Apart(None if anywhere else homes, read_selector(term["labelSelector"])))
    return tuple(found)
