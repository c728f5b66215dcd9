"""PodDisruptionBudgets: which pods one covers, and how many of them may be stopped now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from gfs.live.translate.pods import PodView
from gfs.live.translate.rules import Need
from gfs.live.translate.shape import entries, table, text


class BudgetView(NamedTuple):
    """What we read of a PodDisruptionBudget."""

    namespace: str
    name: str
    needs: tuple[Need, ...] | None
    """Its selector; an empty one covers every pod of the namespace, None covers nobody."""
    allowed: int

    def breaks(self, pods: Iterable[PodView]) -> bool:
        """Whether to stop all these pods now would be more than it allows."""
        return sum(pod.namespace == self.namespace and self._covers(pod) for pod in pods) > self.allowed

    def _covers(self, pod: PodView) -> bool:
        labels = dict(pod.labels)
        return self.needs is not None and all(need.met(labels) for need in self.needs)


def read_budget(budget: Any) -> BudgetView:
    """A budget as we see it; as long as nobody has counted its pods, it allows nothing."""
    metadata, spec = table(budget, "metadata"), table(budget, "spec")
    selector = table(spec, "selector")
    allowed = table(budget, "status").get("disruptionsAllowed")
    needs = [Need(str(key), "In", (str(value),)) for key, value in table(selector, "matchLabels").items()]
    for each in entries(selector, "matchExpressions"):
        values = each.get("values")
        listed = tuple(map(str, values)) if isinstance(values, list) else ()
        needs.append(Need(text(each, "key"), text(each, "operator"), listed))
    count = allowed if isinstance(allowed, int) else 0
    chosen = tuple(needs) if isinstance(spec.get("selector"), dict) else None
    return BudgetView(text(metadata, "namespace"), text(metadata, "name"), chosen, count)
