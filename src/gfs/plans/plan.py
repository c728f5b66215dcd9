"""A capacity plan: settings tried, the one to use, what other nodes would change, what could be sold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gfs.batch.job import JobResult
from gfs.domain.errors import InputError
from gfs.plans import search
from gfs.plans.request import PlanRequest
from gfs.plans.runs import PlanRun
from gfs.plans.search import Setting, SettingResult

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
