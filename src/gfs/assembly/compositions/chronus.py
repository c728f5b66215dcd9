"""`chronus`: leases given out in rounds by an optimiser (SoCC'21, docs/schedulers/chronus.md)."""

from __future__ import annotations

from dataclasses import dataclass

from gfs.assembly.context import Context
from gfs.assembly.quotas import build_quota
from gfs.core.ports import Policy
from gfs.policies.fit import best_fit


@dataclass(frozen=True, slots=True)
class ChronusDefinition:
    """Not one task after the other, so not a `Composition`: a policy of its own with a placer and a quota."""

    name: str = "chronus"
    summary: str = "leases given out in rounds: a program picks who holds the next ones, nobody is evicted"
    quota: str = "none"
    leases: bool = True
    """Tasks hold leases: to be stopped at the end of one is no eviction."""

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool."""
        from gfs.policies.chronus.policy import ChronusPolicy  # the solver's library takes its time to load

        parameters = context.parameters
        return ChronusPolicy(
            context.state,
            placer=best_fit(context.pool),
            quota=build_quota(context, self.quota),
            lease=(parameters.hp_lease, parameters.spot_lease),
            resume_overhead=parameters.resume_overhead,
            aging=parameters.lease_aging,
            solver_seconds=parameters.solver_seconds,
        )


CHRONUS = ChronusDefinition()
