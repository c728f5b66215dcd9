"""Demand of the last weeks from Prometheus, as kube-state-metrics recorded it before GFS ran.

HP demand is what containers of HP pods request that are pending or running, every five minutes:
`kube_pod_container_resource_requests` of pods whose `kube_pod_info` names an HP class and whose
`kube_pod_status_phase` is one of the two. The organization is the pod's label (`kube_pod_labels`, where it is
collected), that of its namespace, or the namespace. In a cluster of several GPU models the pool is that of the pod's
node (`kube_node_labels`), and pods without a node do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from gfs.domain.units import DAY
from gfs.forecasting.history import Floats
from gfs.forecasting.meter import STEP
from gfs.forecasting.past import PastDemand
from gfs.live.prometheus import Prometheus
from gfs.live.settings import LiveSettings

A_DAY = round(DAY / STEP)
"""Steps."""
POD = "namespace, pod, uid"
"""Labels that identify a pod."""


def label_name(name: str) -> str:
    """Returns a name of Kubernetes as kube-state-metrics writes it."""
    return re.sub(r"\W", "_", name)


def demand_query(settings: LiveSettings, *, by_model: bool) -> str:
    """Returns the query for GPUs that HP pods request, by namespace, organization label and, if asked, GPU model."""
    organization, model = (f"label_{label_name(name)}" for name in (settings.organization_label, settings.model_label))
    classes = "|".join(name.replace(".", r"\\.") for name in settings.hp_classes)
    # kube-state-metrics may run twice: each container counts once
    asked = (
        f"sum by ({POD}, node) (max by ({POD}, node, container)"
        f' (kube_pod_container_resource_requests{{resource="{label_name(settings.resource)}"}}))'
    )
    wanted = (
        f'({asked} and on ({POD}) kube_pod_info{{priority_class=~"{classes}"}}'
        f' and on ({POD}) (kube_pod_status_phase{{phase=~"Pending|Running"}} == 1))'
    )
    named = (
        f"({wanted} * on ({POD}) group_left ({organization}) max by ({POD}, {organization})"
        f' (kube_pod_labels{{{organization}!=""}}) or on ({POD}) {wanted})'
    )
    if not by_model:
        return f"sum by (namespace, {organization}) ({named})"
    models = f'max by (node, {model}) (kube_node_labels{{{model}!=""}})'
    return f"sum by (namespace, {organization}, {model}) ({named} * on (node) group_left ({model}) {models})"


async def read_demand(
    server: Prometheus,
    settings: LiveSettings,
    models: set[str],
    organization_of: Callable[[str, str], str],
    end: int,
    progress: Callable[[int], None] = lambda days: None,
) -> PastDemand:
    """Returns the demand of the `prometheus_days` of the settings before step `end`.

    `organization_of`: the organization by namespace and label. `progress` gets the number of days read so far.
    """
    size = round(settings.prometheus_days * A_DAY)
    first, only = end - size, next(iter(models)) if len(models) == 1 else ""
    query = demand_query(settings, by_model=not only)
    organization, model = (f"label_{label_name(name)}" for name in (settings.organization_label, settings.model_label))
    gpus: dict[str, dict[str, Floats]] = {}
    seen = np.zeros(size, bool)
    for days, begin in enumerate(range(first, end, A_DAY), start=1):
        span = begin * STEP, (min(begin + A_DAY, end) - 1) * STEP, STEP
        for _, values in await server.query_range("count(kube_node_info)", *span):
            seen[[round(at / STEP) - first for at, _ in values]] = True
        for labels, values in await server.query_range(query, *span):
            namespace, pool = labels.get("namespace", ""), only or labels.get(model, "")
            name = organization_of(namespace, labels.get(organization, ""))
            row = gpus.setdefault(pool, {}).setdefault(name, np.zeros(size))
            for at, value in values:
                row[round(at / STEP) - first] += value
        progress(days)
    if not gpus or not seen.any():
        return PastDemand({}, end)
    # while no node was seen, demand stayed as it was
    last = np.maximum.accumulate(np.where(seen, np.arange(size), -1))[int(seen.argmax()) :]
    return PastDemand({pool: {name: row[last] for name, row in some.items()} for pool, some in gpus.items()}, end)
