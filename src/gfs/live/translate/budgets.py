"""PodDisruptionBudgets: which pods one covers, and how many of them may be stopped now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from gfs.live.translate.pods import PodView
from gfs.live.translate.rules import Need, all_met, read_selector
from gfs.live.translate.shape import table, text


class BudgetView(NamedTuple):
    """What we read of a PodDisruptionBudget."""

    namespace: str
    name: str
    selector: tuple[Need, ...] | None
    """None: it covers no pod."""
    allowed: int

    def breaks(self, pods: Iterable[PodView]) -> bool:
        """Whether it does not allow to stop all of these pods now."""
        if self.selector is None:
            return False
        mine = [pod for pod in pods if pod.namespace == self.namespace and all_met(self.selector, pod.labels)]
        return len(mine) > self.allowed


def read_budget(budget: Any) -> BudgetView:
    """Returns a budget as we see it; one without a status allows nothing."""
    metadata, spec = table(budget, "metadata"), table(budget, "spec")
    allowed = table(budget, "status").get("disruptionsAllowed")
    count = allowed if isinstance(allowed, int) else 0
    chosen = read_selector(spec["selector"]) if isinstance(spec.get("selector"), dict) else None
    return BudgetView(text(metadata, "namespace"), text(metadata, "name"), chosen, count)
