"""A capacity plan: settings tried, the one to use, what other nodes would change, what could be sold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import find_scheduler, least_quota_share
from gfs.batch.job import JobResult
from gfs.batch.simulation import GeneratedTrace, Trace, Value, workload_of
from gfs.domain.errors import InputError
from gfs.plans import search
from gfs.plans.runs import PlanRun, node_counts, spot_count
from gfs.plans.search import SearchSpace, Setting, SettingResult, search_space

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


Compute = Callable[[Sequence[PlanRun]], tuple[Mapping[PlanRun, JobResult], Mapping[PlanRun, str]]]
"""Gives the results of runs, and why the others failed."""


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """Everything that was simulated, and what follows from it."""

    request: PlanRequest
    settings: list[SettingResult]
    """Every setting that was tried, in the order of the rounds."""
    chosen: SettingResult
    """The run of the recommended setting."""
    fixed: SettingResult
    """What operators have today: a fixed quota."""
    free: SettingResult
    """The same scheduler without any quota."""
    what_if: list[SettingResult]
    """The recommended setting with fewer, as many and more nodes."""
    demand: list[SettingResult]
    """The recommended setting with less, as much and more spot work."""
    guarantees: list[SettingResult]
    """The best setting for each length of the guarantee."""

    @property
    def meets(self) -> bool:
        """Whether the recommended setting keeps the target."""
        return self.chosen.within(self.request.target)

    @property
    def alike(self) -> bool:
        """Whether every setting came to the same waits and evictions."""
        return len({(result.wait, result.evicted) for result in self.settings if not result.error}) == 1

    @property
    def largest(self) -> SettingResult | None:
        """The most spot work that was tried and can be sold; None if not even the least can."""
        scale = search.largest_scale({result.run.spot_scale: self.sells(result) for result in self.demand})
        return next((result for result in self.demand if result.run.spot_scale == scale), None)

    def sells(self, result: SettingResult) -> bool:
        """Within the target, and with a mean wait below the limit."""
        return result.sells(self.request.target, self.request.max_wait)

    def runs(self) -> list[SettingResult]:
        """Every run once."""
        every = [*self.settings, self.fixed, self.free, *self.what_if, *self.demand]
        return list({result.run: result for result in every}.values())


def capacity_plan(request: PlanRequest, compute: Compute) -> CapacityPlan:
    """Simulate what has to be known, round by round, and draw the conclusions."""
    target = request.target
    first = _with_runs(request, search.first_round(request.space))
    found = _results(compute, [*first, *((Setting(), run) for run in request.today())])
    settings, (fixed, free) = found[: len(first)], found[len(first) :]
    for next_round in (search.second_round,) if request.quick else (search.second_round, search.third_round):
        settings += _results(compute, _with_runs(request, next_round(request.space, settings, target)))
    chosen = search.choose(settings, target)
    what_if, demand = _around(request, chosen, compute)
    guarantees = search.best_by_guarantee(settings, target)
    return CapacityPlan(request, settings, chosen, fixed, free, what_if, demand, guarantees)


def _around(
    request: PlanRequest, chosen: SettingResult, compute: Compute
) -> tuple[list[SettingResult], list[SettingResult]]:
    """The recommended setting with other nodes, and with other spot work."""
    setting, limits = chosen.setting, (request.target, request.max_wait)
    shares = request.other_shares()
    scales = request.other_scales(search.first_scales(chosen.sells(*limits), request.quick), tried=[1.0])
    runs = [request.run(setting, node_share=share) for share in shares]
    runs += [request.run(setting, spot_scale=scale) for scale in scales]
    found = _results(compute, [(setting, run) for run in runs])
    what_if, demand = [chosen, *found[: len(shares)]], [chosen, *found[len(shares) :]]
    tried = {result.run.spot_scale: result.sells(*limits) for result in demand}
    last = None if request.quick else search.last_scale(tried)
    if last is not None and request.other_scales([last], tried):
        demand += _results(compute, [(setting, request.run(setting, spot_scale=last))])
    return (
        sorted(what_if, key=lambda result: result.run.node_share),
        sorted(demand, key=lambda result: result.run.spot_scale),
    )


def _with_runs(request: PlanRequest, settings: Sequence[Setting]) -> list[tuple[Setting, PlanRun]]:
    return [(setting, request.run(setting)) for setting in settings]


def _results(compute: Compute, pairs: Sequence[tuple[Setting, PlanRun]]) -> list[SettingResult]:
    """The results of these runs; raises InputError where there is no eviction rate to plan by."""
    figures, errors = compute([run for _, run in pairs])
    found = [SettingResult(run, setting, figures.get(run, {}), errors.get(run, "")) for setting, run in pairs]
    for result in found:
        if not result.error and result.figures["spot_eviction_rate"] is None:
            raise InputError(
                f"{result.run.scheduler} runs tasks by leases and evicts none, so a target for evictions"
                " says nothing about it; plan for gfs or gfs-plus"
            )
    return found
