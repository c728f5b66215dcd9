"""The presets of the generator: published figures (`calibration.json`), and choices where nothing is published, each
with its reason (`presets.toml`).

`demo` has the paper's mix, density of tasks and load at spot x2 on 64 nodes. Its longest tasks last days instead of
months, so that two weeks show everything, and no gang exceeds an eighth of the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import getitem

from gfs.domain.errors import InputError
from gfs.domain.task import Priority
from gfs.domain.text import suggestion
from gfs.domain.units import HOUR
from gfs.workloads.calibration import choices, figures
from gfs.workloads.durations import Quantiles, top_for_mean, with_mean
from gfs.workloads.owners import Organization
from gfs.workloads.requests import RequestMix

_THREE_DAYS = 259_200.0
_A100 = "A100-SXM4-80GB"


@dataclass(frozen=True, slots=True)
class LongPlan:
    """The longest tasks of a class, those beyond its last published quantile."""

    share_of_tasks: float
    shortest: float
    mean: float | None
    """Mean seconds; None: what the load of the pool asks for."""
    share_of_gpu_time: float


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """The HP or the spot tasks of a pool."""

    count: int
    """Tasks in the days and on the nodes of the preset."""
    mix: RequestMix
    durations: Quantiles
    """Running times of all but the long tasks."""
    long: LongPlan | None = None
    load: float | None = None
    """GPU-seconds asked for inside the window / GPU-seconds there are; None: as it falls out."""
    closing_share: float = 0.0
    """Of the tasks of some hours, those that end before 23:00."""


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """One GPU model: its nodes and its two classes of work."""

    gpu_model: str
    groups: tuple[tuple[int, int], ...]
    """(nodes, cards a node)"""
    cpus: int
    organizations: Mapping[str, Organization]
    hp: ClassPlan
    spot: ClassPlan
    weeks: tuple[float, ...] = (1.0,)
    """Level of demand, at equal distances over the days of the preset."""

    @property
    def cards(self) -> int:
        """Cards of all its nodes."""
        return sum(nodes * gpus for nodes, gpus in self.groups)


@dataclass(frozen=True, slots=True)
class Preset:
    """A cluster and its workload, before scaling."""

    name: str
    description: str
    days: float
    pools: tuple[PoolPlan, ...]


def paper() -> Preset:
    """The cluster the paper simulates."""
    facts = figures()["paper_simulation"]
    pool = _paper_pool(facts["gpu_model"], facts["nodes"], facts["tasks"]["HP"], facts["tasks"]["Spot"])
    description = "the cluster the paper simulates: 287 x 8 A100, 91 days, 165,038 tasks"
    return Preset("paper", description, facts["days"], (pool,))


def fleet() -> Preset:
    """As large as clusters get: four pools like the paper's one. No gang exceeds a thirty-second of its pool."""
    facts = figures()["paper_simulation"]
    hp_share = facts["tasks"]["HP"] / (facts["tasks"]["HP"] + facts["tasks"]["Spot"])
    pools = []
    for model, nodes in (("A100", 5000), ("A800", 2500), ("H800", 2500), ("H20", 2500)):
        tasks = 2_000_000 * nodes // 12_500
        pools.append(_paper_pool(model, nodes, round(tasks * hp_share), tasks - round(tasks * hp_share), 1 / 32))
    return Preset("fleet", "100,000 cards in four pools, 28 days, 2,000,000 tasks", 28, tuple(pools))


def _paper_pool(model: str, nodes: int, hp_tasks: int, spot_tasks: int, gang_limit: float | None = None) -> PoolPlan:
    """A pool with the mix, the running times and the load of the one that the paper simulates."""
    facts = figures()["paper_simulation"]
    body = _hp_body(facts["duration_seconds"]["HP"]["p99"], 0.99)
    long_mean = (facts["duration_seconds"]["HP"]["mean"] - 0.99 * body.mean()) / 0.01
    load = facts["offered_load"]
    long = LongPlan(0.01, body.seconds[-1], long_mean, _long_share_of_gpu_time(body.seconds[-1], long_mean))
    return PoolPlan(
        model,
        ((nodes, facts["gpus_per_node"]),),
        128,
        _organizations(_A100),
        ClassPlan(
            hp_tasks, _a100_mix(Priority.HP, gang_limit), body, long, load["HP"], choices()["closing_share"][_A100]
        ),
        ClassPlan(spot_tasks, _a100_mix(Priority.SPOT, gang_limit), _spot_durations(), load=load["Spot"]),
        _weeks(_A100)[:13],
    )


def demo() -> Preset:
    """Small enough to be simulated in about a second."""
    load = figures()["paper_simulation"]["offered_load"]
    body = _hp_body(figures()["paper_simulation"]["duration_seconds"]["HP"]["p99"], 0.98)
    long = LongPlan(0.02, body.seconds[-1], 400_000.0, 0.75)
    hp = ClassPlan(4_750, _a100_mix(Priority.HP, 1 / 8), body, long, load["HP"], choices()["closing_share"][_A100])
    spot = ClassPlan(1_830, _a100_mix(Priority.SPOT, 1 / 8), _spot_durations(), load=2 * load["Spot"])
    organizations = dict(list(_organizations(_A100).items())[:8])
    pool = PoolPlan("A100", ((64, 8),), 128, organizations, hp, spot)
    return Preset("demo", "a small busy cluster: 64 x 8 A100, 14 days, 6,580 tasks", 14, (pool,))


def production() -> Preset:
    """All six pools of the published node list."""
    days = 28
    totals, rates = figures()["trace_totals"], figures()["allocation_rate_before"]["rate"]
    spot_share = totals["jobs"]["Spot"] / (totals["jobs"]["HP"] + totals["jobs"]["Spot"])
    p90 = figures()["durations"]["p90_seconds"]["HP"]
    pools = []
    for model, groups in figures()["nodes"]["groups"].items():
        hp_mix, spot_mix = _production_mix(model)
        jobs = totals["jobs_by_model"][model] * days / totals["days"]
        load = rates.get(model, totals["demand_over_capacity_by_model"][model])
        long_share = choices()["long_share"].get(model)
        body = _hp_body(p90, 0.856) if long_share is None else _hp_body(14 * HOUR, 0.95)
        long = LongPlan(1 - body.shares[-1], body.seconds[-1], None, long_share or 0.95)
        pools.append(
            PoolPlan(
                model,
                tuple((nodes, gpus) for nodes, gpus in groups),
                figures()["nodes"]["cpus"][model],
                _organizations(model),
                ClassPlan(round(jobs * (1 - spot_share)), hp_mix, body, long, load, choices()["closing_share"][model]),
                ClassPlan(round(jobs * spot_share), spot_mix, _spot_durations()),
                _weeks(model)[-4:],
            )
        )
    description = "the six GPU pools of the published node list: 10,412 cards, 28 days"
    return Preset("production", description, days, tuple(pools))


def _hp_body(last_seconds: float, last_share: float) -> Quantiles:
    """HP running times up to the last published quantile."""
    published = figures()["durations"]
    below = published["share_of_jobs_below_seconds"]
    knots = [(0.0, 5.0), (below["60"], 60.0), (below["600"], 600.0), (0.5, published["median_seconds"]["HP"])]
    knots += [(below["3600"], 3600.0), (last_share, last_seconds)]
    return Quantiles(tuple(share for share, _ in knots), tuple(float(seconds) for _, seconds in knots))


def _spot_durations() -> Quantiles:
    """Spot running times: median and 90th percentile of the trace, mean of the paper."""
    published = figures()["durations"]
    mean = figures()["paper_simulation"]["duration_seconds"]["Spot"]["mean"]
    knots = (10.0, float(published["median_seconds"]["Spot"]), float(published["p90_seconds"]["Spot"]))
    return with_mean((0.0, 0.5, 0.9), knots, mean)


def _long_share_of_gpu_time(shortest: float, mean: float) -> float:
    """GPU time of the tasks beyond p99, so that those over three days hold the published share."""
    longest = top_for_mean(shortest, mean)
    over_three_days: float = figures()["durations"]["share_of_gpu_time_over_three_days"]
    return over_three_days * (longest - shortest) / (longest - _THREE_DAYS)


def _a100_mix(priority: Priority, gang_limit: float | None = None) -> RequestMix:
    """The request mix of the paper's table; gangs up to a share of the pool."""
    percent = figures()["paper_simulation"]["request_mix_percent"][priority.label]
    sizes = {size: percent[f"{size:g}"] for size in (1.0, 2.0, 4.0, 8.0)}
    sizes[0.25] = sizes[0.5] = percent["<1"] / 2
    largest = 1 / 8 if priority is Priority.SPOT else figures()["gangs"]["largest_share"][_A100]
    mean = figures()["trace_totals"]["gpus_per_job_by_model"][_A100]
    return RequestMix(sizes, percent["gang"] / 100, _by_gpus("gangs", priority.label), gang_limit or largest, mean)


def _production_mix(model: str) -> tuple[RequestMix, RequestMix]:
    """Request mixes of a pool of the published cluster, (HP, spot)."""
    if model == _A100:
        return _a100_mix(Priority.HP), _a100_mix(Priority.SPOT)
    chosen, mean = choices()["mixes"][model], figures()["trace_totals"]["gpus_per_job_by_model"][model]
    largest = figures()["gangs"]["largest_share"].get(model, 1 / 4)
    gangs = _by_gpus("gangs", chosen["gangs"])
    mix = RequestMix(_by_gpus("mixes", model, "sizes"), chosen["gang_share"], gangs, largest, mean)
    return mix, replace(mix, gang_limit=min(mix.gang_limit, 1 / 4))


def _by_gpus(*path: str) -> dict[float, float]:
    """A table of shares by GPUs a pod among the choices."""
    return {float(gpus): share for gpus, share in reduce(getitem, path, choices()).items()}


def _weeks(model: str) -> tuple[float, ...]:
    """The published level of demand, week by week."""
    return tuple(figures()["weeks"]["level"][model])


def _organizations(model: str) -> dict[str, Organization]:
    """Organizations of a model, the largest first."""
    published = figures()["organizations"]
    return {
        f"org-{name}": Organization(share, published["gpus_per_job"][name], published["seconds_per_gpu"][name])
        for name, share in published["share_by_model"][model].items()
    }


_BUILDERS = {"demo": demo, "paper": paper, "production": production, "fleet": fleet}

PRESETS: dict[str, str] = {name: build().description for name, build in _BUILDERS.items()}
"""The presets by name, each with a line on what it is."""


@cache
def preset_named(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}: {suggestion(name, PRESETS)}")
    return _BUILDERS[name]()
