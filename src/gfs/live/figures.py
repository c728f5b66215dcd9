"""Figures of a running controller for /metrics and /api/v1/status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gfs.core.ports import ForecastsOrganizations, KeepsFromSpot
from gfs.core.scheduler import PoolScheduler
from gfs.domain.task import Priority
from gfs.domain.units import HOUR, MICRO
from gfs.live.controller import Controller
from gfs.live.learning import caution, demand_hours, forecaster_of
from gfs.live.observe import REFUSED
from gfs.live.service import Service
from gfs.live.translate.pods import CLAIMS


class Figures(Collector):
    """Reads the figures from the service at each scrape. The number of series follows the number of pools."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def text(self) -> bytes:
        """Returns all metrics as Prometheus reads them."""
        return bytes(generate_latest(self))

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        service, controller = self._service, self._service.controller
        yield Gauge("gfs_leader", "1 if this replica decides.", float(service.leads()))
        if service.api is not None:
            yield Counter("gfs_api_requests", "Requests sent to the API server.", service.api.requests)
            yield Counter("gfs_api_problems", "Requests refused or without answer.", service.api.problems)
        if controller is None:
            return
        binder, evictor, now = controller.binder, controller.evictor, controller.now
        yield Counter("gfs_decisions", "Instants that were decided.", controller.decisions)
        yield Counter("gfs_decision_seconds", "Seconds spent deciding.", controller.decision_seconds)
        longest = "The longest instant: nothing else is done while it lasts."
        yield Gauge("gfs_longest_step_seconds", longest, controller.longest_step)
        yield Counter("gfs_pods_bound", "Pods bound.", binder.bound)
        yield Counter("gfs_bindings_refused", "Bindings that did not come about.", binder.refused)
        yield Counter("gfs_pods_evicted", "Spot pods evicted.", evictor.evicted)
        yield Counter("gfs_messages_sent", "Conditions and events written.", controller.pod_events.sent)
        yield Gauge("gfs_hanging_victims", "Evicted pods that do not go away.", len(controller.overlay.hanging()))
        yield Gauge("gfs_refused_pods", "Pods that are refused.", _refused(controller))
        yield Gauge("gfs_last_decision_timestamp_seconds", "When something was last decided.", now)
        doubted = Counter("gfs_claims_not_believed", "Claims of pods not believed.", labels=["claim"])
        for claim in CLAIMS:
            doubted.add_metric([claim], controller.claims.doubted[claim])
        yield doubted
        yield Counter("gfs_forecaster_fits", "Models that were trained.", service.trainer.fits)
        yield Counter("gfs_forecaster_failures", "Trainings that failed.", service.trainer.failures)
        newest = "When the newest model was asked for; 0: there is none."
        yield Gauge("gfs_forecaster_last_fit_timestamp_seconds", newest, service.trainer.last_fit)
        silence = "Since when the watch that is silent longest has heard nothing."
        yield Gauge("gfs_watch_silence_seconds", silence, service.reflectors.silence())
        promise = "Share of guarantees that is promised to be kept."
        yield Gauge("gfs_promise", promise, service.options.parameters.p)
        yield from self._pools(controller)

    def _pools(self, controller: Controller) -> Iterator[Metric]:
        kept = "Spot runs that had their guaranteed hours, or not."
        guarantees = Counter("gfs_guarantees", kept, labels=["pool", "outcome"])
        gpus = Gauge("gfs_gpus", "GPUs by who holds them.", labels=["pool", "state"])
        tasks = Gauge("gfs_tasks", "Tasks that run or wait.", labels=["pool", "class", "state"])
        quota = Gauge("gfs_spot_quota_gpus", "Spot quota.", labels=["pool", "guarantee_hours"])
        cautious = Gauge("gfs_quota_cautious", "1 if the quota follows no forecast yet.", labels=["pool"])
        known = Gauge("gfs_demand_history_seconds", "How long demand is known.", labels=["pool"])
        for name, scheduler in sorted(controller.scheduler.pools.items()):
            pool, ended = self._pool(controller, name, scheduler), scheduler.state.ledger.counts(0.0, controller.now)
            guarantees.add_metric([name, "kept"], ended.kept)
            guarantees.add_metric([name, "broken"], ended.broken)
            cautious.add_metric([name], float(bool(pool["caution"])))
            known.add_metric([name], pool["demand_hours"] * HOUR)
            for state in ("total", "idle", "hp", "spot"):
                gpus.add_metric([name, state], pool["gpus"][state])
            for label, counts in pool["tasks"].items():
                for state, count in counts.items():
                    tasks.add_metric([name, label, state], count)
            for row in pool["quota"]:
                quota.add_metric([name, f"{row['guarantee_hours']:g}"], row["quota"])
        yield from (guarantees, gpus, tasks, quota, cautious, known)

    def status(self) -> dict[str, Any]:
        """Returns how this replica and every pool stand."""
        service, controller = self._service, self._service.controller
        shadow, pools = None, list[dict[str, Any]]()
        if controller is not None:
            shadow = controller.shadow
            pools = [self._pool(controller, *each) for each in sorted(controller.scheduler.pools.items())]
        return {
            "identity": service.identity,
            "leads": service.leads(),
            "leader": service.leading,
            "shadow": shadow.summary() if shadow is not None else None,
            "refused": _refused(controller) if controller is not None else 0,
            "training": service.trainer.under_way if controller is not None else 0,
            "history": service.history,
            "pools": pools,
        }

    def _pool(self, controller: Controller, model: str, scheduler: PoolScheduler) -> dict[str, Any]:
        state, policy, quota = scheduler.state, scheduler.policy, scheduler.policy.quota
        tasks: dict[str, dict[str, int]] = {}
        held: dict[Priority, int] = {}
        for each in Priority:
            running = [run.task for run in state.runs.values() if run.task.priority is each]
            waiting = sum(waiting.task.priority is each for waiting in state.waiting.values())
            tasks[each.label] = {"running": len(running), "waiting": waiting}
            held[each] = sum(task.micro // MICRO for task in running)
        planned = [task.task for task in controller.book.planned]
        closed = [node for node in state.nodes if node.closed]
        held_closed = sum(gpus for run in state.runs.values() for node, _, gpus in run.places if node.closed)
        kept = policy.kept_from_spot() if isinstance(policy, KeepsFromSpot) else {}
        forecast = quota.organization_demand() if isinstance(quota, ForecastsOrganizations) else ()
        name_of, least_hours = self._service.recorder.name_of, self._service.options.parameters.history_hours
        return {
            "pool": model,
            "nodes": len(state.nodes),
            "closed": len(closed),
            "gpus": {
                "total": sum(node.spec.gpus for node in state.nodes),
                "idle": state.pool.idle,
                "hp": held[Priority.HP],
                "spot": held[Priority.SPOT],
                "reserved": sum(task.gpus for task in planned if task is not None and task.gpu_model == model),
                "closed": sum(node.spec.gpus for node in closed) - held_closed,
                "kept_from_spot": sum(node.idle for node in kept if not node.closed),
            },
            "tasks": tasks,
            "quota": [
                {"guarantee_hours": row.guarantee_hours, "quota": row.quota, "why": quota.why(row.guarantee_hours)}
                for row in quota.rows()
            ],
            "forecaster": forecaster_of(scheduler),
            "demand_hours": demand_hours(scheduler) or 0.0,
            "caution": caution(scheduler, least_hours),
            "kept_from_spot": [
                {"node": node.name, "reserved_for": name_of(task) if task is not None else ""}
                for node, task in kept.items()
            ],
            "organizations": [row._asdict() for row in forecast],
        }


def _refused(controller: Controller) -> int:
    return sum(waits.reason == REFUSED for waits in controller.book.waits.values())
