"""`gfs live check`: checks whether a cluster is ready: rights, nodes, GPU models, classes, and pods to take over."""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

from gfs.live.api import Api
from gfs.live.mirror import Mirror
from gfs.live.observe import REFUSED, observe
from gfs.live.overlay import Overlay
from gfs.live.settings import LiveSettings
from gfs.live.translate.gangs import NATIVE, PLUGIN
from gfs.live.watch import group_path


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    fine: bool
    says: str


RIGHTS = (
    *((verb, "", kind, "") for kind in ("nodes", "namespaces", "pods") for verb in ("list", "watch")),
    *((verb, "policy", "poddisruptionbudgets", "") for verb in ("list", "watch")),
    ("list", "scheduling.k8s.io", "priorityclasses", ""),
    ("get", "", "pods", ""),
    ("delete", "", "pods", ""),
    ("create", "", "pods", "binding"),
    ("patch", "", "pods", "status"),
    ("create", "", "events", ""),
    ("patch", "", "events", ""),
)
"""Verb, API group, resource and subresource that `gfs live run` needs; a shadow needs those of `READS`."""
READS = ("list", "watch")


async def check_cluster(
    api: Api, settings: LiveSettings, namespace: str, *, shadow: bool = False
) -> tuple[list[Finding], list[tuple[str, str]]]:
    """Returns the findings, and the pods of ours that would be refused, with the reasons."""
    version = str((await api.get("/version")).get("gitVersion") or "unknown version")
    findings = [Finding("API server", True, version)]
    groups = [path for group in (NATIVE, PLUGIN) if (path := await group_path(api, group))]
    findings.append(await _rights(api, settings, namespace, groups, shadow=shadow))
    if not findings[-1].fine:  # the rest could not be read
        return findings, []
    kinds = [path.split("/")[2] for path in groups]
    findings.append(Finding("gangs", True, f"PodGroups of {', '.join(kinds)}" if kinds else "no kind of PodGroup here"))
    mirror = Mirror(settings)
    nodes, _ = await api.list_all("/api/v1/nodes")
    for node in nodes:
        mirror.node_changed(None, node)
    findings.append(_nodes(mirror, len(nodes), settings))
    findings.append(await _classes(api, settings))
    for path in groups:
        for group in (await api.list_all(path))[0]:
            mirror.group_changed(None, group, path.split("/")[2])
    for each in (await api.list_all("/api/v1/pods"))[0]:
        mirror.pod_changed(None, each)
    ours = [pod for pod in mirror.pods.values() if pod.ours and not pod.over]
    refused = []
    for key in sorted(mirror.members, key=str):
        waits = observe(mirror, Overlay(mirror, time.time), key).waits
        refused += [(mirror.pods[uid].path, why.text) for uid, why in waits.items() if why.reason == REFUSED]
    refused.sort()
    waiting = sum(not pod.node for pod in ours)
    says = f"{len(ours)} pods of {settings.scheduler_name}: {waiting} wait, {len(refused)} would be refused"
    findings.append(Finding("would take over", not refused, says))
    return findings, refused


async def _rights(api: Api, settings: LiveSettings, namespace: str, groups: list[str], *, shadow: bool) -> Finding:
    wanted = [(*right, "", "") for right in RIGHTS if not shadow or right[0] in READS]
    wanted += [(verb, path.split("/")[2], "podgroups", "", "", "") for path in groups for verb in READS]
    if not shadow:
        leases = [("get", settings.lease_name), ("create", ""), ("update", settings.lease_name)]
        wanted += [(verb, "coordination.k8s.io", "leases", "", namespace, name) for verb, name in leases]
    missing = []
    for verb, group, resource, subresource, where, name in wanted:
        if not await api.allowed(verb, resource, group=group, subresource=subresource, namespace=where, name=name):
            missing.append(f"{verb} {resource}{f'/{subresource}' if subresource else ''}")
    return Finding("rights", not missing, f"missing: {', '.join(missing)}" if missing else f"all {len(wanted)} there")


def _nodes(mirror: Mirror, total: int, settings: LiveSettings) -> Finding:
    models = Counter[str]()
    for node in mirror.nodes.values():
        models[node.model] += int(node.has.gpus)
    if not models:
        return Finding("nodes", False, f"none of {total} has {settings.resource} and the label {settings.model_label}")
    closed = sum(bool(node.closed) for node in mirror.nodes.values())
    pools = ", ".join(f"{gpus} {model}" for model, gpus in sorted(models.items()))
    return Finding("nodes", True, f"{len(mirror.nodes)} of {total} are ours: {pools} GPUs; {closed} closed now")


async def _classes(api: Api, settings: LiveSettings) -> Finding:
    there = {item["metadata"]["name"] for item in (await api.list_all("/apis/scheduling.k8s.io/v1/priorityclasses"))[0]}
    missing = [name for name in (*settings.hp_classes, *settings.spot_classes) if name not in there]
    by_number = settings.hp_from_priority is not None and settings.spot_to_priority is not None
    if missing and not by_number:
        return Finding("priority classes", False, f"missing: {', '.join(missing)}")
    return Finding("priority classes", True, ", ".join((*settings.hp_classes, *settings.spot_classes)))
