"""Where `gfs` and `gfs-plus` put a pod on idle GPUs. Each keeps the nodes in an index, best first for each view.

`gfs` (Alg. 1 of the paper): packing, then co-location, then eviction history.
score1  1 - idle/total: the fullest node that still fits;
score2  share of the node's GPUs held by the task's own class (a divided GPU counts if the class is on it);
score3  e = gamma * e_1h + (1 - gamma) * e_24h / 24; spot: max(1 - 0.01 m^e, 0), HP: min(0.01 m^e, 1);
        a node whose spot score is 0 is closed to spot tasks until it cools down (circuit breaker).
Compared in this order, ties by node id. score3 is compared to nine digits, so that the last bit of a
platform's power function decides nothing.

`gfs-plus` (docs/concepts/gfs-plus.md): HP beside HP, spot away from it; then the fullest node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import lcm, log

from gfs.core.index import Bucket, Rank
from gfs.core.ledger import NO_EVICTIONS
from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.state import PoolState
from gfs.domain.task import Priority, Role, Task
from gfs.policies.gfs.reservation import Reservation
from gfs.policies.placement import IndexPlacer

MOST_COMBINATIONS = 1 << 14
"""Combinations of numbers whose bucket is remembered: a long life would see more and more of them."""
FEW_EMPTY, KEPT_EMPTY = 1 / 16, 1 / 50
"""Of the nodes: while so few are empty, spot tasks fill gaps first under `gfs-plus`; so few are left to HP."""


def eviction_pressure(last_hour: int, last_day: int, gamma: float) -> float:
    """The paper's weighted eviction rate of a node, in evictions per hour."""
    return gamma * last_hour + (1 - gamma) * last_day / 24


def score3(priority: Priority, pressure: float, m: float) -> float:
    """How welcome a class is on a node with this eviction pressure: 0 to 1, higher is better."""
    saturated = pressure * log(m) >= log(100)
    penalty = 1.0 if saturated else 0.01 * float(m**pressure)
    score = max(1 - penalty, 0.0) if priority is Priority.SPOT else min(penalty, 1.0)
    return round(score, 9)


class GfsPlacer(Listener, IndexPlacer):
    """The paper's placer: the top node by (score1, score2, score3, id)."""

    def __init__(self, state: PoolState, *, gamma: float = 0.8, m: float = 3.0) -> None:
        nodes, sizes = state.pool.nodes, state.pool.sizes
        super().__init__(state.pool, views=len(Priority), fullest_first=len(sizes) == 1)
        self._gamma, self._m = gamma, m
        self._evictions = state.evictions.counts
        self._parts = lcm(*sizes)
        """Shares of nodes of any size are compared as numbers of such parts."""
        self._bucket = bucket = lru_cache(MOST_COMBINATIONS)(self._bucket_of)
        self._marks = [node.name in self._evictions for node in nodes]
        self._closed = {node.index for node in nodes if self._is_closed(node)}
        self._reopened = False
        self._index.follow(
            plain=lambda size, idle, hp: bucket(size, idle, hp, size - idle - hp, 0, NO_EVICTIONS),
            special=self._special_bucket,
            marked=self._marks,
        )
        state.listen(self)

    def view(self, role: Role) -> int:
        """Returns the order of nodes for the role's class."""
        return role.priority

    def evictions_changed(self, node: Node) -> None:
        """Files a node anew whose eviction history has changed: it may close to spot tasks, or open again."""
        self._marks[node.index] = node.name in self._evictions
        if self._is_closed(node):
            self._closed.add(node.index)
        elif node.index in self._closed:
            self._closed.discard(node.index)
            self._reopened = True
        self._index.file(node)

    def reopened(self) -> bool:
        """Returns whether a node has opened to spot tasks since the last call."""
        reopened, self._reopened = self._reopened, False
        return reopened

    def kept_from_spot(self) -> dict[Node, Task | None]:
        """Returns the nodes that the circuit breaker keeps closed."""
        return {self.pool.nodes[i]: None for i in sorted(self._closed)}

    def closed(self, task: Task) -> tuple[int, str]:
        """Returns how many nodes with idle GPUs for a pod of this spot task the circuit breaker keeps closed."""
        if not task.is_spot:
            return 0, ""
        return sum(self.pool.nodes[i].idle >= max(task.cards, 1) for i in self._closed), ""

    def _score3(self, priority: Priority, evictions: tuple[int, int]) -> float:
        return score3(priority, eviction_pressure(*evictions, self._gamma), self._m)

    def _is_closed(self, node: Node) -> bool:
        """The circuit breaker: a spot score of 0."""
        return self._score3(Priority.SPOT, self._evictions.get(node.name, NO_EVICTIONS)) == 0

    def _special_bucket(self, node: Node) -> Bucket:
        """Returns the bucket of a node with an eviction history or divided GPUs."""
        evictions = self._evictions.get(node.name, NO_EVICTIONS)
        return self._bucket(node.total, node.idle, node.hp_cards, node.spot_cards, node.room, evictions)

    def _bucket_of(
        self, size: int, idle: int, hp_cards: int, spot_cards: int, room: int, evictions: tuple[int, int]
    ) -> Bucket:
        """Returns the bucket of nodes with these numbers."""
        part = self._parts // size
        scores = [self._score3(priority, evictions) for priority in Priority]
        ranks: list[Rank] = [
            (idle * part, -own * part, -score) for own, score in zip((hp_cards, spot_cards), scores, strict=True)
        ]
        if not scores[Priority.SPOT]:
            ranks[Priority.SPOT] = None
        return self._index.bucket(idle, room, tuple(ranks))


BESIDE_HP, AWAY_FROM_HP, INTO_GAPS, GAPS_ONLY = range(4)
"""The views of `GfsPlusPlacer`."""


class GfsPlusPlacer(IndexPlacer):
    """HP beside HP, spot away from it, and nodes reserved for a spot task that has waited too long.

    The paper fills the fullest node, whichever class is on it. So spot tasks decide where HP tasks go, and when they
    leave, HP is scattered: a later HP gang finds too few whole nodes, and no eviction helps it. Here an HP pod goes
    where most GPUs are held by HP, a spot pod where fewest are, and only among equals to the fullest node. Away from
    HP means on empty nodes, which HP pods of whole nodes need next: while a node is empty, spot tasks fill gaps as in
    the paper, and the last empty ones are not for them; once none is, away is better again.
    """

    def __init__(
        self, state: PoolState, reservation: Reservation, *, caution: Callable[[], float] = lambda: 1.0
    ) -> None:
        """`caution`: from 1, all that is kept empty is, to 0: nothing is."""
        pool = state.pool
        super().__init__(pool, views=4, fullest_first=False)
        self._reservation = reservation
        self._caution = caution
        self._largest = pool.sizes[-1]
        self._parts = lcm(*pool.sizes)
        self._reserved = [node in reservation.nodes for node in pool.nodes]
        self._index.follow(
            plain=lambda size, idle, hp: self._bucket(size, idle, hp, size - idle - hp, 0, False),
            special=lambda node: self._bucket(
                node.total, node.idle, node.hp_cards, node.spot_cards, node.room, self._reserved[node.index]
            ),
            marked=self._reserved,
        )
        reservation.observe(self._reservation_changed)

    def choose(self, role: Role) -> Node | None:
        """Returns the node for one more pod of the role: a reserved one first, if it is for its task."""
        reserved = self._reserved_for(role)
        return reserved[0] if reserved else super().choose(role)

    def ranked(self, role: Role) -> Iterator[Node]:
        """Returns the nodes with GPUs for one more pod of the role, those reserved for its task first."""
        yield from self._reserved_for(role)
        yield from super().ranked(role)

    def best_of(self, role: Role, nodes: Iterable[Node]) -> Node | None:
        """Returns the best of these nodes, which all have room for one more pod; None if it refuses them."""
        nodes = set(nodes)
        reserved = [node for node in self._reserved_for(role) if node in nodes]
        return reserved[0] if reserved else super().best_of(role, nodes)

    def closed(self, task: Task) -> tuple[int, str]:
        """Returns how many nodes with room a spot task may not have, the last empty and the reserved ones, and why."""
        if not task.is_spot:
            return 0, ""
        closed = min(self.pool.idle_slots(self._largest), self._kept())
        why = "kept empty for HP" if closed else ""
        reservation = self._reservation
        if reservation.task is None or reservation.is_for(task):
            return closed, why
        return closed + sum(node.idle >= max(task.cards, 1) for node in reservation.nodes), reservation.why()

    def kept_from_spot(self) -> dict[Node, Task | None]:
        """Returns the reserved nodes."""
        return dict.fromkeys(self._reservation.nodes, self._reservation.task)

    def _reserved_for(self, role: Role) -> list[Node]:
        """Returns the nodes with GPUs for one more pod that are reserved for the role's task."""
        reservation = self._reservation
        return [node for node in reservation.nodes if node.idle >= role.cards] if reservation.is_for(role) else []

    def _reservation_changed(self, node: Node) -> None:
        self._reserved[node.index] = node in self._reservation.nodes
        self._index.file(node)

    def view(self, role: Role) -> int:
        """Returns the order of nodes that counts for the role."""
        if not role.is_spot:
            return BESIDE_HP
        empty = self.pool.idle_slots(self._largest)
        if not 0 < empty <= FEW_EMPTY * len(self.pool.nodes):
            return AWAY_FROM_HP
        return INTO_GAPS if empty > self._kept() else GAPS_ONLY

    def _kept(self) -> int:
        """Returns how many nodes are not for spot tasks while they are empty."""
        return int(KEPT_EMPTY * len(self.pool.nodes) * self._caution())

    def _bucket(self, size: int, idle: int, hp_cards: int, spot_cards: int, room: int, reserved: bool) -> Bucket:
        """Returns the bucket of nodes with these numbers."""
        part = self._parts // size
        empty, hp, spot = idle * part, hp_cards * part, spot_cards * part
        beside, away, gaps = (-hp, empty), (hp, empty), (empty, -spot)
        ranks = (beside, None, None, None) if reserved else (beside, away, gaps, gaps if hp or spot else None)
        return self._index.bucket(idle, room, ranks)
