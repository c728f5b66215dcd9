"""Topology domains of a task: all its pods on nodes with one value of a label, such as one rack."""

from __future__ import annotations

from collections.abc import Iterable

from gfs.core.filters.topology import DomainRule
from gfs.core.node import Place
from gfs.core.pool import Pool
from gfs.domain.task import Role, Task

Roles = tuple[Role, ...]
"""The roles of a task, bound to one domain if it names a topology key."""


def options_of(pool: Pool, task: Task) -> dict[str, Roles]:
    """Returns the task's roles; with a topology key for every domain, in the order of its first node."""
    key = task.topology_key
    if not key:
        return {"": task.roles}
    values = dict.fromkeys(node.spec.label(key) for node in pool.nodes if not node.closed)
    rules = {value: (DomainRule(key, value),) for value in values if value}
    return {
        value: tuple(role.of(task, role.number, rules=rule) for role in task.roles) for value, rule in rules.items()
    }


def places_of(task: Task, places: list[Place]) -> list[Place]:
    """Returns the places with the task's own roles, which name no domain."""
    roles = task.roles
    return [(node, roles[role.number], pods, slot) for node, role, pods, slot in places]


def tightest_first(pool: Pool, options: Iterable[Roles]) -> list[Roles]:
    """Returns the domains with room for as many pods of each role as it has, those with the least room first."""
    with_room: list[tuple[int, int, Roles]] = []
    for position, roles in enumerate(options):
        slots = [pool.slots(role) for role in roles]
        if all(found >= role.pods for found, role in zip(slots, roles, strict=True)):
            least = min(found - role.pods for found, role in zip(slots, roles, strict=True))
            with_room.append((least, position, roles))
    return [roles for *_, roles in sorted(with_room)]
