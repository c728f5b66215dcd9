"""A trace from Prometheus: what kube-state-metrics told it of pods and nodes, over a range of time.

A pod is put together from the last values of its series (`kube_state_metrics`) as `kubectl get -o json` would have
shown it, and read as that is (`kubernetes`): one rule for both.

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
from typing import Any

import msgspec

from gfs.domain.node import NodeSpec
from gfs.domain.units import DAY, HOUR
from gfs.forecasting.meter import STEP
from gfs.forecasting.past import PastDemand
from gfs.live.history import A_DAY, POD, label_name, read_demand
from gfs.live.prometheus import Prometheus
from gfs.live.settings import LiveSettings
from gfs.live.translate.gangs import LABEL as GANG_LABEL
from gfs.live.translate.pods import read_pod
from gfs.live.translate.quantities import rfc3339
from gfs.records.conversion import Conversion, Notes, SpotRule, shown
from gfs.records.kube_state_metrics import LOOK_BACK, ClusterSeries, PodSeries, Range, moment_text
from gfs.records.kubernetes import NO_CLASS, PodLife, convert, node_specs

ONE_MODEL = "gpu"
"""The model of all GPUs where no node has a label that names one."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the demand of a cluster has to be asked for with."""

    nodes: tuple[NodeSpec, ...]
    hp_classes: tuple[str, ...]
    """Priority classes whose pods are HP; '' for pods without any."""
    organizations: dict[str, str]
    """Namespace -> organization, where its label names one."""
    last: float
    """When a node was last seen."""
    guesses: tuple[str, ...] = ()
    """What the series do not say and was decided for them, a sentence each."""

    def organization(self, namespace: str, label: str) -> str:
        """Return the organization of a pod."""
        return self.organizations.get(namespace) or label or namespace


async def read_series(
    server: Prometheus,
    settings: LiveSettings,
    asked: Range,
    spot: Sequence[str],
    progress: Callable[[int], None],
) -> tuple[Conversion, ClusterFacts]:
    """Ask for pods and nodes of a range. `spot`: priority classes that may be evicted; none: guessed by their names."""
    series, notes, is_spot = ClusterSeries(server, settings), Notes(), SpotRule(spot, "priority class")
    await series.read(asked, progress)
    missing = (asked.end - asked.start) - series.seconds
    if missing > max(0.01 * (asked.end - asked.start), HOUR):
        notes.guess(
            f"of the {_length(asked.end - asked.start)} asked for, {_length(series.seconds)} are recorded"
            f" (from {moment_text(series.first)} on): pods of the other time are not known"
        )
    nodes = _nodes(series, settings, notes)
    if not any(pod.labels for pod in series.pods.values()):
        notes.guess(
            f"no labels of pods are recorded, so no pod is of a gang (label {GANG_LABEL}; kube-state-metrics"
            f" --metric-labels-allowlist=pods=[{GANG_LABEL},{settings.organization_label}])"
        )
    lives = _lives(series, asked, settings, notes)
    now = asked.end if asked.end - series.last <= LOOK_BACK else series.last
    conversion = convert(lives, nodes, now, server.shown, is_spot, settings, notes)
    guessed = [name.replace(NO_CLASS, "") for name, is_spot_class in is_spot.seen if not is_spot_class]
    hp_classes = tuple(dict.fromkeys([*settings.hp_classes, *guessed]))
    return conversion, ClusterFacts(conversion.workload.nodes, hp_classes, series.organizations, series.last)


async def read_cluster(
    server: Prometheus, settings: LiveSettings, first: float, at: float, spot: Sequence[str]
) -> ClusterFacts:
    """The nodes at a moment, and the HP classes of pods with GPUs since `first`."""
    series, notes, is_spot = ClusterSeries(server, settings), Notes(), SpotRule(spot, "priority class")
    await series.read_last_nodes(at)
    nodes = _nodes(series, settings, notes)
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
    return ClusterFacts(nodes, tuple(classes), series.organizations, series.last, tuple(notes.guesses))


async def cluster_demand(
    server: Prometheus,
    settings: LiveSettings,
    cluster: ClusterFacts,
    asked: Range,
    progress: Callable[[int], None],
) -> PastDemand:
    """HP demand of a range, as far as nodes were seen, by the classes, models and organizations of a cluster."""
    first, end = int(asked.start // STEP), int(min(asked.end, cluster.last + LOOK_BACK) // STEP)
    of_range = msgspec.structs.replace(settings, hp_classes=cluster.hp_classes, prometheus_days=(end - first) / A_DAY)
    models = {node.gpu_model for node in cluster.nodes}
    return await read_demand(server, of_range, models, cluster.organization, end, progress)


def _nodes(series: ClusterSeries, settings: LiveSettings, notes: Notes) -> tuple[NodeSpec, ...]:
    with_gpus = (node for node, has in series.nodes.items() if has.get(settings.resource))
    unnamed = sorted(node for node in with_gpus if node not in series.models)
    if unnamed and series.models:
        notes.guess(f"nodes without a label {settings.model_label} are left out: {shown(unnamed)}")
    elif unnamed:
        notes.guess(
            f"all GPUs are of one model, called {ONE_MODEL}: label {settings.model_label} of nodes is not recorded"
            f" (kube-state-metrics --metric-labels-allowlist=nodes=[{settings.model_label}])"
        )
    other = "" if series.models else ONE_MODEL
    items = [
        {
            "metadata": {"name": node, "labels": {settings.model_label: series.models.get(node, other)}},
            "status": {"allocatable": has},
        }
        for node, has in series.nodes.items()
    ]
    return node_specs(items, settings)


def _lives(series: ClusterSeries, asked: Range, settings: LiveSettings, notes: Notes) -> list[PodLife]:
    """Pods that ran in the range; what was before it counts as its beginning."""
    start = max(asked.start, series.first)
    lives = []
    for (namespace, name, uid), pod in sorted(series.pods.items(), key=lambda item: item[0]):
        if not pod.info:
            continue
        began = pod.container_started or pod.started or pod.first_running
        if began and not (pod.container_started or pod.started):
            notes.guess("pods without a time of start began when they were first seen as running")
        ended = pod.completed if pod.phase else 0.0
        gone = pod.last_running and pod.last_running < series.last - LOOK_BACK - 2 * asked.step
        if not ended and (pod.phase or gone):
            notes.guess(f"pods without a time of completion ended when last seen as running (to {asked.step:g} s)")
            ended = pod.last_running
        if ended and ended <= start:
            continue  # over before the range began
        created = pod.created or began
        if created < start:
            notes.guess("pods that were there before the range began were submitted, and started, with its beginning")
        labels = dict(pod.labels)
        if namespace in series.organizations:
            labels[settings.organization_label] = series.organizations[namespace]
        item = _as_kubectl(namespace, name, uid, pod, labels, max(created, start))
        lives.append(PodLife(read_pod(item, settings), max(began, start) if began else 0.0, ended))
    return lives


def _as_kubectl(
    namespace: str, name: str, uid: str, pod: PodSeries, labels: dict[str, str], created: float
) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "creationTimestamp": rfc3339(created),
            "labels": labels,
            "annotations": pod.annotations,
            "ownerReferences": _owner(pod.info.get("created_by_kind", ""), pod.info.get("created_by_name", "")),
        },
        "spec": {
            "nodeName": pod.info.get("node", ""),
            "priorityClassName": pod.info.get("priority_class", ""),
            "containers": [{"resources": {"requests": asks}} for asks in pod.asks.values()],
        },
        "status": {"phase": pod.phase or "Running"},
    }


def _owner(kind: str, name: str) -> list[dict[str, Any]]:
    known = name and kind not in ("<none>", "Node") and name != "<none>"
    return [{"kind": kind, "name": name, "uid": f"{kind}/{name}", "controller": True}] if known else []


def _length(seconds: float) -> str:
    return f"{seconds / DAY:.1f} days" if seconds > 2 * DAY else f"{seconds / HOUR:.1f} h"
