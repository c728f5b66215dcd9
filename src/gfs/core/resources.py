"""A pool in which CPUs, memory and pods per node count beside cards (`resources=on`; a live cluster always).

What a node does not state is not limited. Off, none of this runs: the plain `Pool` knows only cards.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, inf

from gfs.core.node import SLACK, Node, Place
from gfs.core.pool import Pool, admits
from gfs.core.room import Resources
from gfs.core.run import Run
from gfs.domain.task import Task


class ResourcePool(Pool):
    """Keeps count of what pods take of their nodes besides cards."""

    __slots__ = ()

    counts_resources = True

    def plain(self, task: Task) -> bool:
        """Never: every task takes a pod's place at least."""
        return False

    def fits(self, node: Node, task: Task) -> bool:
        """Whether filter, CPUs, memory and pods allow one more pod."""
        return (
            admits(node, task)
            and node.free_cpus + SLACK >= task.cpus_per_pod
            and node.free_memory + SLACK >= task.memory_per_pod
            and node.free_pods >= 1
        )

    def could_fit(self, node: Node, task: Task, gone: Iterable[Run]) -> bool:
        """The same, once these spot runs have gone."""
        if not admits(node, task):
            return False
        cpus, memory, pods = node.free_cpus, node.free_memory, node.free_pods
        for run in gone:
            here = run.pods_on(node)
            cpus += here * run.task.cpus_per_pod
            memory += here * run.task.memory_per_pod
            pods += here
        return cpus + SLACK >= task.cpus_per_pod and memory + SLACK >= task.memory_per_pod and pods >= 1

    def allowed(self, free: Resources, task: Task) -> float:
        """How many pods of the task so many free CPUs, GiB and pods allow: none if it is less than nothing."""
        cpus, memory, pods = free
        return min(max(pods, 0), _times(cpus, task.cpus_per_pod), _times(memory, task.memory_per_pod))

    def short_of(self, node: Node, task: Task, *, without_spot: bool = False) -> str:
        """Such as '14 of 96 CPUs free, pod asks 24'."""
        words = super().short_of(node, task, without_spot=without_spot)
        if words:
            return words
        spec = node.spec
        cpus, memory, pods = node.free_without_spot if without_spot else node.free_resources
        for free, has, what in (
            (cpus, spec.cpus, "CPUs"),
            (memory, spec.memory, "GiB memory"),
            (pods, spec.pods, "pods"),
        ):
            if free < -SLACK:
                beside = " by HP" if without_spot else ""
                return f"{has - free:.4g} {what} are in use{beside}, more than its {has:.4g}"
        least = self.allowed((cpus, memory, pods), task)  # what allows no more pods than all together is short
        if least == _times(cpus, task.cpus_per_pod):
            return f"{cpus:.4g} of {spec.cpus:.4g} CPUs free, pod asks {task.cpus_per_pod:.4g}"
        if least == _times(memory, task.memory_per_pod):
            return f"{memory:.4g} of {spec.memory:.4g} GiB memory free, pod asks {task.memory_per_pod:.4g}"
        if pods < 1 and not without_spot:
            return f"{spec.pods} pods run there and it takes no more"
        return f"it takes {max(pods, 0):g} more pods of {spec.pods} at most"

    # -- accounts ----------------------------------------------------------------------------------

    def occupy(self, node: Node, task: Task, pods: int = 1) -> Place:
        """Give pods of the task their cards on `node`, lowest numbers first. Fractions one at a time."""
        place = super().occupy(node, task, pods)
        if task.cards:  # a fraction is held by `hold`
            _take(node, task, pods)
        return place

    def hold(self, place: Place, task: Task) -> None:
        """Take exactly the cards of `place`, which must be free."""
        super().hold(place, task)
        _take(place[0], task, _pods(place, task))

    def release(self, places: Iterable[Place], task: Task) -> None:
        """Give back what the task holds."""
        super().release(places, task)
        for place in places:
            _take(place[0], task, -_pods(place, task))


def _pods(place: Place, task: Task) -> int:
    return place[2] // task.cards if task.cards else 1


def _take(node: Node, task: Task, pods: int) -> None:
    if task.is_spot:
        node.spot_cpus += pods * task.cpus_per_pod
        node.spot_memory += pods * task.memory_per_pod
        node.spot_pods += pods
    node.free_cpus -= pods * task.cpus_per_pod
    node.free_memory -= pods * task.memory_per_pod
    node.free_pods -= pods


def _times(free: float, each: float) -> float:
    if free < -SLACK:
        return 0
    return floor((free + SLACK) / each) if each and free < inf else inf
