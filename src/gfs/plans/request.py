"""What a plan is made for: which trace, which scheduler, within which limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import find_scheduler, least_quota_share
from gfs.batch.simulation import GeneratedTrace, Trace, Value, workload_of
from gfs.domain.errors import InputError
from gfs.plans.runs import PlanRun, node_counts, spot_count
from gfs.plans.search import SearchSpace, Setting, search_space

NODE_SHARES = (0.9, 1.1)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """All that decides what is computed, and what is made of it."""

    trace: Trace
    scheduler: str
    seed: int
    base: tuple[tuple[str, Value], ...]
    """Parameters that were given: they hold in every run."""
    space: SearchSpace
    target: float
    """The share of spot runs that may be evicted."""
    max_wait: float
    """Seconds that spot tasks may wait on average for their work to count as sold."""
    quick: bool
    fixed_share: float
    """Of each pool, what the fixed quota of today lets spot tasks hold."""
    pools: Mapping[float, dict[str, tuple[int, int]]]
    """Share of the nodes -> GPU model -> nodes as they are, and at that share."""
    own_guarantees: int
    """Spot tasks that say their own guarantee."""
    spot_tasks: int
    prices: tuple[tuple[str, float], ...] = ()
    """Dollars per GPU-hour by GPU model; empty: the assumed ones."""

    def run(self, setting: Setting, *, node_share: float = 1.0, spot_scale: float = 1.0) -> PlanRun:
        """The run of a setting."""
        settings = tuple({**dict(self.base), **dict(setting.values())}.items())
        return PlanRun(self.trace, self.scheduler, self.seed, settings, node_share, spot_scale, self.prices)

    def today(self) -> list[PlanRun]:
        """What operators have today: a fixed quota, and none at all."""
        fixed = {**dict(self.base), "quota": "fixed", "quota_share": self.fixed_share}
        free = {**dict(self.base), "quota": "none"}
        return [
            PlanRun(self.trace, "static", self.seed, tuple(fixed.items()), prices=self.prices),
            PlanRun(self.trace, self.scheduler, self.seed, tuple(free.items()), prices=self.prices),
        ]

    def other_shares(self) -> list[float]:
        """Shares of the nodes that make a difference: of four nodes, 10% are none."""
        return [share for share, pools in self.pools.items() if any(now != then for now, then in pools.values())]

    def other_scales(self, scales: Iterable[float], tried: Iterable[float]) -> list[float]:
        """Scales of the spot work that make a difference: a quarter and a half of two tasks are one task."""
        known = {0, *(spot_count(self.spot_tasks, scale) for scale in tried)}
        return [scale for scale in scales if spot_count(self.spot_tasks, scale) not in known]


def plan_request(
    trace: Trace,
    scheduler: str,
    *,
    seed: int,
    parameters: Parameters,
    given: Collection[str],
    target: float,
    max_wait: float,
    quick: bool,
    prices: Mapping[str, float] | None = None,
) -> PlanRequest:
    """Check everything that can be checked before anything is simulated.

    `given`: parameters the user named, also with their usual values; they are not tried.
    """
    if not (isfinite(target) and 0 <= target < 1):
        raise InputError(
            f"--target-evictions {target:g}: must be a share, 0 or more and below 1, for example 0.05 for 5%"
        )
    if not (isfinite(max_wait) and max_wait > 0):
        raise InputError(f"--max-wait {max_wait:g}: must be a number of seconds above 0, for example 3600")
    definition = find_scheduler(scheduler)
    usual = Parameters().to_dict()
    values = parameters.to_dict()
    base = {name: values[name] for name in values if values[name] != usual[name] or name in given}
    workload = workload_of(trace, parameters.guarantee_hours, parameters.checkpoint_interval)
    spot = [task for task in workload.tasks if task.is_spot]
    if not spot:
        raise InputError(
            f"{trace.label} has no spot tasks: nobody can be evicted or wait for a quota, so there is nothing to"
            " plan; add spot tasks (job_type Spot), for example those you would like to sell"
        )
    own = 0 if isinstance(trace, GeneratedTrace) else _own_guarantees(trace, parameters)
    quota = parameters.quota or definition.quota
    return PlanRequest(
        trace=trace,
        scheduler=scheduler,
        seed=seed,
        base=tuple(base.items()),
        space=search_space(quota, base, own_guarantees=own == len(spot), quick=quick),
        target=target,
        max_wait=max_wait,
        quick=quick,
        fixed_share=max(parameters.quota_share, least_quota_share(workload)),
        pools={share: node_counts(workload, share) for share in NODE_SHARES},
        own_guarantees=own,
        spot_tasks=len(spot),
        prices=tuple((prices or {}).items()),
    )


def _own_guarantees(trace: Trace, parameters: Parameters) -> int:
    """Spot tasks on which the parameter has no influence."""
    one, other = (
        workload_of(trace, hours, parameters.checkpoint_interval)
        for hours in (parameters.guarantee_hours, parameters.guarantee_hours + 1)
    )
    pairs = zip(one.tasks, other.tasks, strict=True)
    return sum(a.is_spot and a.guarantee_hours == b.guarantee_hours for a, b in pairs)
