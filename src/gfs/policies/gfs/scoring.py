"""Where GFS puts a pod on idle cards: packing, then co-location, then eviction history (Alg. 2, SPEC 3).

score1  1 - idle/total: the fullest node that still fits;
score2  share of the node's cards held by the task's own class (a divided card counts if the class is on it);
score3  e = gamma * e_1h + (1 - gamma) * e_24h / 24; spot: max(1 - 0.01 m^e, 0), HP: min(0.01 m^e, 1);
        a node whose spot score is 0 is closed to spot tasks until it cools down (circuit breaker).
Compared in this order, ties by node id. score3 is compared to nine digits, so that the last bit of a
platform's power function decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import lcm

from gfs.core.index import ABSENT, NODE_BITS, NodeIndex
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.domain.task import Kind, Task
from gfs.policies.gfs.history import EvictionHistory

SCORE3_STEPS = 10**9
_SCORE3_BITS = 30


def eviction_pressure(last_hour: int, last_day: int, gamma: float) -> float:
    """The paper's weighted eviction rate of a node, in evictions per hour."""
    return gamma * last_hour + (1 - gamma) * last_day / 24


def score3(kind: Kind, pressure: float, m: float) -> float:
    """How welcome a class is on a node with this eviction pressure: 0 to 1, higher is better."""
    penalty = 0.01 * float(m ** min(pressure, 1000.0))
    score = max(1 - penalty, 0.0) if kind is Kind.SPOT else min(penalty, 1.0)
    return round(score, 9)


class GfsPlacer:
    """An index over the three scores with a view per class, updated change by change."""

    def __init__(self, pool: Pool, *, gamma: float = 0.8, m: float = 3.0) -> None:
        self._pool = pool
        self._nodes = pool.nodes
        self._gamma, self._m = gamma, m
        count = len(pool.nodes)
        self._history = EvictionHistory(count)
        self.next_change = float("inf")
        # Keys: [cards missing to 'all held by the class', in equal parts of a node | score3 | node id].
        parts = lcm(*pool.sizes)
        self._own = [
            [(parts - held * parts // size) << (_SCORE3_BITS + NODE_BITS) for held in range(size + 1)]
            for size in pool.sizes
        ]
        self._score_keys: dict[tuple[int, int], tuple[int, int]] = {}
        self._index = NodeIndex(count, pool.sizes, Fraction)
        self._closed: set[int] = set()
        self._update = self._updater()
        for node in pool.nodes:
            self._update(node)
        pool.on_change = self._update

    def choose(self, task: Task) -> Node | None:
        """The top node by (score1, score2, score3, id) for one more pod of the task."""
        cards, kind = task.cards, task.kind
        found = self._index.best(cards, kind) if cards else self._index.best_for_share(task.share, kind)
        return None if found == ABSENT else self._nodes[found]

    def evicted(self, node: Node, now: float) -> None:
        """Remember an eviction on `node`."""
        self._history.record(node.index, now)
        self.next_change = self._history.next_change
        self._update(node)

    def advance(self, now: float) -> bool:
        """Forget evictions older than their windows; say whether a node reopened to spot tasks."""
        closed_before = len(self._closed)
        for node in self._history.advance(now):
            self._update(self._nodes[node])
        self.next_change = self._history.next_change
        return len(self._closed) < closed_before

    def closed(self, task: Task) -> int:
        """Nodes with idle cards for a pod of this spot task that the circuit breaker keeps closed."""
        if not task.kind:
            return 0
        return sum(self._nodes[i].idle >= max(task.cards, 1) for i in self._closed)

    def _updater(self) -> Callable[[Node], None]:
        """The function that files a node by its scores. It runs at every change, so all it needs is bound."""
        put, offsets, owns = self._index.put, self._index.offsets, self._own
        last_hour, last_day = self._history.last_hour, self._history.last_day
        cold_hp, cold_spot = self._score_key(0, 0)
        score_key, closed = self._score_key, self._closed

        def update(node: Node) -> None:
            i, idle, size = node.index, node.idle, node.size_rank
            own = owns[size]
            if last_day[i]:
                hp_score, spot_score = score_key(last_hour[i], last_day[i])
            else:
                hp_score, spot_score = cold_hp, cold_spot
            spot_key = own[node.spot_cards] | spot_score | i
            if spot_score < 0:
                spot_key = ABSENT
                closed.add(i)
            elif closed:
                closed.discard(i)
            put(i, offsets[size] + idle, idle, node.room, own[node.hp_cards] | hp_score | i, spot_key)

        return update

    def _score_key(self, last_hour: int, last_day: int) -> tuple[int, int]:
        """score3 of both classes as key bits (0 is best); ABSENT for a node closed to spot."""
        known = self._score_keys.get((last_hour, last_day))
        if known is None:
            pressure = eviction_pressure(last_hour, last_day, self._gamma)
            hp, spot = (
                round((1 - score3(kind, pressure, self._m)) * SCORE3_STEPS) << NODE_BITS
                for kind in (Kind.HP, Kind.SPOT)
            )
            if score3(Kind.SPOT, pressure, self._m) == 0:
                spot = ABSENT
            known = self._score_keys[last_hour, last_day] = (hp, spot)
        return known
