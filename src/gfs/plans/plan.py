"""A plan: what each pool should run, how sure that is, what other nodes would change, what could be sold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from gfs.batch.job import JobResult
from gfs.domain.errors import InputError
from gfs.plans import scales
from gfs.plans.candidates import Candidate
from gfs.plans.certainty import Interval, interval
from gfs.plans.choice import Rival, Tried, best_of_families, choose, rivals
from gfs.plans.evidence import LEAST_BLOCKS, Sums, block_edges, block_name, from_json, total
from gfs.plans.request import Assignment, PlanRequest, PoolFacts
from gfs.plans.runs import PlanRun, tasks_span
from gfs.plans.targets import Conflict, all_met, conflict, figure_of
from gfs.telemetry.breakdown import Breakdown

Compute = Callable[[Sequence[PlanRun]], tuple[Mapping[PlanRun, JobResult], Mapping[PlanRun, str]]]
"""Gives the results of runs, and why the others failed."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanResult:
    """A run that was made."""

    assignment: Assignment
    run: PlanRun
    figures: JobResult
    """Of the whole cluster; empty if it failed."""
    pools: Mapping[str, Sequence[Sums]]
    """GPU model -> its blocks."""
    error: str = ""
    """Why it failed."""
    groups: Breakdown | None = None
    """By organization, GPU model and size; None if it failed."""

    @property
    def blocks(self) -> list[Sums]:
        """Of the whole cluster."""
        return [total(parts) for parts in zip(*self.pools.values(), strict=True)]

    @property
    def sums(self) -> Sums:
        """Of the whole cluster and the whole trace."""
        return total(self.blocks)

    @property
    def has_spot(self) -> bool:
        """Whether any spot task ran: of little spot work a quarter is none, and a small cluster may fit none."""
        return bool(self.figures.get("spot_runs"))


@dataclass(frozen=True, slots=True, eq=False)
class PoolChoice:
    """What is recommended for one pool, and what else was tried there."""

    pool: PoolFacts
    candidate: Candidate
    tried: Tried
    sums: Sums
    """Of the recommended one, in the run in which every pool has its own."""
    conflict: Conflict | None
    """What cannot be met here; None if all targets can."""


@dataclass(frozen=True, slots=True, eq=False)
class OutOfSample:
    """What was chosen on one part, reported on another that the choice did not see."""

    assignment: Assignment
    chosen_on: str
    """'the first 7 days', 'seed 0'."""
    reported_on: str
    promised: Sums
    """What it came to where it was chosen."""
    blocks: Sequence[Sums]
    """Those it was not chosen on."""

    @property
    def sums(self) -> Sums:
        """What it came to there."""
        return total(self.blocks)

    def interval(self, figure: str) -> Interval | None:
        """A figure there."""
        return interval(self.blocks, lambda sums: figure_of(figure, sums))


@dataclass(frozen=True, slots=True, eq=False)
class PriceRow:
    """A guarantee, and the most spot work that was tried and can be sold with it."""

    hours: float | None
    """None: what the trace says of each task."""
    results: Sequence[PlanResult]
    """By the amount of spot work."""
    sold: PlanResult | None
    """None if nothing that was tried can be sold."""


@dataclass(frozen=True, slots=True, eq=False)
class CapacityPlan:
    """Everything that was simulated, and what follows from it."""

    request: PlanRequest
    results: Sequence[PlanResult]
    """Every run on the trace itself, in the order of the rounds."""
    chosen: PlanResult
    """The run of the whole recommendation: the figures that its config file gives again."""
    pools: Sequence[PoolChoice]
    rivals: Sequence[Rival]
    """The best of each other kind, in all pools alike, the best first."""
    block: str
    """'week' or 'day'; empty where the trace is too short for blocks."""
    unseen: OutOfSample | None
    """None where the trace is too short."""
    seeds: Mapping[int, PlanResult]
    """The recommendation on synthetic traces of other seeds."""
    what_if: Sequence[PlanResult]
    """The recommendation with fewer, as many and more nodes."""
    price_list: Sequence[PriceRow]
    """The trace's own guarantee first."""
    others: Sequence[PlanResult]
    """Runs of rivals on other seeds."""

    @property
    def meets(self) -> bool:
        """Whether the recommendation keeps all targets, over the whole cluster."""
        return all_met(self.request.targets, self.chosen.sums)

    @property
    def evidence(self) -> Sequence[Sums]:
        """The blocks that say how sure the figures are: other seeds, or stretches of the trace."""
        return [result.sums for result in self.seeds.values()] or self.chosen.blocks

    def interval(self, figure: str) -> Interval | None:
        """A figure of the recommendation with its interval."""
        return interval(self.evidence, lambda sums: figure_of(figure, sums))

    @property
    def alike(self) -> bool:
        """Whether everything that was tried came to the same waits and evictions."""
        return len({(r.sums.spot_wait, r.sums.evictions) for r in self.results if not r.error}) == 1

    def sells(self, result: PlanResult) -> bool:
        """Within the targets, with a mean wait below the limit, and there is something to sell."""
        return sells(self.request, result)

    def runs(self) -> list[PlanResult]:
        """Every run once."""
        listed = [result for row in self.price_list for result in row.results]
        every = [*self.results, *self.what_if, *listed, *self.seeds.values(), *self.others]
        return list({result.run: result for result in every}.values())


def sells(request: PlanRequest, result: PlanResult) -> bool:
    """Whether its spot work can be sold."""
    if result.error or not result.has_spot:
        return False
    return all_met(request.targets, result.sums) and result.sums.spot_wait <= request.max_wait


def capacity_plan(request: PlanRequest, compute: Compute) -> CapacityPlan:
    """Simulate what has to be known, round by round, and draw the conclusions."""
    search = _Search(request, compute)
    search.try_rows(request.first_rows())
    for number, most in enumerate(request.near):
        search.refine(most, families=len(request.near) - number + 1)
    best = search.best()
    chosen = search.whole(best)
    edges = _edges(request)
    uniform = search.uniform()
    others = [c for f, c in best_of_families(uniform, request.targets).items() if f not in _families(best)]
    seeds, unlike = _on_other_seeds(request, compute, chosen, others[: request.rivals])
    if seeds:
        evidence = [result.sums for result in seeds.values()]
        compared = {c: [result.sums for result in found] for c, found in unlike.items()}
    else:
        evidence, compared = chosen.blocks, {candidate: list(uniform[candidate]) for candidate in others}
    return CapacityPlan(
        request=request,
        results=search.results,
        chosen=chosen,
        pools=[search.choice(pool, dict(best)[pool.gpu_model], chosen) for pool in request.pools],
        rivals=rivals(evidence, compared, {c: total(uniform[c]) for c in others}, request.targets),
        block=block_name(edges),
        unseen=_unseen(request, search, chosen, seeds, edges),
        seeds=seeds,
        what_if=_other_nodes(request, compute, chosen),
        price_list=_price_list(request, compute, chosen),
        others=[result for found in unlike.values() for result in found],
    )


class _Search:
    """What was tried in every pool so far."""

    def __init__(self, request: PlanRequest, compute: Compute) -> None:
        self.request, self._compute = request, compute
        self.results: list[PlanResult] = []
        self.tried: dict[str, dict[Candidate, Sequence[Sums]]] = {pool.gpu_model: {} for pool in request.pools}

    def try_rows(self, rows: Iterable[Assignment]) -> None:
        """Run every row; a candidate that was tried in a pool before keeps its first result."""
        found = compute_results(self._compute, [(row, self.request.run(row)) for row in rows])
        self.results += found
        for result in found:
            for model, candidate in result.assignment if not result.error else ():
                self.tried[model].setdefault(candidate, result.pools[model])
        if not any(self.tried.values()):
            raise InputError(f"no setting could be simulated: {self.results[0].error}")

    def refine(self, most: int, families: int) -> None:
        """A round around the best: each pool proposes its own, and one run tries a proposal of every pool."""
        proposals = []
        for pool in self.request.pools:
            tried = self.tried[pool.gpu_model]
            best = list(best_of_families(tried, self.request.targets).values())[:families]
            near = [self.request.space.near(one, list(tried), pool.least_share) for one in best]
            turns = [candidate for turn in zip_longest(*near) for candidate in turn if candidate is not None]
            proposals.append(list(dict.fromkeys(turns))[:most])
        stay = dict(self.best())
        rows = []
        for row in zip_longest(*proposals):
            models = [pool.gpu_model for pool in self.request.pools]
            rows.append(tuple((model, one or stay[model]) for model, one in zip(models, row, strict=True)))
        if rows:
            self.try_rows(rows)

    def best(self, part: Callable[[Sequence[Sums]], Sequence[Sums]] = lambda blocks: blocks) -> Assignment:
        """The best of every pool; `part` picks the blocks by which to judge."""
        targets = self.request.targets
        return tuple((p.gpu_model, choose(self.tried[p.gpu_model], targets, part)) for p in self.request.pools)

    def whole(self, assignment: Assignment) -> PlanResult:
        """The run in which every pool has its own: one that was made, or now. Forecasters of pools learn together."""
        made = next((r for r in self.results if r.assignment == assignment and not r.error), None)
        if made is None:
            (made,) = compute_results(self._compute, [(assignment, self.request.run(assignment))])
            if made.error:
                raise InputError(f"the recommendation cannot be run: {made.error}")
            self.results.append(made)
        return made

    def uniform(self) -> dict[Candidate, Sequence[Sums]]:
        """What was tried in all pools alike, with the blocks of the whole cluster.

        A share that some pool cannot have, because a task there needs more, stands for the row in which it has more.
        """
        if len(self.request.pools) == 1:
            return dict(self.tried[self.request.pools[0].gpu_model])
        first = len(self.request.first_rows())
        return {min((c for _, c in r.assignment), key=_number): r.blocks for r in self.results[:first] if not r.error}

    def choice(self, pool: PoolFacts, candidate: Candidate, chosen: PlanResult) -> PoolChoice:
        """What came out for one pool."""
        tried = self.tried[pool.gpu_model]
        every = [total(blocks) for blocks in tried.values()]
        at_odds = conflict(self.request.targets, every)
        return PoolChoice(pool, candidate, tried, total(chosen.pools[pool.gpu_model]), at_odds)


def _number(candidate: Candidate) -> float:
    return candidate.number or 0.0


def _families(assignment: Assignment) -> set[Any]:
    """The one family of a recommendation that is the same everywhere; of others none is left out."""
    found = {candidate.family for _, candidate in assignment}
    return found if len(found) == 1 else set()


def compute_results(compute: Compute, pairs: Sequence[tuple[Assignment, PlanRun]]) -> list[PlanResult]:
    """The results of these runs."""
    figures, errors = compute([run for _, run in pairs])
    found = []
    for assignment, run in pairs:
        numbers = dict(figures.get(run, {}))
        pools = from_json(numbers.pop("pools", {}))
        by = numbers.pop("by", None)
        groups = None if by is None else Breakdown.from_dict(by)
        found.append(PlanResult(assignment, run, numbers, pools, errors.get(run, ""), groups))
    return found


def _edges(request: PlanRequest) -> list[float]:
    first, span = tasks_span(request.run(request.first_rows()[0]).workload())
    return block_edges(first, first + span)


def _on_other_seeds(
    request: PlanRequest, compute: Compute, chosen: PlanResult, others: Sequence[Candidate]
) -> tuple[dict[int, PlanResult], dict[Candidate, list[PlanResult]]]:
    """The recommendation, and its rivals, on other synthetic traces; what failed on one of them is left out."""
    if not request.other_seeds:
        return {}, {}
    everywhere = {c: tuple((pool.gpu_model, raised(c, pool)) for pool in request.pools) for c in others}
    asked = [chosen.assignment, *everywhere.values()]
    pairs = [(row, request.run(row, seed=seed)) for row in asked for seed in request.other_seeds]
    found = compute_results(compute, pairs)
    count = len(request.other_seeds)
    groups = [found[i : i + count] for i in range(0, len(found), count)]
    whole = {c: group for c, group in zip(others, groups[1:], strict=True) if not any(r.error for r in group)}
    if any(result.error for result in groups[0]):
        return {}, {}
    return dict(zip(request.other_seeds, groups[0], strict=True)), whole


def raised(candidate: Candidate, pool: PoolFacts) -> Candidate:
    """As this pool can have it: no fixed quota below its largest spot task."""
    if candidate.quota_share is None or candidate.quota_share >= pool.least_share:
        return candidate
    return Candidate(candidate.scheduler, candidate.quota, quota_share=pool.least_share)


def _unseen(
    request: PlanRequest, search: _Search, chosen: PlanResult, seeds: Mapping[int, PlanResult], edges: Sequence[float]
) -> OutOfSample | None:
    """Chosen on the first half of the blocks and reported on the rest; of a synthetic trace, on other seeds."""
    if seeds:
        named = f"{len(seeds)} other seeds"
        blocks = [result.sums for result in seeds.values()]
        return OutOfSample(chosen.assignment, f"seed {request.seed}", named, chosen.sums, blocks)
    if len(edges) < LEAST_BLOCKS:
        return None
    half, unit = len(edges) // 2, block_name(edges)
    then = search.best(lambda blocks: blocks[:half])
    parts = [search.tried[model][candidate] for model, candidate in then]
    every = [total(together) for together in zip(*parts, strict=True)]
    rest = len(edges) - half
    return OutOfSample(then, f"the first {half} {unit}s", f"the other {rest}", total(every[:half]), every[half:])


def _other_nodes(request: PlanRequest, compute: Compute, chosen: PlanResult) -> list[PlanResult]:
    shares = request.other_shares()
    pairs = [(chosen.assignment, request.run(chosen.assignment, node_share=share)) for share in shares]
    return sorted([chosen, *compute_results(compute, pairs)], key=lambda result: result.run.node_share)


def _price_list(request: PlanRequest, compute: Compute, chosen: PlanResult) -> list[PriceRow]:
    """The trace's own guarantee with other amounts of spot work, then others at the most that can be sold with it."""
    first = request.other_scales(scales.first_scales(sells(request, chosen), request.quick), tried=[1.0])
    found = [chosen, *_scaled(request, compute, chosen, first)]
    tried = {result.run.spot_scale: sells(request, result) for result in found}
    last = None if request.quick else scales.last_scale(tried)
    if last is not None and request.other_scales([last], tried):
        found += _scaled(request, compute, chosen, [last])
    own = _price_row(request, None, found)
    most = own.sold.run.spot_scale if own.sold else min(tried)
    amounts = [1.0, *request.other_scales([most], tried=[1.0])]
    pairs = [(hours, scale) for hours in request.listed for scale in amounts]
    runs = [request.run(chosen.assignment, spot_scale=scale, guarantee=hours) for hours, scale in pairs]
    listed = compute_results(compute, [(chosen.assignment, run) for run in runs])
    by_hours = {hours: [result for result in listed if result.run.guarantee == hours] for hours in request.listed}
    return [own, *(_price_row(request, hours, results) for hours, results in by_hours.items())]


def _scaled(request: PlanRequest, compute: Compute, chosen: PlanResult, wanted: Sequence[float]) -> list[PlanResult]:
    pairs = [(chosen.assignment, request.run(chosen.assignment, spot_scale=scale)) for scale in wanted]
    return compute_results(compute, pairs)


def _price_row(request: PlanRequest, hours: float | None, results: Sequence[PlanResult]) -> PriceRow:
    by_scale = sorted(results, key=lambda result: result.run.spot_scale)
    largest = scales.largest_scale({result.run.spot_scale: sells(request, result) for result in by_scale})
    return PriceRow(hours, by_scale, next((r for r in by_scale if r.run.spot_scale == largest), None))
