"""PodDisruptionBudgets: which pods one covers, and how many of them may be stopped now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from gfs.live.translate.antiaffinity import Selector, read_selector
from gfs.live.translate.pods import PodView
from gfs.live.translate.shape import table, text


class BudgetView(NamedTuple):
    """What we read of a PodDisruptionBudget."""

    namespace: str
    name: str
    selector: Selector | None
    """None: it covers no pod."""
    allowed: int

    def breaks(self, pods: Iterable[PodView]) -> bool:
        """Whether to stop all these pods now would be more than it allows."""
        return sum(pod.namespace == self.namespace and self._covers(pod) for pod in pods) > self.allowed

    def _covers(self, pod: PodView) -> bool:
        return self.selector is not None and self.selector.selects(dict(pod.labels))


def read_budget(budget: Any) -> BudgetView:
    """A budget as we see it; as long as nobody has counted its pods, it allows nothing."""
    metadata, spec = table(budget, "metadata"), table(budget, "spec")
    selector = table(spec, "selector")
    allowed = table(budget, "status").get("disruptionsAllowed")
    count = allowed if isinstance(allowed, int) else 0
    chosen = read_selector(selector) if isinstance(spec.get("selector"), dict) else None
    return BudgetView(text(metadata, "namespace"), text(metadata, "name"), chosen, count)
