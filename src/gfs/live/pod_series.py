"""A trace from Prometheus: what kube-state-metrics told it of pods and nodes, over a range of time.

From the last values of their series (`series`) pods and nodes are put together as `kubectl get -o json` would have
shown them, and read as those are (`pod_records`): one rule for both.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from gfs.domain.node import NodeSpec
from gfs.domain.units import DAY, HOUR
from gfs.forecasting.meter import STEP
from gfs.forecasting.past import PastDemand
from gfs.live.history import POD, label_name, read_demand
from gfs.live.pod_records import Seen, convert
from gfs.live.prometheus import Prometheus
from gfs.live.series import LOOK_BACK, PodFacts, Range, SeriesFound, check_found, moment_text, read_nodes, read_piece
from gfs.live.settings import LiveSettings
from gfs.live.translate.gangs import LABEL as GANG_LABEL
from gfs.live.translate.nodes import read_node
from gfs.live.translate.quantities import rfc3339
from gfs.workloads.records.conversion import Conversion, Notes, SpotRule, shown

ONE_MODEL = "gpu"
"""What GPUs are called whose model nobody names."""
NO_CLASS = "(no class)"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the demand of a cluster has to be asked for with."""

    nodes: tuple[NodeSpec, ...]
    hp_classes: tuple[str, ...]
    """Priority classes whose pods are HP; '' for pods without any."""
    organizations: dict[str, str]
    """Namespace -> organization, where its label names one."""
    last: float
    """When anything was last seen."""
    guesses: tuple[str, ...] = ()
    """What was decided that nobody says, a sentence each."""

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
) -> tuple[Conversion, ClusterFacts]:
    """Ask for pods and nodes of a range. `spot`: priority classes that may be evicted; none: guessed by their names."""
    settings, found, notes = settings or LiveSettings(), SeriesFound(), Notes()
    for day in range(asked.days):
        begin = asked.start + day * DAY
        await read_piece(server, begin, min(begin + DAY, asked.end), asked.step, settings, found)
        progress(day + 1)
    await check_found(server, asked, settings, found)
    _note_gaps(asked, found, notes)
    is_spot = SpotRule(spot, "priority class")
    conversion = convert(_objects(asked, settings, found, notes), server.shown, is_spot, settings, notes)
    guessed = [name.replace(NO_CLASS, "") for name, is_spot_class in is_spot.seen if not is_spot_class]
    hp_classes = tuple(dict.fromkeys([*settings.hp_classes, *guessed]))
    return conversion, ClusterFacts(conversion.workload.nodes, hp_classes, found.namespaces, found.last)


async def read_cluster(
    server: Prometheus, settings: LiveSettings, first: float, at: float, spot: Sequence[str] = ()
) -> ClusterFacts:
    """The nodes at a moment, and the HP classes of pods with GPUs since `first`."""
    found, notes = SeriesFound(), Notes()
    await read_nodes(server, at - LOOK_BACK, at, settings, found)
    asked = Range(at - LOOK_BACK, at)
    if not found.nodes:
        await check_found(server, asked, settings, found)
    items = _objects(asked, settings, found, notes).nodes.values()
    views = sorted(view for item in items if (view := read_node(item, settings)) is not None)
    specs = tuple(NodeSpec(i, view.name, view.model, view.gpus, view.cpus) for i, view in enumerate(views))
    is_spot = SpotRule(spot, "priority class")
    ours = f'kube_pod_container_resource_requests{{resource="{label_name(settings.resource)}"}} > 0'
    query = f"count by (priority_class) (kube_pod_info and on ({POD}) {ours})"
    classes = dict.fromkeys(settings.hp_classes)
    begin = first
    while begin < at:
        for labels, _ in await server.query_range(query, begin, min(begin + DAY, at), HOUR):
            name = labels.get("priority_class", "")
            if name in settings.hp_classes or name in settings.spot_classes:
                continue
            if not is_spot(name or NO_CLASS):
                classes[name] = None
        begin += DAY
    if is_spot.seen:
        is_spot.note(notes)
    return ClusterFacts(specs, tuple(classes), found.namespaces, found.last, tuple(notes.guesses))


async def cluster_demand(
    server: Prometheus,
    settings: LiveSettings,
    cluster: ClusterFacts,
    asked: Range,
    progress: Callable[[int], None] = lambda days: None,
) -> PastDemand:
    """HP demand of a range, as far as anything was seen, by the classes, models and organizations of a cluster."""
    end = min(asked.end, cluster.last + LOOK_BACK)
    return await read_demand(
        server,
        settings,
        {node.gpu_model for node in cluster.nodes},
        cluster.organization,
        int(end // STEP),
        first=int(asked.start // STEP),
        hp_classes=cluster.hp_classes,
        progress=progress,
    )


def _note_gaps(asked: Range, found: SeriesFound, notes: Notes) -> None:
    missing = (asked.end - asked.start) - found.seconds
    if missing > max(0.01 * (asked.end - asked.start), HOUR):
        notes.guess(
            f"of the {_length(asked.end - asked.start)} asked for, {_length(found.seconds)} are recorded"
            f" (from {moment_text(found.first)} on): pods of the other time are not known"
        )


def _objects(asked: Range, settings: LiveSettings, found: SeriesFound, notes: Notes) -> Seen:
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
    if found.pods and not any(pod.labels for pod in found.pods.values()):
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
    pod: PodFacts,
    start: float,
    asked: Range,
    settings: LiveSettings,
    found: SeriesFound,
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
