"""A trace from Prometheus: what kube-state-metrics told it of pods and nodes, over a range of time.

For every day of the range Prometheus is asked for the last value of each series of pods that request GPUs, so that an
answer has one number a pod and not one a minute. From these numbers pods and nodes are put together as `kubectl get
-o json` would have shown them, and read as those are (`pod_records`): one rule for both.

| what | series |
|---|---|
| GPUs and CPUs of a pod | `kube_pod_container_resource_requests` |
| node, class, controller | `kube_pod_info` |
| submission | `kube_pod_created`, but not before the range |
| start | `kube_pod_container_state_started`, else `kube_pod_start_time`, else first seen as running |
| end | `kube_pod_completion_time` if its `kube_pod_status_phase` was Succeeded or Failed, else last seen as running |
| organization, gang, guarantee | `kube_pod_labels`, `kube_pod_annotations`, `kube_namespace_labels`, if collected |
| nodes | `kube_node_status_allocatable`, `kube_node_labels` |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any

from gfs.domain.errors import InputError
from gfs.domain.units import DAY, HOUR
from gfs.live.history import POD, label_name
from gfs.live.pod_records import Seen, convert
from gfs.live.prometheus import Prometheus, PrometheusError, QueryTooLargeError
from gfs.live.settings import LiveSettings
from gfs.live.translate.gangs import LABEL as GANG_LABEL
from gfs.live.translate.pods import GUARANTEE, INDEX, INTERVAL
from gfs.live.translate.quantities import rfc3339
from gfs.workloads.records.conversion import Conversion, Notes, SpotRule, shown

LEAST_PIECE = 900.0
"""Seconds: a server for which even this is too much cannot be asked."""
LOOK_BACK = 300.0
"""Seconds for which a sample counts that has no successor."""
NO_CLASS = "(no class)"
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
class _Pod:
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
class _Found:
    """What a range holds."""

    pods: dict[tuple[str, str, str], _Pod] = field(default_factory=dict)
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

    def pod(self, labels: Labels) -> _Pod:
        """The pod that a series is of."""
        key = labels.get("namespace", ""), labels.get("pod", ""), labels.get("uid", "")
        return self.pods.setdefault(key, _Pod())


@dataclass(frozen=True, slots=True)
class PrometheusRecords:
    """A trace, and what the demand of the same time has to be asked for with."""

    conversion: Conversion
    hp_classes: tuple[str, ...]
    """Priority classes whose pods are HP; '' for pods without any."""
    organizations: dict[str, str]
    """Namespace -> organization, where its label names one."""
    first: float
    """When anything was first seen."""
    last: float

    def organization(self, namespace: str, label: str) -> str:
        """Whose pod it is."""
        return self.organizations.get(namespace) or label or namespace


async def read_series(
    server: Prometheus,
    asked: Range,
    *,
    spot: Sequence[str] = (),
    settings: LiveSettings | None = None,
    progress: Callable[[int], None] = lambda days: None,
) -> PrometheusRecords:
    """Ask for pods and nodes of a range. `spot`: priority classes that may be evicted; none: guessed by their names."""
    settings, found, notes = settings or LiveSettings(), _Found(), Notes()
    for day in range(asked.days):
        begin = asked.start + day * DAY
        await _read_piece(server, begin, min(begin + DAY, asked.end), asked.step, settings, found)
        progress(day + 1)
    await _check(server, asked, settings, found)
    _note_gaps(asked, found, notes)
    is_spot = SpotRule(spot, "priority class")
    conversion = convert(_objects(asked, settings, found, notes), server.shown, is_spot, settings, notes)
    guessed = [name.replace(NO_CLASS, "") for name, is_spot_class in is_spot.seen if not is_spot_class]
    hp_classes = tuple(dict.fromkeys([*settings.hp_classes, *guessed]))
    return PrometheusRecords(conversion, hp_classes, found.namespaces, found.first, found.last)


async def read_nodes(server: Prometheus, settings: LiveSettings, at: float) -> dict[str, int]:
    """GPU model -> GPUs of the nodes that there are at a moment."""
    found = _Found()
    await _read_nodes(server, at - LOOK_BACK, at, settings, found)
    gpus, capacity = label_name(settings.resource), dict[str, int]()
    for node, has in found.nodes.items():
        model = found.models.get(node) or ONE_MODEL
        capacity[model] = capacity.get(model, 0) + int(has.get(gpus, 0))
    return {model: count for model, count in capacity.items() if count}


ONE_MODEL = "gpu"
"""What GPUs are called whose model nobody names."""


async def _read_piece(
    server: Prometheus, begin: float, end: float, step: float, settings: LiveSettings, found: _Found
) -> None:
    """Ask for a piece of the range, or for its halves if it is too large for the server."""
    try:
        await _read_pods(server, begin, end, step, settings, found)
        await _read_nodes(server, begin, end, settings, found)
    except QueryTooLargeError:
        if end - begin <= LEAST_PIECE:
            raise
        middle = begin + (end - begin) / 2
        await _read_piece(server, begin, middle, step, settings, found)
        await _read_piece(server, middle, end, step, settings, found)


async def _read_pods(
    server: Prometheus, begin: float, end: float, step: float, settings: LiveSettings, found: _Found
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
    for name, attribute, rule in (
        ("kube_pod_created", "created", "max"),
        ("kube_pod_container_state_started", "container_started", "min"),
        ("kube_pod_start_time", "started", "max"),
        ("kube_pod_completion_time", "completed", "max"),
    ):
        for labels, value in await ask(last(name), rule=rule):
            setattr(found.pod(labels), attribute, value)
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


ANNOTATIONS = (GUARANTEE, INTERVAL, INDEX)


async def _read_nodes(server: Prometheus, begin: float, end: float, settings: LiveSettings, found: _Found) -> None:
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


async def _check(server: Prometheus, asked: Range, settings: LiveSettings, found: _Found) -> None:
    """Say what is missing, where there is no pod with GPUs."""
    if any(pod.info for pod in found.pods.values()) and found.nodes:
        return
    window = f"[{asked.end - asked.start:.0f}s]"
    when = f"between {_day(asked.start)} and {_day(asked.end)}"
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


def _note_gaps(asked: Range, found: _Found, notes: Notes) -> None:
    missing = (asked.end - asked.start) - found.seconds
    if missing > max(0.01 * (asked.end - asked.start), HOUR):
        notes.guess(
            f"of the {_length(asked.end - asked.start)} asked for, {_length(found.seconds)} are recorded"
            f" (from {_day(found.first)} on): pods of the other time are not known"
        )


def _objects(asked: Range, settings: LiveSettings, found: _Found, notes: Notes) -> Seen:
    """Pods and nodes as kubectl would have shown them at the end."""
    now = asked.end if asked.end - found.last <= LOOK_BACK else found.last
    gpus, seen, start = label_name(settings.resource), Seen(last=now), max(asked.start, found.first)
    unnamed = [node for node, has in found.nodes.items() if has.get(gpus) and node not in found.models]
    if unnamed and found.models:
        notes.guess(f"nodes without a label {settings.model_label} are left out: {shown(sorted(unnamed))}")
    elif unnamed:
        notes.guess(
            f"all GPUs are of one model, called {ONE_MODEL}: label {settings.model_label} of nodes is not recorded"
            f" (kube-state-metrics --metric-labels-allowlist=nodes=[{settings.model_label}])"
        )
    for node, has in found.nodes.items():
        model = found.models.get(node) or ("" if found.models else ONE_MODEL)
        seen.nodes[node] = {
            "metadata": {"name": node, "labels": {settings.model_label: model}},
            "status": {"allocatable": {settings.resource: has.get(gpus, 0.0), "cpu": has.get("cpu", 0.0)}},
        }
    if not any(pod.labels for pod in found.pods.values()):
        notes.guess(
            f"no labels of pods are recorded, so no pod is of a gang (label {GANG_LABEL}; kube-state-metrics"
            f" --metric-labels-allowlist=pods=[{GANG_LABEL},{settings.organization_label}])"
        )
    for (namespace, name, uid), pod in sorted(found.pods.items()):
        if pod.info:
            _add_pod(seen, namespace, name, uid or f"{namespace}/{name}", pod, start, asked, settings, found, notes)
    return seen


def _add_pod(
    seen: Seen,
    namespace: str,
    name: str,
    uid: str,
    pod: _Pod,
    start: float,
    asked: Range,
    settings: LiveSettings,
    found: _Found,
    notes: Notes,
) -> None:
    began = pod.container_started or pod.started or (pod.first_running if pod.first_running < inf else 0.0)
    if began and not (pod.container_started or pod.started):
        notes.guess("pods without a time of start began when they were first seen as running")
    ended = pod.completed if pod.phase else 0.0
    gone = pod.last_running and pod.last_running < found.last - LOOK_BACK - 2 * asked.step
    if not ended and (pod.phase or gone):
        notes.guess(f"pods without a time of completion ended when last seen as running (to {asked.step:g} s)")
        ended = pod.last_running
    if ended and ended <= start:
        return  # over before the range began
    created = pod.created or began
    if created < start:
        notes.guess("pods that were there before the range began were submitted, and started, with its beginning")
    state = {"startedAt": rfc3339(max(began, start))} if began else {}
    if pod.phase and ended:
        state["finishedAt"] = rfc3339(ended)
    labels = dict(pod.labels)
    if namespace in found.namespaces:
        labels[settings.organization_label] = found.namespaces[namespace]
    owner = pod.info.get("created_by_kind", ""), pod.info.get("created_by_name", "")
    names = {label_name(settings.resource): settings.resource}
    seen.pods[uid] = {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "creationTimestamp": rfc3339(max(created, start)),
            "labels": labels,
            "annotations": pod.annotations,
            "ownerReferences": _owner(*owner),
        },
        "spec": {
            "nodeName": pod.info.get("node", ""),
            "priorityClassName": pod.info.get("priority_class", ""),
            "containers": [
                {"resources": {"requests": {names.get(key, key): value for key, value in asks.items()}}}
                for asks in pod.asks.values()
            ],
        },
        "status": {
            "phase": pod.phase or "Running",
            "containerStatuses": [{"state": {"terminated" if pod.phase else "running": state}}],
        },
    }
    if ended and not pod.phase:
        seen.gone[uid] = ended


def _owner(kind: str, name: str) -> list[dict[str, Any]]:
    known = name and kind not in ("<none>", "Node") and name != "<none>"
    return [{"kind": kind, "name": name, "uid": f"{kind}/{name}", "controller": True}] if known else []


def _length(seconds: float) -> str:
    return f"{seconds / DAY:.1f} days" if seconds > 2 * DAY else f"{seconds / HOUR:.1f} h"


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def parse_moment(text: str, option: str) -> float:
    """Seconds since 1970 of '2026-05-01' or '2026-05-01T12:00:00Z'; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text}: write a date or a moment such as 2026-05-01 or 2026-05-01T12:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def hp_class_text(classes: Iterable[str]) -> str:
    """Priority classes as they are told."""
    return shown([name or NO_CLASS for name in classes])
