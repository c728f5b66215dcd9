"""No quota: spot tasks may take whatever is idle."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gfs.core.ports import QuotaRow


class UnlimitedQuota:
    """Nothing is held back."""

    def limit(self, guarantee_hours: float) -> float:
        """No limit but what is idle."""
        return inf

    def tick(self, now: float) -> None:
        """Nothing to reconsider."""

    def rows(self) -> Sequence[QuotaRow]:
        """Nothing is limited, so there is nothing to show."""
        return ()

    def why(self, guarantee_hours: float) -> str:
        """There is nothing to explain."""
        return ""
