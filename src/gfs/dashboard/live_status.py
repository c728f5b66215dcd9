"""How a replica and its pools stand now, as `/api/v1/status` says it."""

from __future__ import annotations

import msgspec

from gfs.core.scheduler import PoolScheduler
from gfs.dashboard.api import GpuCounts, KeptNode, OrganizationForecast, PoolStatus, QuotaRow, Status, TaskCounts
from gfs.domain.task import Priority
from gfs.live.controller import Controller
from gfs.live.figures import refused_pods, tasks_of
from gfs.live.learning import caution, demand_hours, forecaster_of
from gfs.live.service import Service


def live_status(service: Service, title: str, first: float | None) -> Status:
    """Returns the status of a replica. `first`: the first second that is recorded."""
    controller = service.controller
    now = controller.now if controller is not None else 0.0
    about = Status(
        title=title,
        live=True,
        time=now,
        begin=0,
        first=now if first is None else first,
        last=now,
        pools=[],
        identity=service.identity,
        leads=controller is not None,
        leader=service.leading,
        history=service.history,
    )
    if controller is None:
        return about
    return msgspec.structs.replace(
        about,
        pools=[_pool(service, controller, *each) for each in sorted(controller.scheduler.pools.items())],
        shadow=controller.shadow.summary() if controller.shadow is not None else None,
        refused=refused_pods(controller),
        training=service.trainer.under_way,
    )


def _pool(service: Service, controller: Controller, model: str, pool: PoolScheduler) -> PoolStatus:
    state, policy, quota = pool.state, pool.policy, pool.policy.quota
    (hp, hp_waiting), (spot, spot_waiting) = tasks_of(state, Priority.HP), tasks_of(state, Priority.SPOT)
    planned = [each.task for each in controller.book.planned]
    reserved = sum(task.gpus for task in planned if task is not None and task.gpu_model == model)
    closed = [node for node in state.nodes if node.closed]
    held_closed = sum(
        pods * role.cards for run in state.runs.values() for node, role, pods, _ in run.places if node.closed
    )
    kept = policy.kept_from_spot()
    forecast = quota.organization_demand()
    name_of = service.recorder.name_of
    return PoolStatus(
        pool=model,
        nodes=len(state.nodes),
        closed=len(closed),
        gpus=GpuCounts(
            total=sum(node.spec.gpus for node in state.nodes),
            hp=sum(task.gpus for task in hp) - reserved,  # to the core, what a run will hold is held
            spot=sum(task.gpus for task in spot),
            reserved=reserved,
            idle=state.pool.idle,
            closed=sum(node.spec.gpus for node in closed) - held_closed,
            kept_from_spot=sum(node.idle for node in kept if not node.closed),
        ),
        tasks={"HP": TaskCounts(len(hp), hp_waiting), "Spot": TaskCounts(len(spot), spot_waiting)},
        quota=[QuotaRow(row.guarantee_hours, row.quota, quota.why(row.guarantee_hours)) for row in quota.rows()],
        forecaster=forecaster_of(pool),
        demand_hours=demand_hours(pool) or 0.0,
        caution=caution(pool, service.options.parameters.history_hours),
        kept_from_spot=[KeptNode(node.name, name_of(task) if task is not None else "") for node, task in kept.items()],
        organizations=[OrganizationForecast(*row) for row in forecast],
    )
