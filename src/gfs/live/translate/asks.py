"""What a pod asks for: GPUs, CPUs and memory, as the API server and kubelets count them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from gfs.live.settings import LiveSettings
from gfs.live.translate.quantities import GIB, MOST, quantity
from gfs.live.translate.shape import Json, entries, table

SLACK = 1e-6
"""CPUs or GiB by which sums may differ: quantities are rounded."""


class Asks(NamedTuple):
    """What a pod takes of its node, what several pods take together, or what a node has."""

    gpus: float
    cpus: float
    memory: float
    """GiB."""
    pods: int = 1

    def within(self, has: Asks) -> bool:
        """Returns whether a node that has so much can give this."""
        return (
            self.gpus <= has.gpus
            and self.cpus <= has.cpus + SLACK
            and self.memory <= has.memory + SLACK
            and self.pods <= has.pods
        )


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
    containers, init_containers = entries(spec, "containers"), entries(spec, "initContainers")
    pod_level, overhead = table(spec, "resources"), table(spec, "overhead")
    asked = []
    for name in (settings.resource, "cpu", "memory"):
        largest = sidecars = 0.0
        for container in init_containers:
            if container.get("restartPolicy") == "Always":
                sidecars += _of(container, name)
                largest = max(largest, sidecars)
            else:
                largest = max(largest, _of(container, name) + sidecars)
        much = max(sum(_of(container, name) for container in containers) + sidecars, largest)
        if name != settings.resource and name in {**table(pod_level, "limits"), **table(pod_level, "requests")}:
            much = _of(spec, name)
        asked.append(much + number(overhead.get(name, 0)))
    return Asks(asked[0], asked[1], asked[2] / GIB)


def _of(container: Json, name: str) -> float:
    resources = table(container, "resources")
    requests, limits = table(resources, "requests"), table(resources, "limits")
    return number(requests.get(name, limits.get(name, 0)))


def number(asked: Any) -> float:
    """Returns the amount. An amount that cannot be read counts as more than any node has."""
    found = quantity(asked)
    return MOST if found is None else found
