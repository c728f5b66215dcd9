"""What a running controller can be asked: figures for /metrics and /status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gfs.core.ports import ForecastsOrganizations, KeepsFromSpot
from gfs.domain.task import Priority
from gfs.domain.units import HOUR, MICRO
from gfs.live.controller import Controller
from gfs.live.learning import caution, demand_hours, forecaster_of
from gfs.live.observe import REFUSED
from gfs.live.service import Service
from gfs.live.translate.pods import CLAIMS


def refused_pods(controller: Controller) -> dict[str, str]:
    """Returns the pods that are refused, by uid, and why."""
    return {uid: waits.text for uid, waits in controller.book.waits.items() if waits.reason == REFUSED}


class Figures:
    """Reads the figures of a service when it is asked: nothing is counted twice, labels are bounded by the pools."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """All figures as Prometheus reads them."""
        return bytes(generate_latest(self._registry))

    def collect(self) -> Iterator[Metric]:
        """One family at a time."""
        service = self._service
        leads = service.leader.leads() if service.leader is not None else service.ready.is_set()
        yield GaugeMetricFamily("gfs_leader", "1 if this replica decides.", value=float(leads))
        if service.api is not None:
            yield CounterMetricFamily("gfs_api_requests", "Requests sent to the API server.", service.api.requests)
            yield CounterMetricFamily("gfs_api_problems", "Requests refused or without answer.", service.api.problems)
        controller = service.controller
        if controller is None:
            return
        binder, evictor = controller.binder, controller.evictor
        yield CounterMetricFamily("gfs_decisions", "Instants that were decided.", controller.decisions)
        yield CounterMetricFamily("gfs_decision_seconds", "Seconds spent deciding.", controller.decision_seconds)
        yield GaugeMetricFamily(
            "gfs_longest_step_seconds",
            "The longest instant: nothing else is done while it lasts.",
            controller.longest_step,
        )
        yield CounterMetricFamily("gfs_pods_bound", "Pods bound.", binder.bound)
        yield CounterMetricFamily("gfs_bindings_refused", "Bindings that did not come about.", binder.refused)
        yield CounterMetricFamily("gfs_pods_evicted", "Spot pods evicted.", evictor.evicted)
        yield CounterMetricFamily("gfs_messages_sent", "Conditions and events written.", controller.speaker.sent)
        hanging = len(controller.overlay.hanging())
        yield GaugeMetricFamily("gfs_hanging_victims", "Evicted pods that do not go away.", value=hanging)
        yield GaugeMetricFamily("gfs_refused_pods", "Pods that are refused.", value=len(refused_pods(controller)))
        yield GaugeMetricFamily(
            "gfs_last_decision_timestamp_seconds", "When something was last decided.", value=max(controller.now, 0.0)
        )
        doubted = CounterMetricFamily("gfs_claims_not_believed", "Claims of pods not believed.", labels=["claim"])
        for claim in CLAIMS:
            doubted.add_metric([claim], controller.claims.doubted[claim])
        yield doubted
        if service.trainer is not None:
            yield CounterMetricFamily("gfs_forecaster_fits", "Models that were trained.", service.trainer.fits)
            yield CounterMetricFamily("gfs_forecaster_failures", "Trainings that failed.", service.trainer.failures)
            yield GaugeMetricFamily(
                "gfs_forecaster_last_fit_timestamp_seconds",
                "When the newest model was asked for; 0: there is none.",
                value=service.trainer.last_fit,
            )
        if service.reflectors is not None:
            yield GaugeMetricFamily(
                "gfs_watch_silence_seconds",
                "Since when the watch that is silent longest has heard nothing.",
                value=service.reflectors.silence(),
            )
        yield GaugeMetricFamily(
            "gfs_promise", "Share of guarantees that is promised to be kept.", value=service.options.parameters.p
        )
        yield self._guarantees()
        yield from self._pools()

    def _guarantees(self) -> Metric:
        guarantees = CounterMetricFamily(
            "gfs_guarantees", "Spot runs that had their guaranteed hours, or not.", labels=["pool", "outcome"]
        )
        controller = self._service.controller
        for model, scheduler in sorted(controller.scheduler.pools.items()) if controller is not None else ():
            counts = scheduler.state.ledger.counts(0.0, controller.now if controller is not None else 0.0)
            guarantees.add_metric([model, "kept"], counts.kept)
            guarantees.add_metric([model, "broken"], counts.broken)
        return guarantees

    def _pools(self) -> Iterator[Metric]:
        gpus = GaugeMetricFamily("gfs_gpus", "GPUs by who holds them.", labels=["pool", "state"])
        tasks = GaugeMetricFamily("gfs_tasks", "Tasks that run or wait.", labels=["pool", "class", "state"])
        quota = GaugeMetricFamily("gfs_spot_quota_gpus", "Spot quota.", labels=["pool", "guarantee_hours"])
        cautious = GaugeMetricFamily("gfs_quota_cautious", "1 if the quota follows no forecast yet.", labels=["pool"])
        known = GaugeMetricFamily("gfs_demand_history_seconds", "How long demand is known.", labels=["pool"])
        for pool in self.status()["pools"]:
            name = pool["pool"]
            cautious.add_metric([name], float(bool(pool["caution"])))
            known.add_metric([name], pool["demand_hours"] * HOUR)
            for state in ("total", "idle", "hp", "spot"):
                gpus.add_metric([name, state], pool["gpus"][state])
            for label, counts in pool["tasks"].items():
                for state, count in counts.items():
                    tasks.add_metric([name, label, state], count)
            for row in pool["quota"]:
                quota.add_metric([name, f"{row['guarantee_hours']:g}"], row["quota"])
        yield from (gpus, tasks, quota, cautious, known)

    def status(self) -> dict[str, Any]:
        """The state of every pool."""
        service, controller = self._service, self._service.controller
        pools: list[dict[str, Any]] = []
        for model, scheduler in sorted(controller.scheduler.pools.items()) if controller is not None else ():
            state, pool = scheduler.state, scheduler.state.pool
            total = sum(node.spec.gpus for node in state.nodes)
            held = Counter[Priority]()
            for run in state.runs.values():
                held[run.task.priority] += run.task.micro // MICRO
            counts = {each.label: {"running": 0, "waiting": 0} for each in Priority}
            for run in state.runs.values():
                counts[run.task.priority.label]["running"] += 1
            for waiting in state.waiting.values():
                counts[waiting.task.priority.label]["waiting"] += 1
            planned = controller.book.planned if controller is not None else ()
            starting = sum(t.task.gpus for t in planned if t.task is not None and t.task.gpu_model == model)
            shut = sum(node.spec.gpus for node in state.nodes if node.closed) - sum(
                cards for run in state.runs.values() for node, _, cards in run.places if node.closed
            )
            rows = [
                {"guarantee_hours": row.guarantee_hours, "quota": row.quota, "why": scheduler.policy.quota.why(row[0])}
                for row in scheduler.policy.quota.rows()
            ]
            policy, quota = scheduler.policy, scheduler.policy.quota
            kept = policy.kept_from_spot() if isinstance(policy, KeepsFromSpot) else {}
            forecast = quota.organization_demand() if isinstance(quota, ForecastsOrganizations) else ()
            pools.append({
                "pool": model,
                "nodes": len(state.nodes),
                "closed": sum(node.closed for node in state.nodes),
                "gpus": {
                    "total": total, "idle": pool.idle, "hp": held[Priority.HP], "spot": held[Priority.SPOT],
                    "reserved": starting, "closed": shut,
                    "kept_from_spot": sum(node.idle for node in kept if not node.closed),
                },
                "tasks": counts,
                "quota": rows,
                "forecaster": forecaster_of(scheduler),
                "demand_hours": demand_hours(scheduler) or 0.0,
                "caution": caution(scheduler, service.options.parameters.history_hours),
                "kept_from_spot": [
                    {"node": node.name, "reserved_for": service.recorder.name_of(task) if task is not None else ""}
                    for node, task in kept.items()
                ],
                "organizations": [row._asdict() for row in forecast],
            })  # fmt: skip
        leads = service.leader.leads() if service.leader is not None else service.ready.is_set()
        return {
            "identity": service.identity,
            "leads": leads,
            "leader": service.leader.holder if service.leader is not None else service.identity,
            "shadow": service.shadow.summary() if service.shadow is not None else None,
            "refused": len(refused_pods(controller)) if controller is not None else 0,
            "training": service.trainer.under_way if service.trainer is not None else 0,
            "history": service.history,
            "pools": pools,
        }
