"""A pool: all nodes with one GPU model and the counts that decisions look at, kept up to date change by change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gfs.core.node import Node, Place
from gfs.core.run import Run
from gfs.domain.node import NodeSpec
from gfs.domain.task import Kind, Task
from gfs.domain.units import MICRO


def _ignore(node: Node) -> None:
    """Nobody keeps an index yet."""


def _highest(levels: list[int]) -> int:
    level = len(levels) - 1
    while level and not levels[level]:
        level -= 1
    return level


class Pool:
    """State of one pool. Whoever keeps an index over its nodes hears of every change."""

    def __init__(self, gpu_model: str, specs: Sequence[NodeSpec]) -> None:
        self.gpu_model = gpu_model
        self.sizes = sorted({spec.gpus for spec in specs})
        self.nodes = [Node(spec, i, self.sizes.index(spec.gpus)) for i, spec in enumerate(specs)]
        self.capacity = sum(spec.gpus for spec in specs)
        largest = self.sizes[-1]
        self.idle = self.capacity
        """Wholly idle cards."""
        self.idle_levels = [0] * (largest + 1)
        """How many nodes have k wholly idle cards."""
        self.hp_free_levels = [0] * (largest + 1)
        """How many nodes have k cards without an HP pod."""
        for node in self.nodes:
            self.idle_levels[node.total] += 1
            self.hp_free_levels[node.total] += 1
        self.spot_in_use: dict[float, int] = {}
        """Guarantee hours -> micro-cards held by spot tasks with that guarantee."""
        self.on_change: Callable[[Node], None] = _ignore
        """Told of every node that changed, at once: the placer keeps its index with it."""
        self.divided: set[Node] = set()
        """Nodes with divided cards."""
        self.changed: set[Node] = set()
        """Nodes that changed since the preemptor last caught up."""

    # -- questions ---------------------------------------------------------------------------------

    def idle_slots(self, cards: int) -> int:
        """How many pods of `cards` whole cards fit on idle cards."""
        return sum(count * (level // cards) for level, count in enumerate(self.idle_levels) if count)

    def hp_slots(self, cards: int) -> int:
        """How many pods of `cards` whole cards HP could place if every spot task went."""
        return sum(count * (level // cards) for level, count in enumerate(self.hp_free_levels) if count)

    def idle_share_slots(self, share: int) -> int:
        """How many pods of `share` micro-cards fit on idle cards and in the free parts of divided ones."""
        parts = (MICRO - hp - spot for node in self.divided for hp, spot in node.shares.values())
        return self.idle * (MICRO // share) + sum(part // share for part in parts)

    def hp_share_slots(self, share: int) -> int:
        """How many pods of `share` micro-cards HP could place if every spot task went."""
        whole = sum(count * level for level, count in enumerate(self.hp_free_levels))
        parts = (MICRO - hp for node in self.divided for hp, _ in node.shares.values() if hp)
        return whole * (MICRO // share) + sum(part // share for part in parts)

    def hp_candidates(self, cards: int) -> int:
        """How many nodes could hold one pod of `cards` whole cards if every spot task went."""
        return sum(self.hp_free_levels[cards:])

    def spot_held(self, guarantee_hours: float) -> int:
        """Micro-cards held by spot tasks with at least this guarantee (the SPEC's Sa)."""
        held = 0
        for hours, micro in self.spot_in_use.items():
            if hours >= guarantee_hours:
                held += micro
        return held

    def largest_gap(self) -> int:
        """Most idle cards on one node."""
        return _highest(self.idle_levels)

    def largest_hp_gap(self) -> int:
        """Most cards on one node that HP could have if every spot task went."""
        return _highest(self.hp_free_levels)

    # -- changes -----------------------------------------------------------------------------------

    def occupy(self, node: Node, task: Task, pods: int = 1) -> Place:
        """Give pods of the task their cards on `node`, lowest numbers first. Fractions one at a time."""
        cards = task.cards
        if not cards:
            return self._occupy_share(node, task)
        if pods > 1:
            cards *= pods
        free, idle, levels = node.free, node.idle, self.idle_levels
        if cards == 1:
            mask = free & -free
        elif cards == idle:
            mask = free
        else:
            mask = node.lowest_idle(cards)
        node.free = free ^ mask
        levels[idle] -= 1
        node.idle = idle = idle - cards
        levels[idle] += 1
        self.idle -= cards
        if task.kind:
            node.spot_cards += cards
        else:
            node.hp_cards += cards
            levels, free = self.hp_free_levels, node.hp_free
            levels[free] -= 1
            node.hp_free = free = free - cards
            levels[free] += 1
        self.changed.add(node)
        self.on_change(node)
        return (node, mask, cards)

    def hold(self, place: Place, task: Task) -> None:
        """Take exactly the cards of `place`, which must be free."""
        node, mask, cards = place
        if cards:
            node.free ^= mask
            self._move_idle(node, -cards)
            if task.kind:
                node.spot_cards += cards
            else:
                node.hp_cards += cards
                self._move_hp_free(node, -cards)
        else:
            self._hold_share(node, mask, task.share, task.kind)
        self.changed.add(node)
        self.on_change(node)

    def release(self, places: Iterable[Place], task: Task) -> None:
        """Give back what the task holds."""
        if not task.cards:
            self._release_shares(places, task)
            return
        spot, idle_levels, hp_free_levels = task.kind, self.idle_levels, self.hp_free_levels
        changed, on_change = self.changed, self.on_change
        for node, mask, cards in places:
            node.free |= mask
            idle = node.idle
            idle_levels[idle] -= 1
            node.idle = idle = idle + cards
            idle_levels[idle] += 1
            self.idle += cards
            if spot:
                node.spot_cards -= cards
            else:
                node.hp_cards -= cards
                free = node.hp_free
                hp_free_levels[free] -= 1
                node.hp_free = free = free + cards
                hp_free_levels[free] += 1
            changed.add(node)
            on_change(node)

    def register_spot(self, run: Run) -> None:
        """Note a spot run whose cards are held on its nodes and in the quota's books."""
        task = run.task
        for node, _, cards in run.places:
            node.spot[run] = node.spot.get(run, 0) + cards
        hours = task.guarantee_hours
        self.spot_in_use[hours] = self.spot_in_use.get(hours, 0) + task.micro

    def forget_spot(self, run: Run) -> None:
        """Undo `register_spot`."""
        for node, _, _ in run.places:
            node.spot.pop(run, None)
        self.spot_in_use[run.task.guarantee_hours] -= run.task.micro

    # -- divided cards -----------------------------------------------------------------------------

    def _occupy_share(self, node: Node, task: Task) -> Place:
        card = node.card_for_share(task.share)
        assert card is not None, "the node was chosen because it has room"
        place = (node, 1 << card, 0)
        self.hold(place, task)
        return place

    def _hold_share(self, node: Node, mask: int, share: int, kind: Kind) -> None:
        card = mask.bit_length() - 1
        used = node.shares.get(card)
        if used is None:
            used = node.shares[card] = [0, 0]
            self.divided.add(node)
            node.free ^= mask
            self._move_idle(node, -1)
        if used[kind] == 0:
            if kind is Kind.SPOT:
                node.spot_cards += 1
            else:
                node.hp_cards += 1
                self._move_hp_free(node, -1)
        used[kind] += share
        node.refresh_rooms()

    def _release_shares(self, places: Iterable[Place], task: Task) -> None:
        kind, share = task.kind, task.share
        for node, mask, _ in places:
            card = mask.bit_length() - 1
            used = node.shares[card]
            used[kind] -= share
            if used[kind] == 0:
                if kind is Kind.SPOT:
                    node.spot_cards -= 1
                else:
                    node.hp_cards -= 1
                    self._move_hp_free(node, +1)
            if used == [0, 0]:
                del node.shares[card]
                if not node.shares:
                    self.divided.discard(node)
                node.free |= mask
                self._move_idle(node, +1)
            node.refresh_rooms()
            self.changed.add(node)
            self.on_change(node)

    def _move_idle(self, node: Node, by: int) -> None:
        self.idle_levels[node.idle] -= 1
        node.idle += by
        self.idle_levels[node.idle] += 1
        self.idle += by

    def _move_hp_free(self, node: Node, by: int) -> None:
        self.hp_free_levels[node.hp_free] -= 1
        node.hp_free += by
        self.hp_free_levels[node.hp_free] += 1
