"""The schedulers there are, each a composition of parts (SPEC 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil, inf

from gfs.assembly.parameters import Parameters
from gfs.core.ledger import GuaranteeLedger
from gfs.core.pool import Pool
from gfs.core.ports import Placer, Policy, Preemptor, Queue, Quota
from gfs.core.scheduler import Scheduler, TickObserver
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Kind
from gfs.domain.units import HOUR, format_gpus
from gfs.domain.workload import Workload
from gfs.policies.first_node import FirstNodePreemptor
from gfs.policies.fit import best_fit, first_fit
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.gfs.scoring import GfsPlacer
from gfs.policies.greedy import GreedyPolicy
from gfs.policies.queues import FcfsQueue, HeadBlockingQueue, SizedQueue
from gfs.quota.fixed import FixedQuota
from gfs.quota.unlimited import UnlimitedQuota


@dataclass(frozen=True, slots=True)
class Context:
    """What the parts of one pool's scheduler are made from."""

    pool: Pool
    ledger: GuaranteeLedger
    parameters: Parameters
    period: float
    """Seconds under evaluation: the T of the preemption cost."""
    guarantees: tuple[float, ...]
    """The guarantee lengths in hours that occur."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A scheduler by name: which parts it is put together from."""

    name: str
    summary: str
    queue: Callable[[], Queue]
    placer: Callable[[Context], Placer]
    preemptor: Callable[[Context], Preemptor]
    quota: str
    """The quota it has unless another one is asked for."""

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool."""
        return GreedyPolicy(
            context.pool,
            hp_queue=self.queue(),
            spot_queue=self.queue(),
            placer=self.placer(context),
            preemptor=self.preemptor(context),
            quota=_QUOTAS[context.parameters.quota or self.quota](context),
            ledger=context.ledger,
            rules=context.parameters.rules,
        )


def _gfs_placer(context: Context) -> Placer:
    return GfsPlacer(context.pool, gamma=context.parameters.gamma, m=context.parameters.m)


def _gfs_preemptor(context: Context) -> Preemptor:
    return GfsPreemptor(
        context.pool,
        context.ledger,
        rules=context.parameters.rules,
        beta=context.parameters.beta,
        period=context.period,
    )


def _fixed_quota(context: Context) -> Quota:
    return FixedQuota(context.pool, context.parameters.quota_share, context.guarantees)


_QUOTAS: dict[str, Callable[[Context], Quota]] = {
    "none": lambda context: UnlimitedQuota(),
    "fixed": _fixed_quota,
}

SCHEDULERS: dict[str, Composition] = {
    composition.name: composition
    for composition in (
        Composition(
            "gfs",
            "the paper's scheduler: packs, keeps classes together, evicts where least work is lost",
            queue=SizedQueue,
            placer=_gfs_placer,
            preemptor=_gfs_preemptor,
            quota="none",
        ),
        Composition(
            "static",
            "before GFS: fixed spot quota, first come first served, first fit",
            queue=FcfsQueue,
            placer=lambda context: first_fit(context.pool),
            preemptor=lambda context: FirstNodePreemptor(context.pool),
            quota="fixed",
        ),
        Composition(
            "yarn-cs",
            "YARN's capacity scheduler: strict order of arrival, best fit, plain preemption",
            queue=HeadBlockingQueue,
            placer=lambda context: best_fit(context.pool),
            preemptor=lambda context: FirstNodePreemptor(context.pool),
            quota="none",
        ),
    )
}


def find_scheduler(name: str) -> Composition:
    """The composition with this name; an unknown name gets the closest ones suggested."""
    if name in SCHEDULERS:
        return SCHEDULERS[name]
    close = get_close_matches(name, SCHEDULERS, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(SCHEDULERS)}"
    raise InputError(f"unknown scheduler {name!r}: {hint}")


def build_scheduler(
    name: str,
    workload: Workload,
    parameters: Parameters,
    *,
    period: float,
    check: bool = False,
    on_tick: TickObserver | None = None,
) -> Scheduler:
    """A scheduler for all pools of a cluster, ready to take events."""
    composition = find_scheduler(name)
    by_model: dict[str, list[NodeSpec]] = {}
    for node in workload.nodes:
        by_model.setdefault(node.gpu_model, []).append(node)
    check_fits_quota(name, workload, parameters)
    spot = [task for task in workload.tasks if task.kind is Kind.SPOT]
    guarantees = tuple(sorted({task.guarantee_hours for task in spot} or {parameters.guarantee_hours}))
    policies = {}
    for model, specs in by_model.items():
        pool = Pool(model, specs)
        context = Context(pool, GuaranteeLedger(), parameters, max(period, HOUR), guarantees)
        policies[model] = composition.build(context)
    return Scheduler(policies, check=check, on_tick=on_tick)


def quota_in_force(name: str, parameters: Parameters) -> str:
    """What limits spot tasks in such a run, in words: 'none' or 'fixed 35%'."""
    quota = parameters.quota or find_scheduler(name).quota
    return f"fixed {100 * parameters.quota_share:.4g}%" if quota == "fixed" else quota


def check_fits_quota(name: str, workload: Workload, parameters: Parameters) -> None:
    """A spot task larger than the whole fixed quota could never start: say so before anything runs."""
    if (parameters.quota or find_scheduler(name).quota) != "fixed":
        return
    share, capacity = parameters.quota_share, workload.capacity()
    limits = {model: round(share * cards, 6) for model, cards in capacity.items()}
    too_large = [t for t in workload.tasks if t.kind is Kind.SPOT and t.gpus > limits.get(t.gpu_model, inf)]
    if too_large:
        worst = max(too_large, key=lambda task: (task.gpus / capacity[task.gpu_model], -task.index))
        cards = capacity[worst.gpu_model]
        enough = ceil(100 * worst.gpus / cards) / 100
        raise InputError(
            f"{name} has a fixed spot quota: quota_share = {share:g} lets spot tasks hold"
            f" {format_gpus(limits[worst.gpu_model])} of {cards} cards of pool {worst.gpu_model}, but task"
            f" {worst.name} asks {format_gpus(worst.gpus)} and could never start ({len(too_large)} such tasks);"
            f" set quota=none, or quota_share to at least {enough:.2f}"
        )
