"""What a pod asks for: GPUs, CPUs and memory, as the API server and kubelets count them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from gfs.domain.limits import MOST_CPUS, MOST_GPUS_A_NODE
from gfs.live.settings import LiveSettings
from gfs.live.translate.quantities import GIB, MOST, quantity
from gfs.live.translate.shape import entries, table

SHARED = ("nvidia.com/mig-", "nvidia.com/gpu.shared", "nvidia.com/gpumem", "nvidia.com/gpucores")
"""Beginnings of resource names that stand for a part of a GPU."""
MOST_MEMORY = 1e8
"""GiB: 100 petabytes. No node has a hundredth of it."""
FRACTION_ANNOTATIONS = ("gfs.dev/gpu-fraction", "gpu-fraction", "gpu-memory")


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


def read_asks(spec: dict[str, Any], settings: LiveSettings) -> Asks:
    """The larger of all containers together and any one init container, plus overhead; sidecars count on top."""
    names = (settings.resource, "cpu", "memory")
    whole = [_sum(entries(spec, "containers"), name) for name in names]
    first = [0.0, 0.0, 0.0]
    sidecars = [0.0, 0.0, 0.0]
    for container in entries(spec, "initContainers"):
        for i, name in enumerate(names):
            asked = _of(container, name)
            if container.get("restartPolicy") == "Always":
                sidecars[i] += asked
                asked = 0.0
            first[i] = max(first[i], asked + sidecars[i])
    overhead, pod_level = table(spec, "overhead"), table(spec, "resources")
    total = [max(whole[i] + sidecars[i], first[i]) for i in range(3)]
    for i, name in enumerate(names):
        if i and name in {**table(pod_level, "limits"), **table(pod_level, "requests")}:
            total[i] = _of({"resources": pod_level}, name)
        total[i] += _number(overhead.get(name, 0))
    return Asks(total[0], total[1], total[2] / GIB)


def beyond_all_nodes(asks: Asks) -> str:
    """Which of its asks no node could ever meet; empty: none."""
    for much, most, what in (
        (asks.gpus, MOST_GPUS_A_NODE, "GPUs"),
        (asks.cpus, MOST_CPUS, "CPUs"),
        (asks.memory, MOST_MEMORY, "GiB of memory"),
    ):
        if much > most:
            return f"{much:g} {what}"
    return ""


def uncounted(spec: dict[str, Any], settings: LiveSettings) -> str:
    """A resource that it asks for and that we do not count; empty: there is none."""
    counted = {settings.resource, "cpu", "memory", *settings.ignored_resources}
    parts = [*entries(spec, "containers"), *entries(spec, "initContainers"), spec]
    asked = [table(table(part, "resources"), kind) for part in parts for kind in ("requests", "limits")]
    for resources in (*asked, table(spec, "overhead")):
        for name, much in resources.items():
            if name not in counted and _number(much) > 0:
                return str(name)
    return ""


def part_of_a_gpu(pod: Any, gpus: float) -> str:
    """What makes it a request of a part of a GPU, which only simulations know; empty: nothing does."""
    if gpus != int(gpus):
        return f"{gpus:g} GPUs"
    for container in (*entries(table(pod, "spec"), "containers"), *entries(table(pod, "spec"), "initContainers")):
        for kind in ("requests", "limits"):
            for name in table(table(container, "resources"), kind):
                if str(name).startswith(SHARED):
                    return f"resource {name}"
    annotations = table(table(pod, "metadata"), "annotations")
    return next((f"annotation {name}" for name in FRACTION_ANNOTATIONS if name in annotations), "")


def _sum(containers: list[dict[str, Any]], name: str) -> float:
    return sum(_of(container, name) for container in containers)


def _of(container: dict[str, Any], name: str) -> float:
    resources = table(container, "resources")
    requests, limits = table(resources, "requests"), table(resources, "limits")
    return _number(requests.get(name, limits.get(name, 0)))


def _number(asked: Any) -> float:
    """What is asked for; what cannot be counted is more than anybody has, never nothing."""
    number = quantity(asked)
    return MOST if number is None else number
