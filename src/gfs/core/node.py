"""What a node holds at the moment, counted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import floor
from typing import TYPE_CHECKING, TypeAlias

from gfs.domain.node import NodeSpec
from gfs.domain.task import Requests, Role
from gfs.domain.units import MICRO

if TYPE_CHECKING:
    from gfs.core.run import Run

GPUS = "gpus"
"""The name of GPUs among all that is counted."""

WHOLE = -1
"""The slot of pods that hold whole GPUs."""

SLACK = 1e-9
"""CPUs and GiB are added and taken away as floats: so little too much is rounding."""

MOST_PODS = 1 << 30
"""Pods that find room where nothing that they ask for is limited."""

NO_SHARES: dict[int, list[int]] = {}
"""The divided GPUs of a node that has none, one for all of them: it stays empty."""


class Node:
    """The account of one node. Only its pool changes it.

    A node that takes no pods is *closed*: its account shows every GPU as held by HP, so that no scheduler finds
    anything there, and what ends on it frees nothing. When it opens, the pool is rebuilt from its runs.

    A node that got smaller, or whose runs were found there, may hold more than it has. It takes no pods then, and GPUs
    that are given back get idle only beyond its `surplus`.
    """

    __slots__ = (
        "closed", "cordoned", "failed", "free", "hp_free", "hp_room", "hp_surplus", "idle", "index", "name",
        "overdrawn", "room", "shares", "size_rank", "spec", "spot", "spot_cards", "spot_use", "surplus", "total",
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
        self.total = spec.gpus
        self.idle = spec.gpus
        """Wholly idle GPUs."""
        self.surplus = 0
        """GPUs held beyond those that it has."""
        self.hp_free = spec.gpus
        """GPUs without any HP pod: what HP could have if every spot task went."""
        self.hp_surplus = 0
        """GPUs held by HP beyond those that it has."""
        self.spot_cards = 0
        """GPUs with a spot pod."""
        self.shares = NO_SHARES
        """Divided GPUs: slot -> millionths in use by [HP, spot]."""
        self.room = 0
        """Largest free part of a divided GPU, in millionths."""
        self.hp_room = 0
        """Largest part of a GPU with an HP fraction on it that HP could have if every spot task went."""
        self.spot: dict[Run, int] = {}
        """Spot runs with pods here -> whole GPUs they hold here (0 for fractions only)."""
        self.free: dict[str, float] = spec.limits()
        """What is free besides GPUs, by name: only what the node states."""
        self.spot_use: dict[str, float] = dict.fromkeys(self.free, 0.0)
        """What spot pods hold of it."""
        self.overdrawn = False
        """Whether more than it has was held when its pool was rebuilt: it may be still."""

    @property
    def free_without_spot(self) -> dict[str, float]:
        """What would be free besides GPUs if every spot task here went."""
        return {name: free + self.spot_use[name] for name, free in self.free.items()}

    @property
    def hp_cards(self) -> int:
        """GPUs held, wholly or partly, by HP pods."""
        return self.total - self.hp_free

    @property
    def short(self) -> bool:
        """Whether more is held than it has of something besides GPUs: it has got smaller."""
        return any(free < -SLACK for free in self.free.values())

    @property
    def overfull(self) -> bool:
        """Whether it holds more than it has, and takes no pods until that is over."""
        return bool(self.surplus) or self.short

    def parts(self) -> Collection[Sequence[int]]:
        """What HP and spot hold of each divided GPU, in millionths; all of it where nothing of it can be had."""
        if self.hp_surplus:
            return [(MICRO, 0)] * len(self.shares)
        if self.surplus:
            return [(hp, MICRO - hp) for hp, _ in self.shares.values()]
        return self.shares.values()

    def close(self) -> None:
        """Show nothing that a pod could take: all GPUs look held by HP."""
        self.closed = True
        self.idle = self.spot_cards = self.hp_free = self.room = self.hp_room = 0
        self.shares = NO_SHARES
        self.spot = {}

    def __getstate__(self) -> tuple[NodeSpec, bool, bool]:
        return self.spec, self.cordoned, self.failed

    def __setstate__(self, facts: tuple[NodeSpec, bool, bool]) -> None:
        spec, cordoned, failed = facts
        Node.__init__(self, spec)
        self.cordoned, self.failed = cordoned, failed

    def slot_for(self, share: int) -> int | None:
        """Returns the divided GPU for a fraction: the fullest that still fits, else a new one if a GPU is idle."""
        if self.surplus:
            return None
        fitting = [(room, slot) for slot, (hp, spot) in self.shares.items() if (room := MICRO - hp - spot) >= share]
        if fitting:
            return min(fitting)[1]
        return next(slot for slot in range(self.total + 1) if slot not in self.shares) if self.idle else None

    def has_gpus(self, role: Role, *, without_spot: bool = False) -> bool:
        """Returns whether the GPUs for one more pod of the role are idle (if every spot run went)."""
        idle, room = (self.hp_free, self.hp_room) if without_spot else (self.idle, self.room)
        if role.cards:
            return idle >= role.cards
        if role.share:
            return idle > 0 or room >= role.share
        return not (self.closed or (self.hp_surplus if without_spot else self.surplus))

    def pods_by_gpus(self, role: Role, *, without_spot: bool = False) -> int:
        """Returns how many pods of the role find GPUs here (if every spot task went)."""
        if role.cards:
            return (self.hp_free if without_spot else self.idle) // role.cards
        if not role.share:
            return MOST_PODS if self.has_gpus(role, without_spot=without_spot) else 0
        if without_spot:
            whole, parts = self.hp_free, [MICRO - hp for hp, _ in self.parts() if hp]
        else:
            whole, parts = self.idle, [MICRO - hp - spot for hp, spot in self.parts()]
        return whole * (MICRO // role.share) + sum(part // role.share for part in parts)

    def refresh_rooms(self) -> None:
        """Recomputes `room` and `hp_room` after a divided GPU changed."""
        parts = self.parts() if self.surplus else self.shares.values()
        self.room = max((MICRO - hp - spot for hp, spot in parts), default=0)
        self.hp_room = max((MICRO - hp for hp, _ in parts if hp), default=0)

    def __repr__(self) -> str:
        return f"<Node {self.name}: {self.idle}/{self.total} idle>"


Place: TypeAlias = tuple[Node, Role, int, int]
"""(node, role, pods, slot): pods of a role on a node. `slot` is the divided GPU of a fraction, which is one pod; -1 for
whole GPUs."""


def pods_within(free: Mapping[str, float], requests: Requests, most: int) -> int:
    """Returns how many pods with these requests so much allows, at most `most`; none if less than nothing is free."""
    if any(amount < -SLACK for amount in free.values()):
        return 0
    for name, amount in requests:
        if name in free:
            most = min(most, floor((free[name] + SLACK) / amount))
    return most
