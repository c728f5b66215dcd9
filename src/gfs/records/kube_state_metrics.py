"""What kube-state-metrics told a Prometheus of pods and nodes, over a range of time.

For every day of the range Prometheus is asked for the last value of each series of pods that request GPUs, so that an
answer has one number per pod and not one per minute. A day that is too much for the server is asked for in halves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import NoReturn

from gfs.domain.units import DAY
from gfs.live.history import POD, label_name
from gfs.live.prometheus import Prometheus, PrometheusError, QueryTooLargeError
from gfs.live.settings import LiveSettings
from gfs.live.translate.gangs import LABEL as GANG_LABEL
from gfs.live.translate.pods import GUARANTEE, INDEX, INTERVAL
from gfs.records.conversion import shown

LEAST_PIECE = 900.0
"""Seconds: a server for which even this is too much cannot be asked."""
LOOK_BACK = 300.0
"""Seconds for which a sample counts that has no successor."""
LATEST = 4e9
"""Seconds since 1970 of the year 2096: a number above it is no time."""


@dataclass(frozen=True, slots=True)
class Range:
    """From when to when, in seconds since 1970, and how finely what has no time of its own is looked at."""

    start: float
    end: float
    step: float = 60.0

    @property
    def days(self) -> int:
        """The number of pieces that are asked for one after the other."""
        return -int(-(self.end - self.start) // DAY)


@dataclass(slots=True)
class PodSeries:
    """What the series tell of one pod. A time of 0 is not known."""

    asks: dict[str, dict[str, float]] = field(default_factory=dict)
    """Container -> resource -> how much."""
    info: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    created: float = 0.0
    container_started: float = 0.0
    started: float = 0.0
    completed: float = 0.0
    first_running: float = 0.0
    last_running: float = 0.0
    phase: str = ""
    """'Succeeded', 'Failed', or empty."""


class ClusterSeries:
    """What the series of a range tell, as far as they have been read."""

    def __init__(self, server: Prometheus, settings: LiveSettings) -> None:
        self._server, self._settings = server, settings
        self._resources = {label_name(settings.resource): settings.resource, "cpu": "cpu"}
        self.pods: dict[tuple[str, str, str], PodSeries] = {}
        """By namespace, name and uid."""
        self.nodes: dict[str, dict[str, float]] = {}
        """Name -> resource -> how much there was at most."""
        self.models: dict[str, str] = {}
        """Node -> GPU model."""
        self.organizations: dict[str, str] = {}
        """Namespace -> its organization by label."""
        self.first = inf
        """When a node was first seen."""
        self.last = 0.0
        self.seconds = 0.0
        """For how long nodes were seen."""

    async def read(self, asked: Range, progress: Callable[[int], None]) -> None:
        """Read pods and nodes, and raise `PrometheusError` if there are none. `progress` gets the number of days."""
        for day in range(asked.days):
            begin = asked.start + day * DAY
            await self._read_piece(begin, min(begin + DAY, asked.end), asked.step)
            progress(day + 1)
        if not (any(pod.info for pod in self.pods.values()) and self.nodes and self.last):
            await self._explain(asked)

    async def read_last_nodes(self, at: float) -> None:
        """Read nodes as they are at a moment, and raise `PrometheusError` if there are none."""
        await self._read_nodes(at - LOOK_BACK, at)
        if not (self.nodes and self.last):
            await self._explain(Range(at - LOOK_BACK, at))

    async def _read_piece(self, begin: float, end: float, step: float) -> None:
        try:
            await self._read_pods(begin, end, step)
            await self._read_nodes(begin, end)
        except QueryTooLargeError:
            if end - begin <= LEAST_PIECE:
                raise
            middle = begin + (end - begin) / 2
            await self._read_piece(begin, middle, step)
            await self._read_piece(middle, end, step)

    async def _read_pods(self, begin: float, end: float, step: float) -> None:
        window, steps = f"[{end - begin:.0f}s]", f"[{end - begin:.0f}s:{step:.0f}s]"
        resource = label_name(self._settings.resource)
        ours = f'last_over_time(kube_pod_container_resource_requests{{resource="{resource}"}}{window}) > 0'

        async def ask(series: str, by: str = "", rule: str = "max") -> list[tuple[PodSeries, Mapping[str, str], float]]:
            """Ask for the value of a series for each pod with GPUs, whatever else kube-state-metrics says of it."""
            more = f", {by}" if by else ""
            found = await self._server.query(f"{rule} by ({POD}{more}) ({series}) and on ({POD}) ({ours})", end)
            return [(self._pod(labels), labels, value) for labels, value in found]

        def last(name: str) -> str:
            return f"last_over_time({name}{window})"

        requests = f'kube_pod_container_resource_requests{{resource=~"{resource}|cpu"}}'
        for pod, labels, value in await ask(last(requests), "container, resource"):
            asks = pod.asks.setdefault(labels.get("container", ""), {})
            asks[self._resources[labels["resource"]]] = value
        if not self.pods:
            return
        info = "node, priority_class, created_by_kind, created_by_name"
        for pod, labels, _ in await ask(last("kube_pod_info"), info):
            pod.info |= {key: value for key, value in labels.items() if value}  # a pod has no node at first
        for pod, labels, _ in await ask(last('kube_pod_status_phase{phase=~"Succeeded|Failed"}') + " == 1", "phase"):
            pod.phase = labels["phase"]
        runs = 'kube_pod_status_phase{phase="Running"}'
        running = f"(timestamp({runs}) and {runs} == 1){steps}"
        for attribute, rule, series in (
            ("created", max, last("kube_pod_created")),
            ("started", max, last("kube_pod_start_time")),
            ("completed", max, last("kube_pod_completion_time")),
            # a container may start again
            ("container_started", min, f"min_over_time(kube_pod_container_state_started{window})"),
            ("first_running", min, f"min_over_time({running})"),
            ("last_running", max, f"max_over_time({running})"),
        ):
            for pod, _, value in await ask(series, rule=rule.__name__):
                if 0 < value < LATEST:
                    setattr(pod, attribute, rule(value, getattr(pod, attribute) or value))
        own_labels = (self._settings.organization_label, GANG_LABEL)
        for kind, names in (("label", own_labels), ("annotation", (GUARANTEE, INTERVAL, INDEX))):
            written = {f"{kind}_{label_name(name)}": name for name in names}
            for pod, labels, _ in await ask(last(f"kube_pod_{kind}s"), ", ".join(written)):
                known = pod.labels if kind == "label" else pod.annotations
                known |= {written[key]: value for key, value in labels.items() if key in written and value}

    def _pod(self, labels: Mapping[str, str]) -> PodSeries:
        key = labels.get("namespace", ""), labels.get("pod", ""), labels.get("uid", "")
        return self.pods.setdefault(key, PodSeries())

    async def _read_nodes(self, begin: float, end: float) -> None:
        """Read nodes, organizations of namespaces, and when nodes were seen at all."""
        window = f"[{end - begin:.0f}s]"
        wanted = f'kube_node_status_allocatable{{resource=~"{"|".join(self._resources)}"}}'
        query = f"max by (node, resource) (max_over_time({wanted}{window}))"
        for labels, value in await self._server.query(query, end):
            has, resource = self.nodes.setdefault(labels.get("node", ""), {}), self._resources[labels["resource"]]
            has[resource] = max(value, has.get(resource, 0.0))
        for series, key, name, known in (
            ("kube_node_labels", "node", self._settings.model_label, self.models),
            ("kube_namespace_labels", "namespace", self._settings.organization_label, self.organizations),
        ):
            label = f"label_{label_name(name)}"
            query = f'max by ({key}, {label}) (last_over_time({series}{{{label}!=""}}{window}))'
            for labels, _ in await self._server.query(query, end):
                known[labels.get(key, "")] = labels[label]
        for _, values in await self._server.query_range("count(kube_node_info)", begin, end, LOOK_BACK):
            for at, _ in values:
                self.first, self.last = min(self.first, at), max(self.last, at)
                self.seconds += LOOK_BACK if at < end else 0.0  # the next piece counts its end

    async def _explain(self, asked: Range) -> NoReturn:
        """Raise `PrometheusError`, which says why no pod with GPUs, or no node, was found."""
        server, when = self._server.shown, f"between {moment_text(asked.start)} and {moment_text(asked.end)}"

        async def seen(query: str) -> list[dict[str, str]]:
            """Return the labels of a query's series at 1,000 moments: all samples may be more than the server reads."""
            step = max((asked.end - asked.start) / 1000, 1.0)
            return [labels for labels, _ in await self._server.query_range(query, asked.start, asked.end, step)]

        if await seen('count(kube_pod_info{exported_pod!=""})'):
            raise PrometheusError(
                f"{server}: names of pods are in exported_pod: kube-state-metrics is scraped without"
                " honor_labels: true. Set it, and ask for the time since then"
            )
        for series in ("kube_pod_info", "kube_node_info"):
            if not await seen(f"count({series})"):
                raise PrometheusError(
                    f"{server}: it has no series {series} {when}. Does it scrape kube-state-metrics, and keep"
                    " samples that long (--storage.tsdb.retention.time)?"
                )
        known = await seen("count by (resource) (kube_node_status_allocatable)")
        names = sorted(labels.get("resource", "") for labels in known)
        raise PrometheusError(
            f"{server}: no pod asked for {self._settings.resource} {when}"
            f" (kube_pod_container_resource_requests, resource {label_name(self._settings.resource)!r})."
            f" Nodes have {shown(names, 12) or 'nothing that is recorded'};"
            " another name is given by resource in [live] of --config"
        )


def moment_text(seconds: float) -> str:
    """'2026-05-01 12:00 UTC'."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
