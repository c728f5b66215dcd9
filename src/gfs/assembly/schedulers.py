"""The schedulers by name, and how one is built for a cluster (SPEC 6)."""

from __future__ import annotations

from difflib import get_close_matches
from math import ceil, inf

from gfs.assembly.compositions import BUILT_IN
from gfs.assembly.context import Context
from gfs.assembly.parameters import Parameters
from gfs.assembly.recipes import Recipe
from gfs.core.ledger import GuaranteeLedger
from gfs.core.pool import Pool
from gfs.core.scheduler import Scheduler, TickObserver
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Kind
from gfs.domain.units import HOUR, format_gpus
from gfs.domain.workload import Workload

SCHEDULERS: dict[str, Recipe] = {recipe.name: recipe for recipe in BUILT_IN}
"""The schedulers that come with GFS, by name."""


def find_scheduler(name: str) -> Recipe:
    """The recipe with this name; an unknown name gets the closest ones suggested."""
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
    recipe = find_scheduler(name)
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
        policies[model] = recipe.build(context)
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
