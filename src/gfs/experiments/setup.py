"""What a reproduction is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from gfs.batch.traces import GeneratedTrace, Trace, TraceFiles

LOADS = {"low": 1.0, "medium": 2.0, "high": 4.0}
"""The paper's three loads: spot tasks times so many."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How much to compute, and on which trace."""

    seeds: tuple[int, ...] = (0, 1, 2)
    quick: bool = False
    given: TraceFiles | None = None
    series: str = ""
    """A file of demand for the forecasters, in place of that of the trace."""

    @property
    def loads(self) -> tuple[str, ...]:
        """The loads that are compared: of the user's trace there is one."""
        return tuple(LOADS) if self.given is None else ("as it is",)

    @property
    def medium(self) -> str:
        """The load for what is compared at one load only."""
        return self.loads[len(self.loads) // 2]

    def trace(self, load: str, seed: int) -> Trace:
        """The trace of a load; the user's own is the same for all seeds."""
        if self.given is not None:
            return self.given
        whole = GeneratedTrace("paper", LOADS[load], seed)
        return whole._replace(nodes=24, days=10) if self.quick else whole

    def cluster(self, seed: int = 0) -> Trace:
        """The whole cluster with all its pools."""
        if self.given is not None:
            return self.given
        whole = GeneratedTrace("production", 1.0, seed)
        return whole._replace(nodes=120, days=8) if self.quick else whole

    def runs(self) -> tuple[int, ...]:
        """The seeds that make a difference: a given trace is one, and so are its runs."""
        return self.seeds if self.given is None else self.seeds[:1]
