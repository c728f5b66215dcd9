"""What a pod asks for: GPUs, CPUs and memory, as the API server and kubelets count them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gfs.live.settings import LiveSettings
from gfs.live.translate.quantities import GIB, MOST, quantity
from gfs.live.translate.shape import Json, entries, table

SLACK = 1e-6
"""CPUs or GiB by which sums may differ: quantities are rounded. GPUs and pods are whole numbers."""


class Asks(NamedTuple):
    """What a pod takes of its node, what several pods take together, or what a node has."""

    gpus: float
    cpus: float
    memory: float
    """GiB."""
    pods: int = 1

    def within(self, has: Asks) -> bool:
        """Returns whether a node that has so much can give this. What is not asked for cannot be short."""
        return all(not asked or asked <= there + SLACK for asked, there in zip(self, has, strict=True))


def total(asks: Iterable[Asks]) -> Asks:
    """Returns what all of these take together."""
    gpus = cpus = memory = 0.0
    pods = 0
    for each in asks:
        gpus, cpus, memory, pods = gpus + each.gpus, cpus + each.cpus, memory + each.memory, pods + each.pods
    return Asks(gpus, cpus, memory, pods)


def less(has: Asks, taken: Asks) -> Asks:
    """Returns what is left; below 0 where more is taken than there is."""
    return Asks(has.gpus - taken.gpus, has.cpus - taken.cpus, has.memory - taken.memory, has.pods - taken.pods)


def read_asks(spec: Json, settings: LiveSettings) -> Asks:
    """Returns the larger of all containers and any one init container, plus overhead; sidecars count on top."""
    containers = [requests(each) for each in entries(spec, "containers")]
    init_containers = [(requests(each), each.get("restartPolicy")) for each in entries(spec, "initContainers")]
    pod_level, overhead = requests(spec), table(spec, "overhead")
    asked = []
    for name in (settings.resource, "cpu", "memory"):
        largest = sidecars = 0.0
        for container, restart in init_containers:
            alone = amount(container, name)
            largest = max(largest, sidecars + alone)
            sidecars += alone if restart == "Always" else 0.0
        much = max(sum(amount(container, name) for container in containers) + sidecars, largest)
        if name != settings.resource and name in pod_level:
            much = amount(pod_level, name)
        asked.append(much + amount(overhead, name))
    return Asks(asked[0], asked[1], asked[2] / GIB)


def requests(part: Json) -> Json:
    """Returns what a container, or a pod as a whole, requests; its limit stands for a request that is missing."""
    resources = table(part, "resources")
    return {**table(resources, "limits"), **table(resources, "requests")}


def amount(asked: Json, name: str) -> float:
    """Returns the amount of a resource. An amount that cannot be read counts as more than any node has."""
    found = quantity(asked[name]) if name in asked else 0.0
    return MOST if found is None else found
