"""Metrics of a replica, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gfs.core.state import PoolState
from gfs.domain.task import Priority, Task
from gfs.domain.units import HOUR
from gfs.live.controller import Controller
from gfs.live.learning import demand_hours, is_cautious
from gfs.live.observe import REFUSED
from gfs.live.service import Service
from gfs.live.translate.pods import CLAIMS


class Figures(Collector):
    """Reads the metrics from the service at each scrape. The number of series follows the number of pools."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def text(self) -> bytes:
        """Returns all metrics as Prometheus reads them."""
        return bytes(generate_latest(self))

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        service, controller = self._service, self._service.controller
        yield Gauge("gfs_leader", "1 if this replica decides.", float(controller is not None))
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
        yield Gauge("gfs_refused_pods", "Pods that are refused.", refused_pods(controller))
        yield Gauge("gfs_last_decision_timestamp_seconds", "When something was last decided.", now)
        doubted = Counter("gfs_claims_not_believed", "Claims of pods not believed.", labels=["claim"])
        for claim in CLAIMS:
            doubted.add_metric([claim], controller.claims.doubted[claim])
        yield doubted
        yield Counter("gfs_forecaster_fits", "Models that were trained.", service.trainer.fits)
        yield Counter("gfs_forecaster_failures", "Trainings that failed.", service.trainer.failures)
        newest = "When the newest model was asked for; 0: there is none."
        yield Gauge("gfs_forecaster_last_fit_timestamp_seconds", newest, service.trainer.last_fit)
        silence = "Since when the watch that is silent longest has received nothing."
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
        for name, pool in sorted(controller.scheduler.pools.items()):
            ended = pool.state.ledger.counts(0.0, controller.now)
            guarantees.add_metric([name, "kept"], ended.kept)
            guarantees.add_metric([name, "broken"], ended.broken)
            cautious.add_metric([name], float(is_cautious(pool)))
            known.add_metric([name], (demand_hours(pool) or 0.0) * HOUR)
            gpus.add_metric([name, "total"], sum(node.spec.gpus for node in pool.state.nodes))
            gpus.add_metric([name, "idle"], pool.state.pool.idle)
            for priority in Priority:
                running, waiting = tasks_of(pool.state, priority)
                gpus.add_metric([name, priority.label.lower()], sum(task.gpus for task in running))
                tasks.add_metric([name, priority.label, "running"], len(running))
                tasks.add_metric([name, priority.label, "waiting"], waiting)
            for row in pool.policy.quota.rows():
                quota.add_metric([name, f"{row.guarantee_hours:g}"], row.quota)
        yield from (guarantees, gpus, tasks, quota, cautious, known)


def tasks_of(state: PoolState, priority: Priority) -> tuple[list[Task], int]:
    """Returns the tasks of a class that run, and the number of those that wait."""
    running = [run.task for run in state.runs.values() if run.task.priority is priority]
    return running, sum(each.task.priority is priority for each in state.waiting.values())


def refused_pods(controller: Controller) -> int:
    """Returns the number of pods that are refused."""
    return sum(waits.reason == REFUSED for waits in controller.book.waits.values())
