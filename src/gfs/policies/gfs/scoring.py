"""Where GFS puts a pod on idle cards: packing, then co-location, then eviction history (Alg. 1 of the paper).

score1  1 - idle/total: the fullest node that still fits;
score2  share of the node's cards held by the task's own class (a divided card counts if the class is on it);
score3  e = gamma * e_1h + (1 - gamma) * e_24h / 24; spot: max(1 - 0.01 m^e, 0), HP: min(0.01 m^e, 1);
        a node whose spot score is 0 is closed to spot tasks until it cools down (circuit breaker).
Compared in this order, ties by node id. score3 is compared to nine digits, so that the last bit of a
platform's power function decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from math import lcm, log

from gfs.core.index import Bucket, NodeIndex, Rank
from gfs.core.ledger import NO_EVICTIONS
from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.ports import Placer
from gfs.core.state import PoolState
from gfs.domain.task import Priority, Role, Task

SCORE3_STEPS = 10**9
MOST_COMBINATIONS = 1 << 14
"""Combinations of numbers whose bucket is remembered: a long life would see more and more of them."""


def eviction_pressure(last_hour: int, last_day: int, gamma: float) -> float:
    """The paper's weighted eviction rate of a node, in evictions per hour."""
    return gamma * last_hour + (1 - gamma) * last_day / 24


def score3(priority: Priority, pressure: float, m: float) -> float:
    """How welcome a class is on a node with this eviction pressure: 0 to 1, higher is better."""
    saturated = pressure * log(m) >= log(100)
    penalty = 1.0 if saturated else 0.01 * float(m**pressure)
    score = max(1 - penalty, 0.0) if priority is Priority.SPOT else min(penalty, 1.0)
    return round(score, 9)


class GfsPlacer(Listener, Placer):
    """An index of buckets with equal scores, with a view per class, updated change by change."""

    __slots__ = (
        "_bits", "_buckets", "_closed", "_evictions", "_gamma", "_index", "_m", "_marks", "_nodes", "_parts", "_ratios",
        "_reopened",
    )  # fmt: skip

    fills_up = True  # a pod raises its node's score1 and score2
    packing_first = True
    """Whether a fuller node comes before every emptier one."""
    views: tuple[Priority, ...] = tuple(Priority)
    """Orders in which nodes are kept, each for a class."""

    def __init__(self, state: PoolState, *, gamma: float = 0.8, m: float = 3.0) -> None:
        pool = state.pool
        super().__init__(pool)
        self._nodes = pool.nodes
        self._gamma, self._m = gamma, m
        self._evictions = state.evictions.counts
        self._ratios = sorted({Fraction(idle, size) for size in pool.sizes for idle in range(size + 1)})
        self._parts = lcm(*pool.sizes)
        self._bits = max(self._parts, len(self._ratios)).bit_length()
        fullest_first = self.packing_first and len(pool.sizes) == 1
        self._index = NodeIndex(pool, views=len(self.views), fullest_first=fullest_first)
        self._buckets: dict[tuple[int, ...], Bucket] = {}
        self._closed: set[int] = set()
        self._reopened = False
        self._marks = [self._marked(node) for node in pool.nodes]
        """Nodes that differ from others in more than the cards that are held."""
        self._index.follow(
            plain=lambda size, idle, hp: self._bucket_for(size, idle, hp, size - idle - hp, 0, 0, 0),
            special=self._special_bucket,
            marked=self._marks,
        )
        self._closed = {i for i, marked in enumerate(self._marks) if marked and self._is_closed(self._nodes[i])}
        state.listen(self)

    def choose(self, role: Role) -> Node | None:
        """The top node by (score1, score2, score3, id) for one more pod of the task."""
        return self._index.choose(role, role.priority)

    def ranked(self, role: Role) -> Iterator[Node]:
        """The nodes with cards for one more pod of the task, best first."""
        return self._index.ranked(role, self._view(role))

    def best_of(self, role: Role, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod; None if it refuses them."""
        return self._index.best_of(nodes, self._view(role))

    def _view(self, role: Role) -> int:
        """The order of nodes that counts for the task."""
        return role.priority

    def evictions_changed(self, node: Node) -> None:
        """A node's eviction history is another: it may close to spot tasks, or open again."""
        i = node.index
        if self._is_closed(node):
            self._closed.add(i)
        elif i in self._closed:
            self._closed.discard(i)
            self._reopened = True
        self._refile(node)

    def reopened(self) -> bool:
        """Whether a node has opened to spot tasks since the last time this was asked."""
        reopened, self._reopened = self._reopened, False
        return reopened

    def _refile(self, node: Node) -> None:
        self._marks[node.index] = self._marked(node)
        self._index.file(node)

    def _marked(self, node: Node) -> bool:
        return node.name in self._evictions

    def kept_from_spot(self) -> dict[Node, Task | None]:
        """The nodes that the circuit breaker keeps closed."""
        return {self._nodes[i]: None for i in sorted(self._closed)}

    def closed(self, task: Task) -> tuple[int, str]:
        """Nodes with idle cards for a pod of this spot task that the circuit breaker keeps closed."""
        if not task.is_spot:
            return 0, ""
        return sum(self._nodes[i].idle >= max(task.cards, 1) for i in self._closed), ""

    def _special_bucket(self, node: Node) -> Bucket:
        """The bucket of a node with an eviction history or divided cards."""
        evictions = self._evictions.get(node.name, NO_EVICTIONS)
        return self._bucket_for(node.total, node.idle, node.hp_cards, node.spot_cards, *evictions, node.room)

    def _bucket_for(
        self, size: int, idle: int, hp_cards: int, spot_cards: int, last_hour: int, last_day: int, room: int
    ) -> Bucket:
        """The bucket of nodes with these numbers, its rank in each view put together from the three scores."""
        key = (size, idle, hp_cards, spot_cards, last_hour, last_day, room)
        known = self._buckets.get(key)
        if known is None:
            if len(self._buckets) > MOST_COMBINATIONS:
                self._buckets.clear()
            packing = self._ratios.index(Fraction(idle, size))
            pressure = eviction_pressure(last_hour, last_day, self._gamma)
            ranks: list[Rank] = []
            part = self._parts // size
            for view, priority in enumerate(self.views):
                compared = self._compared(view, packing, hp_cards * part, spot_cards * part)
                if compared is None:
                    ranks.append(None)
                    continue
                first, second = compared
                unwelcome = round((1 - score3(priority, pressure, self._m)) * SCORE3_STEPS)
                ranks.append((first << self._bits | second) << 32 | unwelcome)
            if self._is_saturated(last_hour, last_day):
                ranks = self._without_spot(ranks)
            known = self._buckets[key] = self._index.bucket(idle, room, tuple(ranks))
        return known

    def _compared(self, view: int, packing: int, hp: int, spot: int) -> tuple[int, int] | None:
        """What is compared first and what then, lower being better: the node's rank by score1, parts it holds.

        None: the node is not for this view.
        """
        return packing, self._parts - (spot if self.views[view] else hp)

    def _without_spot(self, ranks: Sequence[Rank]) -> list[Rank]:
        """The ranks of a node that is closed to spot tasks."""
        return [None if priority else rank for priority, rank in zip(self.views, ranks, strict=True)]

    def _is_closed(self, node: Node) -> bool:
        """The circuit breaker: a spot score of 0."""
        return self._is_saturated(*self._evictions.get(node.name, NO_EVICTIONS))

    def _is_saturated(self, last_hour: int, last_day: int) -> bool:
        return score3(Priority.SPOT, eviction_pressure(last_hour, last_day, self._gamma), self._m) == 0


FEW_EMPTY, KEPT_EMPTY = 1 / 16, 1 / 50
"""Of the nodes: while so few are empty, `ClassSeparatingPlacer` fills gaps first; so few it leaves to HP altogether,
at most."""

BESIDE_HP, AWAY_FROM_HP, INTO_GAPS, GAPS_ONLY = range(4)
"""Its views."""


class ClassSeparatingPlacer(GfsPlacer):
    """Where `gfs-plus` puts a pod: HP beside HP, spot away from it (docs/concepts/gfs-plus.md).

    The paper fills the fullest node, whoever is on it. So spot tasks decide where HP tasks go, and when they leave,
    HP is scattered: a later HP gang finds too few whole nodes, and no eviction helps it. Here an HP pod goes where
    most cards are held by HP, a spot pod where fewest are, and only among equals to the fullest node. Away from HP
    means on empty nodes, which HP pods of whole nodes need next: while few nodes are empty, spot tasks fill gaps as in
    the paper, and the last empty ones are not for them; once none is, away is better again.
    """

    packing_first = False
    views = (Priority.HP, Priority.SPOT, Priority.SPOT, Priority.SPOT)

    def __init__(
        self, state: PoolState, *, gamma: float = 0.8, m: float = 3.0, caution: Callable[[], float] = lambda: 1.0
    ) -> None:
        """`caution`: from 1, all that is kept empty is, to 0: nothing is."""
        super().__init__(state, gamma=gamma, m=m)
        pool = state.pool
        self._largest = pool.sizes[-1]
        self._few = FEW_EMPTY * len(pool.nodes)
        self._most_kept = KEPT_EMPTY * len(pool.nodes)
        self._caution = caution

    def choose(self, role: Role) -> Node | None:
        """The best node for one more pod of the task in the order that counts for it."""
        return self._index.choose(role, self._view(role))

    def closed(self, task: Task) -> tuple[int, str]:
        """Nodes with room that a spot task may not have: those that the circuit breaker closes, and the last empty."""
        closed, why = super().closed(task)
        kept = min(self.pool.idle_slots(self._largest), self._kept()) if task.is_spot else 0
        return closed + kept, "kept empty for HP" if kept else why

    def _view(self, role: Role) -> int:
        """The order of nodes that counts for the role."""
        if not role.is_spot:
            return BESIDE_HP
        empty = self.pool.idle_slots(self._largest)
        if not 0 < empty <= self._few:
            return AWAY_FROM_HP
        return INTO_GAPS if empty > self._kept() else GAPS_ONLY

    def _kept(self) -> int:
        """So many of the nodes are not for spot tasks while they are empty."""
        return int(self._most_kept * self._caution())

    def _compared(self, view: int, packing: int, hp: int, spot: int) -> tuple[int, int] | None:
        match view:
            case 0:  # beside HP
                return self._parts - hp, packing
            case 1:  # away from HP
                return hp, packing
            case 2:  # into the gaps
                return packing, self._parts - spot
            case _:  # nowhere else
                return (packing, self._parts - spot) if hp or spot else None
