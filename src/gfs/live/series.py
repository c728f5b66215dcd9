"""What kube-state-metrics told a Prometheus of pods and nodes, over a range of time.

For every day of the range Prometheus is asked for the last value of each series of pods that request GPUs, so that an
answer has one number a pod and not one a minute; where a day is too much for the server, for halves of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf

from gfs.domain.errors import InputError
from gfs.domain.units import DAY
from gfs.live.history import POD, label_name
from gfs.live.prometheus import Prometheus, PrometheusError, QueryTooLargeError
from gfs.live.settings import LiveSettings
from gfs.live.translate.gangs import LABEL as GANG_LABEL
from gfs.live.translate.pods import GUARANTEE, INDEX, INTERVAL
from gfs.workloads.records.conversion import shown

LEAST_PIECE = 900.0
"""Seconds: a server for which even this is too much cannot be asked."""
LOOK_BACK = 300.0
"""Seconds for which a sample counts that has no successor."""
LATEST = 4e9
"""Seconds since 1970 of the year 2096: a number above it is no time."""
ANNOTATIONS = (GUARANTEE, INTERVAL, INDEX)
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Range:
    """From when to when, in seconds since 1970, and how finely what has no time of its own is looked at."""

    start: float
    end: float
    step: float = 60.0

    @property
    def days(self) -> int:
        """Pieces that are asked for one after the other."""
        return -int(-(self.end - self.start) // DAY)


@dataclass(slots=True)
class PodFacts:
    """What the series tell of one pod."""

    asks: dict[str, dict[str, float]] = field(default_factory=dict)
    """Container -> resource -> how much."""
    info: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    created: float = 0.0
    container_started: float = 0.0
    started: float = 0.0
    completed: float = 0.0
    first_running: float = inf
    last_running: float = 0.0
    phase: str = ""


@dataclass(slots=True)
class SeriesFound:
    """What a range holds."""

    pods: dict[tuple[str, str, str], PodFacts] = field(default_factory=dict)
    """By namespace, name and uid."""
    nodes: dict[str, dict[str, float]] = field(default_factory=dict)
    """Name -> resource -> how much there was at most."""
    models: dict[str, str] = field(default_factory=dict)
    """Node -> GPU model."""
    namespaces: dict[str, str] = field(default_factory=dict)
    """Namespace -> its organization by label."""
    first: float = inf
    """When anything was first seen."""
    last: float = 0.0
    seconds: float = 0.0
    """For how long anything was seen."""

    def pod(self, labels: Labels) -> PodFacts:
        """The pod that a series is of."""
        key = labels.get("namespace", ""), labels.get("pod", ""), labels.get("uid", "")
        return self.pods.setdefault(key, PodFacts())


async def read_piece(
    server: Prometheus, begin: float, end: float, step: float, settings: LiveSettings, found: SeriesFound
) -> None:
    """Ask for a piece of the range, or for its halves if it is too large for the server."""
    try:
        await _read_pods(server, begin, end, step, settings, found)
        await read_nodes(server, begin, end, settings, found)
    except QueryTooLargeError:
        if end - begin <= LEAST_PIECE:
            raise
        middle = begin + (end - begin) / 2
        await read_piece(server, begin, middle, step, settings, found)
        await read_piece(server, middle, end, step, settings, found)


async def _read_pods(
    server: Prometheus, begin: float, end: float, step: float, settings: LiveSettings, found: SeriesFound
) -> None:
    window, steps = f"[{end - begin:.0f}s]", f"[{end - begin:.0f}s:{step:.0f}s]"
    resource = label_name(settings.resource)
    ours = f'last_over_time(kube_pod_container_resource_requests{{resource="{resource}"}}{window}) > 0'

    async def ask(series: str, by: str = "", rule: str = "max") -> list[tuple[dict[str, str], float]]:
        """The value of a series for each pod with GPUs, whatever else kube-state-metrics says of it."""
        more = f", {by}" if by else ""
        return await server.query(f"{rule} by ({POD}{more}) ({series}) and on ({POD}) ({ours})", end)

    def last(name: str) -> str:
        return f"last_over_time({name}{window})"

    for labels, value in await ask(
        last(f'kube_pod_container_resource_requests{{resource=~"{resource}|cpu"}}'), "container, resource"
    ):
        found.pod(labels).asks.setdefault(labels.get("container", ""), {})[labels["resource"]] = value
    if not found.pods:
        return
    for labels, _ in await ask(last("kube_pod_info"), "node, priority_class, created_by_kind, created_by_name"):
        info = found.pod(labels).info
        info |= {key: value for key, value in labels.items() if value}  # a pod has no node at first
    for name, attribute in (
        ("kube_pod_created", "created"),
        ("kube_pod_start_time", "started"),
        ("kube_pod_completion_time", "completed"),
    ):
        for labels, value in await ask(last(name)):
            if 0 < value < LATEST:
                setattr(found.pod(labels), attribute, value)
    earliest = f"min_over_time(kube_pod_container_state_started{window})"  # a container may start again
    for labels, value in await ask(earliest, rule="min"):
        pod = found.pod(labels)
        if 0 < value < (pod.container_started or LATEST):
            pod.container_started = value
    for labels, _ in await ask(last('kube_pod_status_phase{phase=~"Succeeded|Failed"}') + " == 1", "phase"):
        found.pod(labels).phase = labels["phase"]
    runs = 'kube_pod_status_phase{phase="Running"}'
    running = f"(timestamp({runs}) and {runs} == 1){steps}"
    for labels, value in await ask(f"min_over_time({running})", rule="min"):
        pod = found.pod(labels)
        pod.first_running = min(pod.first_running, value)
    for labels, value in await ask(f"max_over_time({running})"):
        pod = found.pod(labels)
        pod.last_running = max(pod.last_running, value)
    for kind, names in (("label", (settings.organization_label, GANG_LABEL)), ("annotation", ANNOTATIONS)):
        written = {f"{kind}_{label_name(name)}": name for name in names}
        for labels, _ in await ask(last(f"kube_pod_{kind}s"), ", ".join(written)):
            pod = found.pod(labels)
            known = pod.labels if kind == "label" else pod.annotations
            known |= {written[key]: value for key, value in labels.items() if key in written and value}


async def read_nodes(server: Prometheus, begin: float, end: float, settings: LiveSettings, found: SeriesFound) -> None:
    """Nodes, organizations of namespaces, and when anything was seen at all."""
    window, resource = f"[{end - begin:.0f}s]", label_name(settings.resource)
    wanted = f'kube_node_status_allocatable{{resource=~"{resource}|cpu"}}'
    for labels, value in await server.query(f"max by (node, resource) (max_over_time({wanted}{window}))", end):
        has = found.nodes.setdefault(labels.get("node", ""), {})
        has[labels["resource"]] = max(value, has.get(labels["resource"], 0.0))
    model = f"label_{label_name(settings.model_label)}"
    query = f'max by (node, {model}) (last_over_time(kube_node_labels{{{model}!=""}}{window}))'
    for labels, _ in await server.query(query, end):
        found.models[labels.get("node", "")] = labels[model]
    organization = f"label_{label_name(settings.organization_label)}"
    query = f'max by (namespace, {organization}) (last_over_time(kube_namespace_labels{{{organization}!=""}}{window}))'
    for labels, _ in await server.query(query, end):
        found.namespaces[labels.get("namespace", "")] = labels[organization]
    steps = f"[{end - begin:.0f}s:{LOOK_BACK:.0f}s]"
    for rule, what in (("min", "first"), ("max", "last"), ("count", "")):
        for _, value in await server.query(f"{rule}_over_time(timestamp(count(kube_node_info)){steps})", end):
            if what:
                setattr(found, what, (min if what == "first" else max)(getattr(found, what), value))
            else:
                found.seconds += value * LOOK_BACK


async def check_found(server: Prometheus, asked: Range, settings: LiveSettings, found: SeriesFound) -> None:
    """Say what is missing, where there is no pod with GPUs."""
    if any(pod.info for pod in found.pods.values()) and found.nodes:
        return
    window = f"[{asked.end - asked.start:.0f}s]"
    when = f"between {moment_text(asked.start)} and {moment_text(asked.end)}"
    try:
        wrong = await server.query(f'count(last_over_time(kube_pod_info{{exported_pod!=""}}{window}))', asked.end)
        known = await server.query(
            f"count by (resource) (last_over_time(kube_node_status_allocatable{window}))", asked.end
        )
        any_pod = await server.query(f"count(last_over_time(kube_pod_info{window}))", asked.end)
    except QueryTooLargeError:
        wrong, known, any_pod = [], [], []
    if wrong:
        raise PrometheusError(
            f"{server.shown}: names of pods are in exported_pod: kube-state-metrics is scraped without"
            " honor_labels: true. Set it, and ask for the time since then"
        )
    if not any_pod:
        raise PrometheusError(
            f"{server.shown}: it has no series kube_pod_info {when}. Does it scrape kube-state-metrics, and keep"
            " samples that long (--storage.tsdb.retention.time)?"
        )
    names = sorted(labels.get("resource", "") for labels, _ in known)
    raise PrometheusError(
        f"{server.shown}: no pod asked for {settings.resource} {when}"
        f" (kube_pod_container_resource_requests, resource {label_name(settings.resource)!r}). Nodes have"
        f" {shown(names, 12) or 'nothing that is recorded'}; another name is given by resource in [live] of --config"
    )


def moment_text(seconds: float) -> str:
    """'2026-05-01 12:00 UTC'."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def parse_moment(text: str, option: str) -> float:
    """Seconds since 1970 of '2026-05-01' or '2026-05-01T12:00:00Z'; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text}: write a date or a moment such as 2026-05-01 or 2026-05-01T12:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
