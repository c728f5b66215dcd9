"""How many pods of a task find room, where more than cards decides, without looking at every node each time.

Nodes on which equally much is free share a *profile*. How many pods of one ask (cards, CPUs, memory, node filter)
find room is added up over the profiles once; from then on the nodes that have changed correct the sum. So a
question costs as many looks as nodes have changed since the same ask was last counted, however large the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING

from gfs.domain.task import Task
from gfs.domain.units import MICRO

if TYPE_CHECKING:
    from gfs.core.node import Node

MOST_ASKS = 256
"""Asks whose count is remembered; with more than this, all are counted again when next asked for."""
MOST_CHANGES = 4096
"""Changes of nodes that are remembered; an ask that has missed more is counted again."""
FEW = 64
"""So many nodes with room are compared with each other; with more, one of them is met soon in the placer's order."""

Resources = tuple[float, float, float]
"""CPUs, GiB of memory, and pods."""

Profile = tuple[int, int, tuple[tuple[int, int], ...], str, Resources, Resources]
"""Idle cards, cards without HP, (HP, spot) parts of divided cards, group, what is free, and that without spot."""

PodsBy = Callable[[Resources, Task], float]
"""How many pods of the task such resources allow."""


class _Count:
    """What is known of one ask."""

    __slots__ = ("profiles", "seen", "total")

    def __init__(self) -> None:
        self.total = 0
        """Pods that find room."""
        self.seen = 0
        """Changes that the total takes account of."""
        self.profiles: dict[Profile, None] = {}
        """Profiles with room for a pod; nodes may have left them since."""


class Room:
    """Counts the pods that find room on the nodes of a pool."""

    def __init__(self, nodes: Iterable[Node], changed: Callable[[], Iterable[Node]], allowed: PodsBy) -> None:
        """`changed` gives the nodes that have changed since it was last called."""
        self._changed = changed
        self._allowed = allowed
        self._profile: dict[Node, Profile] = {}
        self._nodes: dict[Profile, dict[Node, None]] = {}
        self._changes: list[tuple[Profile, Profile]] = []
        """What nodes were and what they have become, in order."""
        self._counts: dict[Hashable, _Count] = {}
        for node in nodes:
            self._profile[node] = profile = _profile(node)
            self._nodes.setdefault(profile, {})[node] = None

    def pods(self, task: Task, *, without_spot: bool = False) -> int:
        """How many pods of the task find room now, or would if every spot task went."""
        return self._count(task, without_spot).total

    def few_nodes(self, task: Task, *, without_spot: bool = False) -> list[Node] | None:
        """The nodes with room for a pod if these are few, in no particular order; None: there are many."""
        count = self._count(task, without_spot)
        found: list[Node] = []
        for profile in list(count.profiles):
            nodes = self._nodes.get(profile)
            if nodes is None:
                del count.profiles[profile]
                continue
            if len(found) + len(nodes) > FEW:
                return None
            found += nodes
        return found

    def _count(self, task: Task, without_spot: bool) -> _Count:
        self._catch_up()
        ask = (task.gpus_per_pod, task.cpus_per_pod, task.memory_per_pod, task.node_filter, without_spot)
        count = self._counts.get(ask)
        if count is None:
            if len(self._counts) >= MOST_ASKS:
                self._counts.clear()
            count = self._counts[ask] = _Count()
            for profile, nodes in self._nodes.items():
                self._add(count, profile, len(nodes), task, without_spot)
        else:
            for old, new in self._changes[count.seen :]:
                self._add(count, old, -1, task, without_spot)
                self._add(count, new, +1, task, without_spot)
        count.seen = len(self._changes)
        return count

    def _add(self, count: _Count, profile: Profile, nodes: int, task: Task, without_spot: bool) -> None:
        pods = self._pods_on(profile, task, without_spot)
        if pods:
            count.total += nodes * pods
            count.profiles[profile] = None

    def _pods_on(self, profile: Profile, task: Task, without_spot: bool) -> int:
        """How many pods of the task find room on one node with this profile."""
        idle, hp_free, parts, group, free, free_without_spot = profile
        if task.node_filter is not None and group not in task.node_filter.groups:
            return 0
        cards, share = task.cards, task.share
        if cards:
            pods = (hp_free if without_spot else idle) // cards
        elif without_spot:
            pods = hp_free * (MICRO // share) + sum((MICRO - hp) // share for hp, _ in parts if hp)
        else:
            pods = idle * (MICRO // share) + sum((MICRO - hp - spot) // share for hp, spot in parts)
        if not pods:
            return 0
        return int(min(pods, self._allowed(free_without_spot if without_spot else free, task)))

    def _catch_up(self) -> None:
        for node in self._changed():
            old, new = self._profile[node], _profile(node)
            if new == old:
                continue
            self._profile[node] = new
            del self._nodes[old][node]
            if not self._nodes[old]:
                del self._nodes[old]
            self._nodes.setdefault(new, {})[node] = None
            self._changes.append((old, new))
        if len(self._changes) > MOST_CHANGES:
            self._changes.clear()
            self._counts.clear()


def _profile(node: Node) -> Profile:
    parts = tuple(sorted((hp, spot) for hp, spot in node.parts())) if node.shares else ()
    return node.idle, node.hp_free, parts, node.spec.group, node.free_resources, node.free_without_spot
