"""The best node for a pod without looking at the others: nodes in buckets, updated change by change.

Nodes that a scheduler cannot tell apart share a bucket: the same idle cards, the same scores. A bucket keeps
its nodes sorted by position, so that the first one is at hand, and each level of idle cards keeps its buckets
sorted by rank. A change moves one node from one bucket to another; empty buckets are cleared out when a level
has gathered many. So a choice costs a few looks, in a pool of 30 nodes and of 30,000. Only a fraction looks
further: at each size of gap that divided cards have on nodes without an idle card.

Views are for classes that rank the same buckets differently.
"""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, groupby
from typing import Any

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.domain.task import Role

Rank = Any
"""A number, or a tuple of criteria; lower is better. None: not for this view."""


def _rank(entry: tuple[Rank, Bucket]) -> Rank:
    return entry[0]


MANY = 8
"""A level with more buckets than this is looked through for empty ones."""
MOST_BUCKETS = 4096
"""With more buckets than this those without nodes are forgotten now and then."""


Nodes = list[int]
"""~position of nodes, sorted: the first node stands last, where it is cheap to take away."""


class Bucket:
    """Nodes that rank the same in every view."""

    __slots__ = ("idle", "listed", "nodes", "ranks", "room", "tied")

    def __init__(self, idle: int, room: int, ranks: tuple[Rank, ...]) -> None:
        self.nodes: Nodes = []
        self.idle = idle
        self.room = room
        """Largest free part of a divided card in micro-cards; looked at only where no card is idle."""
        self.ranks = ranks
        self.listed = False
        """Whether it stands in its level, in each view that ranks it."""
        self.tied = False
        """Whether another bucket of its level has had the same rank in some view."""

    @property
    def first(self) -> int:
        """The lowest position of its nodes; there must be one."""
        return ~self.nodes[-1]


class _Level:
    """The buckets with one number of idle cards, best first, per view."""

    __slots__ = ("limit", "nodes", "views")

    def __init__(self, views: int) -> None:
        self.views: list[list[tuple[Rank, int, Bucket]]] = [[] for _ in range(views)]
        """View -> (rank, serial number, bucket), sorted."""
        self.nodes: list[list[Nodes]] = [[] for _ in range(views)]
        """View -> the nodes of these buckets."""
        self.limit = MANY

    def refresh(self) -> None:
        """Its buckets are other ones."""
        for nodes, entries in zip(self.nodes, self.views, strict=True):
            nodes[:] = [bucket.nodes for _, _, bucket in entries]


class NodeIndex:
    """The best node with at least so many idle cards, or with room for a fraction on a divided card."""

    __slots__ = (
        "_bucket_of", "_buckets", "_fullest_first", "_keys", "_largest", "_levels", "_marked", "_most", "_nodes",
        "_nodes_from", "_nowhere", "_pool", "_serial", "_special", "_table", "_views",
    )  # fmt: skip

    def __init__(self, pool: Pool, *, views: int = 1, fullest_first: bool = True) -> None:
        """`fullest_first`: a bucket with fewer idle cards ranks before every one with more, in all views."""
        nodes = pool.nodes
        self._largest = largest = pool.sizes[-1]
        self._pool = pool
        self._nodes = nodes
        self._fullest_first = fullest_first
        self._nowhere = Bucket(0, 0, (None,) * views)
        self._bucket_of = [self._nowhere] * len(nodes)
        self._keys = [~i for i in range(len(nodes))]
        """What stands for a node in its bucket: made once, for numbers beyond 256 are objects of their own."""
        self._buckets: dict[tuple[int, int, tuple[Rank, ...]], Bucket] = {}
        self._levels = [_Level(views) for _ in range(largest + 1)]
        self._views = [[level.views[view] for level in self._levels] for view in range(views)]
        """The same lists by view, then by idle cards."""
        self._nodes_from = [
            [[level.nodes[view] for level in self._levels[cards:]] for cards in range(largest + 1)]
            for view in range(views)
        ]
        """View -> cards -> the nodes of the levels with at least so many idle ones, bucket by bucket."""
        self._serial = 0
        self._most = MOST_BUCKETS
        self._table: list[list[list[Bucket]]] = []
        """Rank of a node's size, idle cards, cards without HP -> bucket of nodes without divided cards."""

    def bucket(self, idle: int, room: int, ranks: tuple[Rank, ...]) -> Bucket:
        """The bucket for nodes like this."""
        if idle:
            room = 0  # a fraction can open an idle card
        elif not room:
            return self._nowhere
        key = (idle, room, ranks)
        known = self._buckets.get(key)
        if known is None:
            if len(self._buckets) > self._most:
                self._forget_empty()
            known = self._buckets[key] = Bucket(idle, room, ranks)
        return known

    def _forget_empty(self) -> None:
        """A long life sees many combinations of scores; those without nodes may come again as new buckets."""
        kept = {bucket for by_idle in self._table for by_hp in by_idle for bucket in by_hp}
        used = {key: bucket for key, bucket in self._buckets.items() if bucket.nodes or bucket in kept}
        for level in self._levels:
            gone = [b for entries in level.views for _, _, b in entries if not b.nodes and b not in kept]
            self._delist(gone)
        self._buckets = used
        self._most = MOST_BUCKETS + 2 * len(used)

    def follow(
        self,
        plain: Callable[[int, int, int], Bucket],
        special: Callable[[Node], Bucket],
        marked: Sequence[int] = (),
        at_once: bool = True,
    ) -> None:
        """Put all nodes into their buckets, and from now on those that change.

        `plain(cards, idle, hp_cards)` is asked once for every such triple: nodes without divided cards differ
        in nothing else. Nodes with divided cards, and those whose entry in `marked` is not 0, go to `special`.
        `at_once` off: the owner calls `file` for nodes that have changed, before it asks anything.
        """
        self._special = special
        self._marked = marked or [0] * len(self._nodes)
        self._table = [
            [
                [plain(size, idle, size - free) if free >= idle else self._nowhere for free in range(size + 1)]
                for idle in range(size + 1)
            ]
            for size in self._pool.sizes
        ]
        for node in reversed(self._nodes):  # each goes to the end of its bucket
            self.file(node)
        if at_once:
            self._pool.listeners.node_changed.append(self.file)

    def file(self, node: Node) -> None:
        """Move a node that has changed to its bucket. It runs at every change of every node."""
        i, bucket_of = node.index, self._bucket_of
        if self._marked[i] or node.shares:
            bucket = self._special(node)
        else:
            bucket = self._table[node.size_rank][node.idle][node.hp_free]
        old = bucket_of[i]
        if old is bucket:
            return
        bucket_of[i] = bucket
        nowhere, key = self._nowhere, self._keys[i]
        if old is not nowhere:
            nodes = old.nodes
            del nodes[bisect_left(nodes, key)]
        if bucket is not nowhere:
            insort(bucket.nodes, key)
            if not bucket.listed:
                self._list(bucket)

    def choose(self, role: Role, view: int = 0) -> Node | None:
        """The best node for one more pod of a role. It runs for every pod, so the usual case does without calls."""
        cards = role.cards
        if not cards:
            return self.best_for_share(role.share, view)
        if not self._fullest_first:
            return self.best(cards, view)
        if cards > self._largest:
            return None
        for level in self._nodes_from[view][cards]:
            for nodes in filter(None, level):
                i = ~nodes[-1]
                return self.best(cards, view) if self._bucket_of[i].tied else self._nodes[i]
        return None

    def best(self, need: int, view: int = 0) -> Node | None:
        """The best node with at least `need` idle cards, if there is one."""
        best: Bucket | None = None
        for level in self._views[view][need:]:
            for _, _, bucket in level:
                if bucket.nodes:
                    if bucket.tied:
                        bucket = self._first_of_equals(bucket, level, view)
                    if self._fullest_first:
                        return self._nodes[bucket.first]
                    if best is None or self._before(bucket, best, view):
                        best = bucket
                    break
        return None if best is None else self._nodes[best.first]

    def best_for_share(self, share: int, view: int = 0) -> Node | None:
        """The best node with an idle card, or with a divided card that has room for `share` micro-cards."""
        best: Bucket | None = None
        for rank, _, bucket in self._views[view][0]:
            if bucket.nodes and bucket.room >= share:
                if best is None:
                    best = bucket
                elif rank != best.ranks[view]:
                    break
                elif bucket.first < best.first:
                    best = bucket
        if best is None:
            return self.best(1, view)
        if not self._fullest_first:
            whole = self.best(1, view)
            if whole is not None and self._before(self._bucket_of[whole.index], best, view):
                return whole
        return self._nodes[best.first]

    def ranked(self, role: Role, view: int = 0) -> Iterator[Node]:
        """Every node with cards for one more pod, best first: for pods that ask for more than GPUs."""
        levels = self._views[view]
        entries: list[Iterator[tuple[Rank, Bucket]]] = []
        if role.share:
            entries.append((rank, bucket) for rank, _, bucket in levels[0] if bucket.room >= role.share)
        entries += [((rank, bucket) for rank, _, bucket in level) for level in levels[max(role.cards, 1) :]]
        if self._fullest_first:
            in_turn: Iterator[tuple[Rank, Bucket]] = chain.from_iterable(entries)
        else:
            in_turn = merge(*entries, key=_rank)
        for _, equals in groupby(in_turn, key=lambda entry: (entry[1].idle if self._fullest_first else 0, entry[0])):
            some = [reversed(bucket.nodes) for _, bucket in equals]
            for entry in some[0] if len(some) == 1 else merge(*some, reverse=True):
                yield self._nodes[~entry]

    def best_of(self, nodes: Iterable[Node], view: int = 0) -> Node | None:
        """The one of these nodes that `ranked` would name first; None if none is for this view."""
        ranked = []
        for node in nodes:
            bucket = self._bucket_of[node.index]
            rank = bucket.ranks[view]
            if rank is not None:
                ranked.append((bucket.idle if self._fullest_first else 0, rank, node.index))
        return self._nodes[min(ranked)[2]] if ranked else None

    def _before(self, bucket: Bucket, other: Bucket, view: int) -> bool:
        rank, other_rank = bucket.ranks[view], other.ranks[view]
        if rank != other_rank:
            return bool(rank < other_rank)
        return bucket.first < other.first

    def _first_of_equals(self, bucket: Bucket, level: list[tuple[Rank, int, Bucket]], view: int) -> Bucket:
        """Of the buckets with this one's rank, the one with the first node. Empty ones leave the level."""
        rank = bucket.ranks[view]
        equals = [other for r, _, other in level if r == rank]
        best = min((other for other in equals if other.nodes), key=lambda other: other.first)
        self._delist([other for other in equals if not other.nodes])
        for each, buckets in zip(bucket.ranks, self._levels[bucket.idle].views, strict=True):
            if sum(r == each for r, _, _ in buckets) > 1:
                return best
        bucket.tied = False
        return best

    def _list(self, bucket: Bucket) -> None:
        """Enter a bucket that has its first node into its level."""
        level = self._levels[bucket.idle]
        if len(level.views[0]) + len(level.views[-1]) > 2 * level.limit:
            self._clear_out(level)
        self._serial += 1
        bucket.listed = True
        bucket.tied = False
        for view, rank in enumerate(bucket.ranks):
            if rank is not None:
                buckets = level.views[view]
                position = bisect(buckets, (rank, self._serial, bucket))
                if position and buckets[position - 1][0] == rank:
                    bucket.tied = buckets[position - 1][2].tied = True
                buckets.insert(position, (rank, self._serial, bucket))
        level.refresh()

    def _clear_out(self, level: _Level) -> None:
        """Forget the level's empty buckets until they have nodes again."""
        self._delist([bucket for buckets in level.views for _, _, bucket in buckets if not bucket.nodes])
        level.limit = MANY + max(len(buckets) for buckets in level.views)

    def _delist(self, gone: list[Bucket]) -> None:
        """Take buckets of one level out of it."""
        for bucket in gone:
            bucket.listed = False
        if gone:
            level = self._levels[gone[0].idle]
            for buckets in level.views:
                buckets[:] = [entry for entry in buckets if entry[2].listed]
            level.refresh()
