"""What a node holds at the moment, card by card."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from gfs.domain.node import NodeSpec
from gfs.domain.units import MICRO

if TYPE_CHECKING:
    from gfs.core.run import Run

Place: TypeAlias = "tuple[Node, int, int]"
"""What one task holds on one node: the node, the set of its cards (bit i = card i) and how many of them it
holds whole. Pods of whole cards that were placed there together share a place, each with the next cards from
the lowest; a fraction has a place of its own, with one card in the set and 0 held whole."""


SLACK = 1e-9
"""CPUs and GiB are added and taken away as floats: so little too much is rounding."""


NO_SHARES: dict[int, list[int]] = {}
"""The divided cards of a node that has none, one for all of them: it stays empty."""


def lowest(cards: int, count: int) -> int:
    """The `count` lowest cards of a set."""
    mask = 0
    for _ in range(count):
        bit = cards & -cards
        mask |= bit
        cards ^= bit
    return mask


class _Cards:
    """What every placement reads, side by side in memory."""

    __slots__ = (
        "closed", "free", "hp_free", "idle", "index", "irregular", "shares", "size_rank", "spot", "spot_cards",
        "surplus",
    )  # fmt: skip


class Node(_Cards):
    """Per-card accounting of one node. Only its pool changes it.

    A node that takes no pods is *closed*: its accounting shows every card as held by HP, so that no scheduler
    finds anything there, and what ends on it frees nothing. When it opens, the pool is rebuilt from its runs.

    A node that got smaller, or whose runs were found there, may hold more than it has. It takes no pods then, and cards
    that are given back get idle only beyond its `surplus`: after some of its runs have gone, what it has less what the
    others hold is free. Its runs may have cards with numbers that the node does not have: which card is which is
    the machine's own business.
    """

    __slots__ = (
        "cordoned", "failed", "free_cpus", "free_memory", "free_pods", "hp_room", "hp_surplus", "name", "overdrawn",
        "room", "spare", "spec", "spot_cpus", "spot_memory", "spot_pods", "total",
    )  # fmt: skip

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.cordoned = False
        """Takes no new pods; what runs there goes on."""
        self.failed = False
        """Down: nothing runs there."""
        self.index = -1
        """Position in the pool, in the order of the cluster's node list."""
        self.size_rank = 0
        """Which of the pool's distinct node sizes this is."""
        self.clear()

    def clear(self) -> None:
        """As if nothing ran here."""
        spec = self.spec
        self.closed = False
        self.irregular = False
        """Whether its cards are not simply held or idle: it is closed, or runs have numbers beyond its cards."""
        self.surplus = 0
        """Cards held beyond those that it has."""
        self.hp_surplus = 0
        """Cards held by HP beyond those that it has."""
        self.spare = 0
        """Set of numbers that nobody holds and that stand for no card, where it is irregular."""
        self.overdrawn = False
        """Whether more CPUs, memory or pods were held than it has when its pool was rebuilt: they may be still."""
        self.total = spec.gpus
        self.free = (1 << spec.gpus) - 1
        """Set of wholly idle cards."""
        self.idle = spec.gpus
        self.spot_cards = 0
        self.hp_free = spec.gpus
        """Cards without any HP pod: what HP could have if every spot task went."""
        self.shares = NO_SHARES
        """Divided cards: card -> micro-cards in use by [HP, spot]."""
        self.room = 0
        """Largest free part of a divided card, in micro-cards."""
        self.hp_room = 0
        """Largest part of a card with an HP fraction on it that HP could have if every spot task went."""
        self.spot: dict[Run, int] = {}
        """Spot runs with pods here -> whole cards they hold here (0 for fractions only)."""
        self.free_cpus = spec.cpus or inf
        """Kept up to date only where resources count; infinite where the node does not say."""
        self.free_memory = spec.memory or inf
        self.free_pods = spec.pods or inf
        self.spot_cpus = 0.0
        """What spot pods hold of these, kept up to date where resources count."""
        self.spot_memory = 0.0
        self.spot_pods = 0

    @property
    def free_resources(self) -> tuple[float, float, float]:
        """CPUs, GiB of memory and pods that are free."""
        return self.free_cpus, self.free_memory, self.free_pods

    @property
    def free_without_spot(self) -> tuple[float, float, float]:
        """The same if every spot task here went."""
        return self.free_cpus + self.spot_cpus, self.free_memory + self.spot_memory, self.free_pods + self.spot_pods

    @property
    def hp_cards(self) -> int:
        """Cards held, wholly or partly, by HP pods."""
        return self.total - self.hp_free

    @property
    def short(self) -> bool:
        """Whether it has fewer CPUs, less memory or fewer pods than were taken: it has got smaller."""
        return min(self.free_cpus, self.free_memory, self.free_pods) < -SLACK

    @property
    def overfull(self) -> bool:
        """Whether it holds more than it has, and takes no pods until that is over."""
        return bool(self.surplus) or self.short

    def widen(self, numbers: int) -> None:
        """Its runs have cards with numbers below this: those beyond its own are spare where nobody has them."""
        self.irregular = True
        self.spare = (1 << numbers) - 1 & ~self.free

    def count_cards(self, mask: int, cards: int) -> None:
        """Give back so many cards of an irregular node (below 0: take them): the lowest numbers are idle."""
        free = self.idle - self.surplus + cards
        self.idle, self.surplus = max(free, 0), max(-free, 0)
        numbers = (self.free | self.spare) ^ mask
        self.free = lowest(numbers, self.idle)
        self.spare = numbers ^ self.free

    def parts(self) -> Collection[Sequence[int]]:
        """What HP and spot hold of each divided card, in micro-cards; all of it where nothing of it can be had."""
        if self.hp_surplus:
            return [(MICRO, 0)] * len(self.shares)
        if self.surplus:
            return [(hp, MICRO - hp) for hp, _ in self.shares.values()]
        return self.shares.values()

    def close(self) -> None:
        """Show nothing that a pod could take: all cards look held by HP."""
        self.closed = self.irregular = True
        self.free = self.idle = self.spot_cards = self.hp_free = self.room = self.hp_room = 0
        self.shares = NO_SHARES
        self.spot = {}

    def __getstate__(self) -> tuple[NodeSpec, bool, bool]:
        return self.spec, self.cordoned, self.failed

    def __setstate__(self, facts: tuple[NodeSpec, bool, bool]) -> None:
        spec, cordoned, failed = facts
        Node.__init__(self, spec)
        self.cordoned, self.failed = cordoned, failed

    def card_for_share(self, share: int) -> int | None:
        """The card for a fraction: the fullest divided one that still fits, else the lowest idle one."""
        best: tuple[int, int] | None = None
        if self.surplus:
            return None
        for card, (hp, spot) in self.shares.items():
            room = MICRO - hp - spot
            if room >= share and (best is None or (room, card) < best):
                best = (room, card)
        if best is not None:
            return best[1]
        return (self.free & -self.free).bit_length() - 1 if self.idle else None

    def pods_by_cards(self, cards: int, share: int, *, without_spot: bool = False) -> int:
        """Pods of so many cards, or of such a fraction, that find cards here (if every spot task went)."""
        if cards:
            return (self.hp_free if without_spot else self.idle) // cards
        if without_spot:
            whole, parts = self.hp_free, [MICRO - hp for hp, _ in self.parts() if hp]
        else:
            whole, parts = self.idle, [MICRO - hp - spot for hp, spot in self.parts()]
        return whole * (MICRO // share) + sum(part // share for part in parts)

    def refresh_rooms(self) -> None:
        """Recompute `room` and `hp_room` after a divided card changed."""
        parts = self.parts() if self.surplus else self.shares.values()
        self.room = max((MICRO - hp - spot for hp, spot in parts), default=0)
        self.hp_room = max((MICRO - hp for hp, _ in parts if hp), default=0)

    def __repr__(self) -> str:
        return f"<Node {self.name}: {self.idle}/{self.total} idle>"
