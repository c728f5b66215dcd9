"""What is asked of a plan, checked before anything is simulated, and how many runs it will take at most."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from gfs.assembly.parameters import Parameters, PoolSettings
from gfs.assembly.schedulers import find_scheduler, least_quota_share
from gfs.batch.simulation import GeneratedTrace, Trace, Value, workload_of
from gfs.domain.errors import InputError
from gfs.domain.workload import Workload
from gfs.plans.candidates import SCHEDULERS, Candidate, SearchSpace, search_space
from gfs.plans.runs import PlanRun, node_counts, spot_count
from gfs.plans.targets import Target
from gfs.workloads import read_trace

NODE_SHARES = (0.9, 1.1)
GUARANTEES = (1.0, 2.0, 4.0)
"""Hours on the price list, beside those of the trace."""
OTHER_SEEDS = 4
"""Synthetic traces on which the recommended setting is tried again: as many as an interval needs."""
NEAR = (8, 4, 3)
"""Runs of each round around the best, at most."""
QUICK_NEAR = (4, 2)
RIVALS, QUICK_RIVALS = 3, 1
"""Settings of other kinds that are tried on other seeds, too."""

Assignment = tuple[tuple[str, Candidate], ...]
"""GPU model -> what its pool has."""


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool that has something to choose: spot tasks ask for it."""

    gpu_model: str
    gpus: int
    spot_tasks: int
    least_share: float
    """Of the pool: the least fixed quota in which every spot task can start."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """All that decides what is computed, and what is made of it."""

    trace: Trace
    seed: int
    base: tuple[tuple[str, Value], ...]
    """Parameters that were given: they hold in every run."""
    derived: tuple[tuple[str, Value], ...]
    """Parameters that follow from the trace: whoever reads it again finds them again."""
    space: SearchSpace
    targets: tuple[Target, ...]
    max_wait: float
    """Seconds that spot tasks may wait on average for their work to count as sold."""
    quick: bool
    pools: tuple[PoolFacts, ...]
    """The largest first."""
    shares: Mapping[float, dict[str, tuple[int, int]]]
    """Share of the nodes -> GPU model -> nodes as they are, and at that share."""
    guarantee: float | None
    """Hours that were given; None: the trace's own, and others are offered on a price list."""
    promised: float | None
    """Hours that every spot task of the trace is promised; None where they differ."""
    own_guarantees: int
    """Spot tasks that say their own guarantee."""
    spot_tasks: int
    prices: tuple[tuple[str, float], ...] = ()
    """Dollars per GPU-hour by GPU model; empty: the assumed ones."""

    def run(self, assignment: Assignment, *, seed: int | None = None, **other: Any) -> PlanRun:
        """The run in which every pool has what it is assigned; `seed`: of another synthetic trace."""
        cluster = cluster_wide(assignment)
        pools = tuple(
            PoolSettings(model, own.scheduler if own.scheduler != cluster.scheduler else "", own.values())
            for model, own in sorted(assignment)
            if own != cluster
        )
        settings = tuple({**dict(self.base), **dict(self.derived), **dict(cluster.values())}.items())
        trace = self.trace
        if seed is not None and isinstance(trace, GeneratedTrace):
            trace = trace._replace(seed=seed)
        drawn = self.seed if seed is None else seed
        return PlanRun(trace, cluster.scheduler, drawn, settings, pools, prices=self.prices, **other)

    @property
    def other_seeds(self) -> tuple[int, ...]:
        """Of traces like this one; none where it is the user's own."""
        count = OTHER_SEEDS if isinstance(self.trace, GeneratedTrace) else 0
        return tuple(self.seed + number for number in range(1, count + 1))

    @property
    def near(self) -> tuple[int, ...]:
        """Runs of each round around the best, at most."""
        return QUICK_NEAR if self.quick else NEAR

    @property
    def rivals(self) -> int:
        """Settings of other kinds that are tried on other seeds, too."""
        return QUICK_RIVALS if self.quick else RIVALS

    @property
    def listed(self) -> tuple[float, ...]:
        """Guarantees for the price list besides the trace's own."""
        offered = () if self.guarantee is not None or self.quick else GUARANTEES
        return tuple(hours for hours in offered if hours != self.promised)

    def other_shares(self) -> list[float]:
        """Shares of the nodes that make a difference: of four nodes, 10% are none."""
        return [share for share, pools in self.shares.items() if any(now != then for now, then in pools.values())]

    def other_scales(self, scales: Iterable[float], tried: Iterable[float]) -> list[float]:
        """Scales of the spot work that make a difference: a quarter and a half of two tasks are one task."""
        known = {0, *(spot_count(self.spot_tasks, scale) for scale in tried)}
        return [scale for scale in scales if spot_count(self.spot_tasks, scale) not in known]

    def first_rows(self) -> list[Assignment]:
        """The first round: every candidate in all pools at once, a fixed share nowhere below what tasks need."""
        by_pool = [self.space.grid(pool.least_share) for pool in self.pools]
        rows = zip(*by_pool, strict=True)
        return list(dict.fromkeys(tuple(zip((p.gpu_model for p in self.pools), row, strict=True)) for row in rows))

    def budget(self) -> str:
        """How many runs at most, and what for."""
        parts = {"settings": len(self.first_rows()), "more around the best": sum(self.near)}
        parts["of the whole recommendation"] = 1 if len(self.pools) > 1 else 0
        parts["on other seeds"] = len(self.other_seeds) * (1 + self.rivals)
        parts["with other nodes"] = len(self.other_shares())
        parts["with other spot work"] = 2 if self.quick else 3
        parts["with other guarantees"] = 2 * len(self.listed)
        said = ", ".join(f"{count} {what}" for what, count in parts.items() if count)
        return f"at most {sum(parts.values())} runs: {said}"


def cluster_wide(assignment: Assignment) -> Candidate:
    """What most pools have; of equally many what the first has, the largest."""
    candidates = [candidate for _, candidate in assignment]
    return max(candidates, key=candidates.count)


def plan_request(
    trace: Trace,
    schedulers: Sequence[str] = SCHEDULERS,
    *,
    seed: int,
    parameters: Parameters,
    given: Collection[str],
    targets: tuple[Target, ...],
    max_wait: float,
    quick: bool,
    prices: Mapping[str, float] | None = None,
) -> PlanRequest:
    """Check everything that can be checked before anything is simulated.

    `given`: parameters the user named, also with their usual values; they are not tried.
    """
    if not (isfinite(max_wait) and max_wait > 0):
        raise InputError(f"--max-wait {max_wait:g}: must be a number of seconds above 0, for example 3600")
    if parameters.pools:
        raise InputError("[pools]: a plan chooses what each pool has; leave these tables out of the config")
    for name in schedulers:
        find_scheduler(name)
    usual, values = Parameters().to_dict(), parameters.to_dict()
    base = {name: values[name] for name in values if values[name] != usual[name] or name in given}
    workload = workload_of(trace, parameters.guarantee_hours, parameters.checkpoint_interval)
    spot = [task for task in workload.tasks if task.is_spot]
    if not spot:
        raise InputError(
            f"{trace.label} has no spot tasks: nobody can be evicted or wait for a quota, so there is nothing"
            " to plan; add spot tasks (job_type Spot), for example those you would like to sell"
        )
    return PlanRequest(
        trace=trace,
        seed=seed,
        base=tuple(base.items()),
        derived=_derived(trace, base),
        space=search_space(schedulers, base, quick),
        targets=targets,
        max_wait=max_wait,
        quick=quick,
        pools=_pools(workload),
        shares={share: node_counts(workload, share) for share in NODE_SHARES},
        guarantee=parameters.guarantee_hours if "guarantee_hours" in given else None,
        promised=spot[0].guarantee_hours if len({task.guarantee_hours for task in spot}) == 1 else None,
        own_guarantees=0 if isinstance(trace, GeneratedTrace) else _own_guarantees(trace, parameters),
        spot_tasks=len(spot),
        prices=tuple((prices or {}).items()),
    )


def _derived(trace: Trace, base: Mapping[str, Any]) -> tuple[tuple[str, Value], ...]:
    """The day that second 0 begins, where the trace has timestamps: `gfs simulate` takes it from there, too."""
    if isinstance(trace, GeneratedTrace) or "first_day" in base:
        return ()
    day = read_trace(trace.jobs, trace.nodes).first_day
    return () if day is None else (("first_day", day.isoformat()),)


def _pools(workload: Workload) -> tuple[PoolFacts, ...]:
    found = []
    for model, gpus in workload.capacity().items():
        spot = sum(task.is_spot and task.gpu_model == model for task in workload.tasks)
        if spot:
            found.append(PoolFacts(model, gpus, spot, least_quota_share(workload, model)))
    return tuple(sorted(found, key=lambda pool: (-pool.gpus, pool.gpu_model)))


def _own_guarantees(trace: Trace, parameters: Parameters) -> int:
    """Spot tasks on which the parameter has no influence."""
    one, other = (
        workload_of(trace, hours, parameters.checkpoint_interval)
        for hours in (parameters.guarantee_hours, parameters.guarantee_hours + 1)
    )
    pairs = zip(one.tasks, other.tasks, strict=True)
    return sum(a.is_spot and a.guarantee_hours == b.guarantee_hours for a, b in pairs)
