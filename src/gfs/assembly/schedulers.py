"""The schedulers by name, and how one is built for a cluster (docs/schedulers)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, inf
from typing import Any, cast

from gfs.assembly.aliases import warn_once
from gfs.assembly.compositions import BUILT_IN
from gfs.assembly.context import Context
from gfs.assembly.definitions import SchedulerDefinition
from gfs.assembly.parameters import Parameters
from gfs.assembly.plugins import as_definition, find_plugins, load_scheduler
from gfs.core.node import GPUS, SLACK
from gfs.core.pool import Pool
from gfs.core.ports import Policy, Train, train_at_once
from gfs.core.scheduler import CheckedScheduler, Scheduler, TickObserver
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Role, Task
from gfs.domain.text import suggestion
from gfs.domain.units import HOUR, format_gpus
from gfs.domain.workload import Workload
from gfs.entry_points import Offer, the_offer
from gfs.forecasting.online import PoolForecasters, Stopwatch
from gfs.forecasting.perfect import PERFECT, FutureDemand
from gfs.policies.domains import options_of
from gfs.policies.gfs.reservation import ReservationCost
from gfs.policies.placement import Chooser, best_fit

SCHEDULERS: dict[str, SchedulerDefinition] = {definition.name: definition for definition in BUILT_IN}
"""The schedulers that come with GFS, by name."""


BUILT_IN_SOURCE = "built in"


@dataclass(frozen=True, slots=True)
class SchedulerEntry:
    """A scheduler as `gfs schedulers` shows it."""

    name: str
    source: str
    """The distribution it comes from, with its version; 'built in' for ours."""
    definition: SchedulerDefinition | None
    problem: str = ""
    """Why it cannot be used, where there is no scheduler definition."""


def schedulers() -> dict[str, SchedulerDefinition]:
    """All schedulers that can be used, by name: ours, then those that installed distributions offer."""
    return {entry.name: entry.definition for entry in list_schedulers() if entry.definition is not None}


def list_schedulers() -> list[SchedulerEntry]:
    """All schedulers there are, those that cannot be used as well. This imports every plug-in."""
    plugins = find_plugins()
    ours = [SchedulerEntry(name, BUILT_IN_SOURCE, definition) for name, definition in SCHEDULERS.items()]
    return ours + [_entry(plugin, plugins) for plugin in plugins]


def find_scheduler(scheduler: str | SchedulerDefinition) -> SchedulerDefinition:
    """The definition with this name, ours or of a plug-in; a scheduler definition given as such is only checked."""
    if not isinstance(scheduler, str):
        return _checked(scheduler)
    if scheduler in SCHEDULERS:
        return SCHEDULERS[scheduler]
    plugins = find_plugins()
    offer = the_offer("scheduler", scheduler, plugins)
    if offer is None:
        names = dict.fromkeys([*SCHEDULERS, *(plugin.name for plugin in plugins)])
        raise InputError(f"unknown scheduler {scheduler!r}: {suggestion(scheduler, names)}")
    try:
        return load_scheduler(offer)
    except InputError as error:
        raise InputError(f"scheduler {scheduler!r} of {offer.source} cannot be used: {error}") from error


def is_registered(definition: SchedulerDefinition) -> bool:
    """Whether another process finds this very definition by its name."""
    try:
        return find_scheduler(definition.name) is definition
    except InputError:
        return False


def _checked(definition: SchedulerDefinition) -> SchedulerDefinition:
    try:
        as_definition(definition)
    except InputError as error:
        raise InputError(f"this scheduler cannot be used: {error}") from error
    if SCHEDULERS.get(definition.name, definition) is not definition:
        raise InputError(f"there is a built-in scheduler {definition.name!r}: give yours another name")
    return definition


def _entry(plugin: Offer, plugins: list[Offer]) -> SchedulerEntry:
    name, source = plugin.name, plugin.distribution
    if name in SCHEDULERS:
        return SchedulerEntry(name, source, None, "the built-in scheduler of this name is used instead")
    if others := [other.source for other in plugins if other.name == name and other is not plugin]:
        return SchedulerEntry(name, source, None, f"also offered by {', '.join(others)}")
    try:
        return SchedulerEntry(name, source, load_scheduler(plugin))
    except InputError as error:
        return SchedulerEntry(name, source, None, str(error))


def build_scheduler(
    scheduler: str | SchedulerDefinition,
    nodes: Iterable[NodeSpec],
    parameters: Parameters,
    *,
    period: float,
    guarantees: Iterable[float] = (),
    look_back: float = inf,
    seed: int = 0,
    check: bool = False,
    on_tick: TickObserver | None = None,
    stopwatch: Stopwatch | None = None,
    reservation_cost: ReservationCost | None = None,
    train: Train = train_at_once,
    foresight: Mapping[str, FutureDemand] | None = None,
    tell_alternatives: bool = False,
) -> Scheduler:
    """A scheduler for all pools of a cluster, ready to take events. It knows nodes, parameters and nothing else.

    `guarantees`: those on offer, in hours; by default the parameters' own. `period`: the T of the preemption cost.
    `look_back`: seconds that its F and G cover, all by default. `train`: who runs a forecaster's fit, and when.
    `foresight`: what a perfect forecast knows, for simulations with `forecaster=perfect`. `tell_alternatives`: the
    reasons of evictions say what else was weighed.
    """
    watch, cost, forecasters = stopwatch or Stopwatch(), reservation_cost or ReservationCost(), PoolForecasters()
    definition = find_scheduler(scheduler)
    check_pool_schedulers(definition, parameters)
    offered = tuple(sorted(set(guarantees) or {parameters.guarantee_hours}))
    rules = parameters.rules

    def make_state(model: str, specs: Sequence[NodeSpec]) -> PoolState:
        return PoolState(model, specs, rules=rules, look_back=look_back)

    def build(state: PoolState) -> Policy:
        state.listeners.clear()  # a policy built from it before is told, and refuses to decide
        own_definition, own = in_pool(definition, parameters, state.pool.gpu_model)
        return own_definition.build(
            Context(
                state,
                own,
                max(period, HOUR),
                offered,
                seed=seed,
                stopwatch=watch,
                reservation_cost=cost,
                train=train,
                tell_alternatives=tell_alternatives,
                foresight=foresight,
                forecasters=forecasters,
            )
        )

    return (CheckedScheduler if check else Scheduler)(nodes, make_state, build, on_tick=on_tick)


def in_pool(
    definition: SchedulerDefinition, parameters: Parameters, gpu_model: str
) -> tuple[SchedulerDefinition, Parameters]:
    """The scheduler and the parameters of one pool: its own where it has some, else those of the cluster."""
    if not parameters.pools:
        return definition, parameters
    own, scheduler = parameters.for_pool(gpu_model)
    return (find_scheduler(scheduler) if scheduler else definition), own


def check_pool_schedulers(definition: SchedulerDefinition, parameters: Parameters) -> None:
    """Raise InputError for a pool whose scheduler is not known or cannot stand beside that of the cluster."""
    for pool in parameters.pools:
        try:
            own = in_pool(definition, parameters, pool.gpu_model)[0]
        except InputError as error:
            raise InputError(f"[pools.{pool.gpu_model}] {error}") from error
        if has_leases(own) != has_leases(definition):
            raise InputError(
                f"[pools.{pool.gpu_model}] scheduler = {own.name!r} beside {definition.name!r}: tasks hold leases under"
                " one of them and are evicted under the other, so their figures do not add up; choose one kind"
            )


class _RecordedParameters:
    """Parameters that note which of them are read."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self._parameters, name)


def warn_of_idle_settings(
    schedulers: Iterable[str | SchedulerDefinition],
    nodes: Sequence[NodeSpec],
    parameters: Parameters,
    given: Iterable[str],
) -> None:
    """One line of warning about parameters that were `given` but that none of these schedulers reads.

    What a scheduler and its quota read is seen by building one for a single node: parts take their parameters then.
    """
    idle = [item.name for item in Parameters.describe() if item.name in set(given) and not item.every_run]
    definitions = [find_scheduler(scheduler) for scheduler in schedulers]
    known: Mapping[str, FutureDemand] | None = {} if parameters.forecaster == PERFECT else None
    one_node = list({node.gpu_model: node for node in nodes}.values()) if parameters.pools else nodes[:1]
    for definition, node in product(definitions, one_node) if idle else ():
        built, own = in_pool(definition, parameters, node.gpu_model)
        recorded = _RecordedParameters(own)
        build_scheduler(built, [node], cast(Parameters, recorded), period=HOUR, foresight=known)
        idle = [name for name in idle if name not in recorded.read]
    if missing := {pool.gpu_model for pool in parameters.pools} - {node.gpu_model for node in nodes}:
        warn_once(f"{', '.join(f'[pools.{name}]' for name in sorted(missing))}: no effect, there is no such pool")
    if idle:
        under = ", ".join(f"{each.name} (quota: {quota_in_force(each, parameters)})" for each in definitions)
        warn_once(f"{', '.join(idle)}: no effect under {under}; gfs parameters says what they are for")
    if parameters.country and not parameters.first_day:
        warn_once("country: no effect without first_day, the date that time 0 begins")


def has_leases(definition: SchedulerDefinition) -> bool:
    """Whether tasks hold leases: stopping at their end is then no eviction."""
    return bool(getattr(definition, "leases", False))


def quota_in_force(definition: SchedulerDefinition, parameters: Parameters) -> str:
    """What limits spot tasks in such a run, in words: 'none', 'fixed 35%' or 'adaptive; A100 (static) fixed 20%'."""
    quota = parameters.quota or definition.quota
    words = f"fixed {100 * parameters.quota_share:.4g}%" if quota == "fixed" else quota
    for pool in parameters.pools:
        own, its = in_pool(definition, parameters, pool.gpu_model)
        under = f" ({own.name})" if own.name != definition.name else ""
        words += f"; {pool.gpu_model}{under} {quota_in_force(own, its)}"
    return words


def has_quota(name: str, definition: SchedulerDefinition, parameters: Parameters) -> bool:
    """Whether any pool has this quota."""
    every = [(definition, parameters), *(in_pool(definition, parameters, pool.gpu_model) for pool in parameters.pools)]
    return any((its.quota or own.quota) == name for own, its in every)


def least_quota_share(workload: Workload, gpu_model: str | None = None) -> float:
    """The least share of a fixed quota in which every spot task (of one pool) can start, to a hundredth."""
    cards = workload.capacity()
    spot = (task for task in workload.tasks if task.is_spot and task.gpu_model in cards)
    mine = (task for task in spot if gpu_model in (None, task.gpu_model))
    return ceil(100 * max((task.gpus / cards[task.gpu_model] for task in mine), default=0.0)) / 100


def check_fits_resources(workload: Workload, parameters: Parameters) -> None:
    """A task that asks more CPUs or memory than empty nodes have could never start: say so before anything runs."""
    if parameters.resources != "on":
        return
    empty = {
        model: Pool.of(model, [node for node in workload.nodes if node.gpu_model == model])
        for model in workload.capacity()
    }
    whys: dict[Hashable, str] = {}
    too_large: list[Task] = []
    for task in workload.tasks:
        if (pool := empty.get(task.gpu_model)) is None:
            continue
        ask = (task.gpu_model, task.pods, task.gpus_per_pod, pool.demand(task))
        if ask not in whys:
            whys[ask] = _why_never(pool, task)
        if whys[ask]:
            too_large.append(task)
    if too_large:
        task = too_large[0]
        raise InputError(
            f"resources=on: task {task.name} asks {_why_never(empty[task.gpu_model], task)}{len(too_large)} such"
            " tasks); correct cpu_request or cpu_num, take these tasks out of the trace, or set resources=off"
        )


def _why_never(pool: Pool, task: Task) -> str:
    """Returns what the task asks for and an empty pool does not have, up to an open bracket; nothing if it may do."""
    if not task.topology_key:
        return _lacking(pool, task.roles)
    lacking = [_lacking(pool, roles, f" in {value}") for value, roles in options_of(pool, task).items()]
    if not lacking:
        return f"nodes with the label {task.topology_key}, of which there are none ("
    return lacking[0] if all(lacking) else ""


def _lacking(pool: Pool, roles: Sequence[Role], where: str = "") -> str:
    never = f"the empty nodes of pool {pool.gpu_model}{where}"
    role = min(roles, key=lambda each: pool.slots(each) / each.pods)
    if (slots := pool.slots(role)) < role.pods:
        more = [f"{amount:g} {name}" for name, amount in (("GiB", role.memory_per_pod), *role.resources) if amount]
        asks = " and ".join((f"{format_gpus(role.gpus_per_pod)} GPUs", f"{role.cpus_per_pod:g} CPUs", *more))
        short = Chooser(pool, best_fit(pool)).short(role)
        return (
            f"{role.pods} pods of {asks} each, of which {never} hold {slots}, so it could never start"
            f" ({short}{'; ' * bool(short)}"
        )
    if len(roles) == 1:
        return ""
    asked: dict[str, float] = {}
    for role in roles:
        for name, amount in ((GPUS, role.gpus_per_pod), *pool.requests(role)):
            asked[name] = asked.get(name, 0.0) + role.pods * amount
    nodes = dict.fromkeys(node for role in roles for node in pool.nodes_for(role))
    for name, amount in asked.items():
        has = sum(float(node.total) if name == GPUS else node.free.get(name, inf) for node in nodes)
        if has + SLACK < amount:
            words = {"cpus": "CPUs", "memory": "GiB memory"}.get(name, name)
            return f"{amount:g} {words} for all its roles, of which {never} have {has:g}, so it could never start ("
    return ""


def check_fits_quota(definition: SchedulerDefinition, workload: Workload, parameters: Parameters) -> None:
    """A spot task larger than the whole fixed quota could never start: say so before anything runs."""
    capacity = workload.capacity()
    shares: dict[str, float] = {}
    for model in capacity:
        own, its = in_pool(definition, parameters, model)
        if (its.quota or own.quota) == "fixed":
            shares[model] = its.quota_share
    limits = {model: round(share * capacity[model], 6) for model, share in shares.items()}
    too_large = [t for t in workload.tasks if t.is_spot and t.gpus > limits.get(t.gpu_model, inf)]
    if too_large:
        worst = max(too_large, key=lambda task: (task.gpus / capacity[task.gpu_model], -task.index))
        model, cards = worst.gpu_model, capacity[worst.gpu_model]
        own = in_pool(definition, parameters, model)[0]
        raise InputError(
            f"{own.name} has a fixed spot quota: quota_share = {shares[model]:g} lets spot tasks hold"
            f" {format_gpus(limits[model])} of {cards} GPUs of pool {model}, but task"
            f" {worst.name} asks {format_gpus(worst.gpus)} and could never start ({len(too_large)} such tasks);"
            f" set quota=none, or quota_share to at least {least_quota_share(workload):.2f}"
        )
