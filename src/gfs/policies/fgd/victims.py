"""Whom an HP pod displaces on a given node, by the same gradient: F after they have gone and the pod is placed.

Without divided cards, all sets of spot runs are weighed whose going lets the pod fit and of which nobody could
stay: fewest victims, then least F, then later tasks first. It is enough to try how many runs of each size go.

With divided cards there are too many sets, so the runs go one at a time until the pod fits. Each time it is
1. of the runs whose going lets the pod fit, if there are any, else of all runs,
2. the one after which F is least (with the pod in place if it fits),
3. the one that holds most on this node,
4. the one whose card holds less of HP, then by the other fractions on the card,
5. the one submitted last.
Those that turn out not to be in the way stay, the last chosen first. Criterion 4 makes the outcome a matter of
what is on the node alone: which task is the later one never changes F nor the number of victims.

In-node version: what a gang frees on other nodes counts for nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.domain.units import MICRO
from gfs.policies.fgd.fragmentation import ArrivalMix
from gfs.policies.preemption import victims_on

Profile = tuple[int, ...]
"""A node without divided cards: its idle cards, then the cards of each spot run there, most first. Below 0: so many
cards are held beyond those that there are."""

Parts = tuple[int, list[int]]
"""Idle cards and the free parts of divided cards: all that F looks at."""


# -- without divided cards -----------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def ways(profile: Profile, cards: int) -> tuple[int, tuple[int, ...]]:
    """How a pod of `cards` whole cards fits in with the fewest victims: how many, and the cards then left idle."""
    lefts: dict[int, set[int]] = {}
    for left, counts in _sets(profile, cards):
        lefts.setdefault(sum(counts), set()).add(left)
    fewest = min(lefts, default=0)
    return fewest, tuple(sorted(lefts.get(fewest, ())))


def latest_victims(node: Node, profile: Profile, cards: int, lefts: Sequence[int], victims: int) -> list[Run]:
    """The latest of the sets of so many victims that leave one of these numbers of cards idle."""
    by_size: dict[int, list[Run]] = {size: [] for size in Counter(profile[1:])}
    for run in sorted(node.spot, key=_later_first):
        by_size[node.spot[run]].append(run)
    sets = [
        sorted((run for runs, n in zip(by_size.values(), counts, strict=True) for run in runs[:n]), key=_later_first)
        for left, counts in _sets(profile, cards)
        if left in lefts and sum(counts) == victims
    ]
    return max(sets, key=lambda runs: [run.task.index for run in runs])


def _sets(profile: Profile, cards: int) -> Iterator[tuple[int, Sequence[int]]]:
    """The sets to weigh: the cards left idle, and how many runs of each size go, largest size first.

    A run could stay if the cards left idle suffice for it.
    """
    sizes = Counter(profile[1:])
    for counts in product(*(range(n + 1) for n in sizes.values())):
        left = profile[0] + sum(size * n for size, n in zip(sizes, counts, strict=True)) - cards
        if left >= 0 and all(size > left for size, n in zip(sizes, counts, strict=True) if n):
            yield left, counts


def _later_first(run: Run) -> int:
    return -run.task.index


# -- with divided cards --------------------------------------------------------------------------------------


class DividedNode:
    """A node with divided cards as its spot runs go, on paper."""

    def __init__(self, pool: Pool, node: Node) -> None:
        self._pool = pool
        self._node = node
        self._idle = node.idle - node.surplus
        self._free = {card: MICRO - hp - spot for card, (hp, spot) in node.shares.items()}
        """Divided card -> its free part."""
        self._held = {run: fractions_on(node, run) for run in node.spot}
        """Spot run still there -> divided card -> what it holds of it."""

    def one_by_one(self, task: Task, mix: ArrivalMix) -> tuple[int, list[Run]]:
        """F once the pod is in place, and its victims. The node must be one that could hold the pod."""
        gone: list[Run] = []
        while (placed := _placed(self._without(()), task)) is None:
            run = self._next(task, mix)
            self._let_go(run)
            gone.append(run)
        if len(gone) > 1:
            victims = victims_on(self._pool, self._node, task, [*self._held, *reversed(gone)])
            if len(victims) < len(gone):
                left = DividedNode(self._pool, self._node).left(task, victims)
                return mix.fragmentation(*left), sorted(victims, key=_later_first)
        return mix.fragmentation(*placed), sorted(gone, key=_later_first)

    def left(self, task: Task, victims: Sequence[Run]) -> Parts:
        """What is free once these victims have gone and the pod is in place."""
        for run in victims:
            self._let_go(run)
        placed = _placed(self._without(()), task)
        assert placed is not None, "the victims make room"
        return placed

    def _next(self, task: Task, mix: ArrivalMix) -> Run:
        """The run that goes next: criteria 1 to 3, and the others where these leave a choice."""
        ranks: dict[Run, tuple[bool, int, int]] = {}
        for run, held in self._held.items():
            without = self._without((run,))
            placed = _placed(without, task)
            here = self._node.spot[run] * MICRO + sum(held.values())
            ranks[run] = (placed is None, mix.fragmentation(*(placed or without)), -here)
        least = min(ranks.values())
        equals = [run for run, rank in ranks.items() if rank == least]
        return min(equals, key=self._beside) if len(equals) > 1 else equals[0]

    def _beside(self, run: Run) -> tuple[list[tuple[int, list[int]]], int]:
        """What HP and spot runs hold of each divided card that the run is on (criterion 4), and criterion 5."""
        everyone = self._held.values()
        cards = [
            (self._node.shares[card][0], sorted(held[card] for held in everyone if card in held))
            for card in self._held[run]
        ]
        return sorted(cards), -run.task.index

    def _without(self, runs: Sequence[Run]) -> Parts:
        """What is free once these runs have gone as well."""
        idle, free = self._idle, self._free.copy()
        for run in runs:
            idle += self._node.spot[run]
            for card, share in self._held[run].items():
                free[card] += share
        idle += sum(part == MICRO for part in free.values())
        return (idle, [part for part in free.values() if part < MICRO]) if idle >= 0 else (0, [0] * len(free))

    def _let_go(self, run: Run) -> None:
        self._idle += self._node.spot[run]
        for card, share in self._held.pop(run).items():
            self._free[card] += share


def fractions_on(node: Node, run: Run) -> dict[int, int]:
    """Divided card of the node -> micro-cards that the run holds of it."""
    held: dict[int, int] = {}
    for where, mask, whole in run.places:
        if where is node and not whole:
            card = mask.bit_length() - 1
            held[card] = held.get(card, 0) + run.task.share
    return held


def _placed(free: Parts, task: Task) -> Parts | None:
    """What is free with a pod of the task in place as the pool would place it; None if it does not fit."""
    idle, parts = free
    if task.cards:
        return (idle - task.cards, parts) if idle >= task.cards else None
    fitting = [part for part in parts if part >= task.share]
    if fitting:
        others = parts.copy()
        others.remove(min(fitting))
        return idle, [*others, min(fitting) - task.share]
    return (idle - 1, [*parts, MICRO - task.share]) if idle else None
