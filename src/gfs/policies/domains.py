"""Topology domains of a task: all its pods on nodes with one value of a label, such as one rack."""

from __future__ import annotations

from typing import NamedTuple

from gfs.core.filters.topology import DomainRule
from gfs.core.node import Place
from gfs.core.pool import Pool
from gfs.domain.task import Role, Task


class Domain(NamedTuple):
    """A value of the label, and the task's roles bound to it."""

    value: str
    roles: tuple[Role, ...]


def domains_of(pool: Pool, task: Task) -> list[Domain]:
    """Returns every domain that the task could run in, in the order of its first node."""
    key = task.topology_key
    values = dict.fromkeys(node.spec.label(key) for node in pool.nodes if not node.closed)
    rules = [(value, (DomainRule(key, value),)) for value in values if value]
    return [
        Domain(value, tuple(role.of(task, role.number, rules=rule) for role in task.roles)) for value, rule in rules
    ]


def places_of(task: Task, places: list[Place]) -> list[Place]:
    """Returns the places with the task's own roles, which name no domain."""
    roles = task.roles
    return [(node, roles[role.number], pods, slot) for node, role, pods, slot in places]


def tightest_first(pool: Pool, domains: list[Domain]) -> list[Domain]:
    """Returns the domains with room for as many pods of each role as it has, those with the least room first."""
    with_room: list[tuple[int, int, Domain]] = []
    for position, domain in enumerate(domains):
        slots = [pool.slots(role) for role in domain.roles]
        if all(found >= role.pods for found, role in zip(slots, domain.roles, strict=True)):
            with_room.append((sum(slots), position, domain))
    return [domain for *_, domain in sorted(with_room)]
