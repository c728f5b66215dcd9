"""A pool: all nodes with one GPU model and the counts that decisions look at, kept up to date change by change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from operator import mul

from gfs.core.listeners import Listeners
from gfs.core.node import NO_SHARES, Node, Place, lowest
from gfs.core.room import Resources, Room
from gfs.core.run import Run
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.units import MICRO


def _highest(levels: list[int]) -> int:
    level = len(levels) - 1
    while level and not levels[level]:
        level -= 1
    return level


def admits(node: Node, task: Task) -> bool:
    """Whether the task's node filter lets it use the node."""
    return task.node_filter is None or node.spec.group in task.node_filter.groups


class Pool:
    """Who holds which cards. All of it follows from the nodes and the runs on them: `rebuild` works it out again."""

    __slots__ = (
        "_changed", "_counted", "_observers", "capacity", "divided", "gpu_model", "hp_free_levels", "idle_levels",
        "listeners", "nodes", "protected", "sizes", "spot_in_use", "together",
    )  # fmt: skip

    def __init__(self, gpu_model: str, listeners: Listeners | None = None) -> None:
        self.gpu_model = gpu_model
        self.listeners = listeners or Listeners()
        """Told of every node that changed, at once, and of spot runs that take or leave their cards."""
        self._changed, self._observers = self.listeners.changed, self.listeners.node_changed
        self.nodes: list[Node] = []
        """In the order of the cluster's node list, closed ones too."""
        self.spot_in_use: dict[float, int] = {}
        """Guarantee hours -> micro-cards held by spot tasks with that guarantee."""
        self.protected: frozenset[Run] = frozenset()
        """Spot runs that are better left alone (`DisruptionRules`)."""
        self.together: Mapping[Run, Sequence[Run]] = {}
        """Spot run -> all that go with it."""
        self.rebuild([], ())

    @classmethod
    def of(cls, gpu_model: str, specs: Sequence[NodeSpec]) -> Pool:
        """A pool of empty nodes."""
        pool = cls(gpu_model)
        pool.rebuild([Node(spec) for spec in specs], ())
        return pool

    def rebuild(self, nodes: list[Node], runs: Sequence[Run]) -> None:
        """Start over with these nodes, on which these runs hold their cards. Nobody may listen yet.

        Cordoned and failed nodes are closed. A node that holds more than it has is not: HP may evict spot runs there.
        """
        self.nodes = nodes
        self.sizes = sorted({node.spec.gpus for node in nodes}) or [1]
        """The different numbers of cards that nodes have."""
        numbers: dict[Node, int] = {}
        for run in runs:
            for node, mask, _ in run.places:
                if mask >> node.spec.gpus:
                    numbers[node] = max(numbers.get(node, 0), mask.bit_length())
        self.idle_levels = [0] * (self.sizes[-1] + 1)
        """How many nodes have k wholly idle cards."""
        self.hp_free_levels = [0] * (self.sizes[-1] + 1)
        """How many nodes have k cards without an HP pod."""
        for position, node in enumerate(nodes):
            node.index, node.size_rank = position, self.sizes.index(node.spec.gpus)
            node.clear()
            if node.cordoned or node.failed:
                node.close()
            elif node in numbers:
                node.widen(numbers[node])
            self.idle_levels[node.idle] += 1
            self.hp_free_levels[node.hp_free] += 1
        self.spot_in_use.clear()
        self.divided: set[Node] = set()
        """Nodes with divided cards."""
        for run in runs:
            for place in run.places:
                self.hold(place, run.task)
            if run.task.is_spot:
                self._enter_spot(run)
        for node in nodes:
            node.overdrawn = node.short
        self._changed.clear()
        self.capacity = sum(node.total for node in nodes if not node.closed)
        """Cards on nodes that take pods."""
        self._counted: Room | None = None
        """Made when a task that asks for more than cards is counted for the first time."""

    # -- more than cards ---------------------------------------------------------------------------

    counts_resources = False
    """Whether CPUs, memory and pods limit what a node takes (`ResourcePool`)."""

    def plain(self, task: Task) -> bool:
        """Whether only cards decide where a pod of the task fits: nearly always."""
        return task.node_filter is None

    def fits(self, node: Node, task: Task) -> bool:
        """Whether a node with enough cards takes a pod of the task in all other respects."""
        return admits(node, task)

    def could_fit(self, node: Node, task: Task, gone: Iterable[Run]) -> bool:
        """The same, once these spot runs have gone."""
        return admits(node, task)

    def fits_without_spot(self, node: Node, task: Task) -> bool:
        """The same, once every spot run has gone."""
        return admits(node, task) and self.allowed(node.free_without_spot, task) >= 1

    def most_pods(self, node: Node, task: Task, most: int, *, without_spot: bool = False) -> int:
        """How many pods of the task the node takes, of so many that find cards there (if every spot run went)."""
        if not admits(node, task):
            return 0
        return int(min(most, self.allowed(node.free_without_spot if without_spot else node.free_resources, task)))

    def allowed(self, free: Resources, task: Task) -> float:
        """How many pods of the task so many free CPUs, GiB and pods allow."""
        return inf

    def short_of(self, node: Node, task: Task, *, without_spot: bool = False) -> str:
        """What keeps a pod from a node that has the cards (if every spot run went), in words."""
        if admits(node, task) or task.node_filter is None:
            return ""
        return f"not one of the nodes that the task asks for ({task.node_filter.rule or 'node filter'})"

    @property
    def _room(self) -> Room:
        if self._counted is None:
            self._counted = Room(self.nodes, self.listeners.feed(), self.allowed)
        return self._counted

    def few_nodes(self, task: Task, *, without_spot: bool = False) -> list[Node] | None:
        """The nodes with room for a pod of a task that asks for more than cards; None if they are many."""
        return self._room.few_nodes(task, without_spot=without_spot)

    # -- questions ---------------------------------------------------------------------------------

    @property
    def idle(self) -> int:
        """Wholly idle cards."""
        return sum(map(mul, self.idle_levels, range(len(self.idle_levels))))

    def slots(self, task: Task, *, without_spot: bool = False) -> int:
        """How many pods of the task find room now (if every spot task went)."""
        if self.plain(task):
            return self.card_slots(task, without_spot=without_spot)
        return self._room.pods(task, without_spot=without_spot)

    def card_slots(self, task: Task, *, without_spot: bool = False) -> int:
        """How many pods of the task find cards now (if every spot task went), whatever else they ask for."""
        if task.cards:
            return self.hp_slots(task.cards) if without_spot else self.idle_slots(task.cards)
        shares = [used for node in self.divided for used in (node.parts() if node.surplus else node.shares.values())]
        if without_spot:
            whole, parts = self.hp_slots(1), [MICRO - hp for hp, _ in shares if hp]
        else:
            whole, parts = self.idle, [MICRO - hp - spot for hp, spot in shares]
        return whole * (MICRO // task.share) + sum(part // task.share for part in parts)

    def idle_slots(self, cards: int) -> int:
        """How many pods of `cards` whole cards fit on idle cards."""
        return sum(count * (level // cards) for level, count in enumerate(self.idle_levels) if count)

    def hp_slots(self, cards: int) -> int:
        """How many pods of `cards` whole cards HP could place if every spot task went."""
        return sum(count * (level // cards) for level, count in enumerate(self.hp_free_levels) if count)

    def hp_candidates(self, cards: int) -> int:
        """How many nodes could hold one pod of `cards` whole cards if every spot task went."""
        return sum(self.hp_free_levels[cards:])

    def spot_held(self, guarantee_hours: float) -> int:
        """Micro-cards held by spot tasks with at least this guarantee (Sa of the quota)."""
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
            mask = lowest(free, cards)
        node.free = free ^ mask
        levels[idle] -= 1
        node.idle = idle = idle - cards
        levels[idle] += 1
        if task.is_spot:
            node.spot_cards += cards
        else:
            levels, free = self.hp_free_levels, node.hp_free
            levels[free] -= 1
            node.hp_free = free = free - cards
            levels[free] += 1
        self._changed.add(node)
        for tell in self._observers:
            tell(node)
        return (node, mask, cards)

    def hold(self, place: Place, task: Task) -> None:
        """Take exactly the cards of `place`, which must be free."""
        node, mask, cards = place
        if node.irregular:
            self._hold_irregular(place, task)
            return
        if cards:
            node.free ^= mask
            self._move_idle(node, -cards)
            if task.is_spot:
                node.spot_cards += cards
            else:
                self._move_hp_free(node, -cards)
        else:
            self._hold_share(node, mask, task.share, task.priority)
        self._changed.add(node)
        for tell in self._observers:
            tell(node)

    def release(self, places: Iterable[Place], task: Task) -> None:
        """Give back what the task holds."""
        if not task.cards:
            self._release_shares(places, task)
            return
        spot, idle_levels, hp_free_levels = task.priority, self.idle_levels, self.hp_free_levels
        changed, observers = self._changed, self._observers
        for node, mask, cards in places:
            if node.irregular:
                self._count_irregular(node, mask, cards, spot)
                continue
            node.free |= mask
            idle = node.idle
            idle_levels[idle] -= 1
            node.idle = idle = idle + cards
            idle_levels[idle] += 1
            if spot:
                node.spot_cards -= cards
            else:
                free = node.hp_free
                hp_free_levels[free] -= 1
                node.hp_free = free = free + cards
                hp_free_levels[free] += 1
            changed.add(node)
            for tell in observers:
                tell(node)

    def register_spot(self, run: Run) -> None:
        """Note a spot run whose cards are held on its nodes and in the quota's books."""
        self._enter_spot(run)
        for tell in self.listeners.spot_held:
            tell(run)

    def forget_spot(self, run: Run) -> None:
        """Undo `register_spot`."""
        for node, _, _ in run.places:
            node.spot.pop(run, None)
        hours = run.task.guarantee_hours
        left = self.spot_in_use[hours] - run.task.micro
        if left:
            self.spot_in_use[hours] = left
        else:
            del self.spot_in_use[hours]
        for tell in self.listeners.spot_released:
            tell(run)

    def lift(self, run: Run) -> None:
        """Take a run off all its nodes."""
        if run.task.is_spot:
            self.forget_spot(run)
        self.release(run.places, run.task)

    def shrink(self, run: Run, task: Task, kept: list[Place], freed: list[Place]) -> None:
        """A run goes on as a smaller task in the places `kept`; what it held of the others is given back."""
        if task.is_spot:
            self.forget_spot(run)
        self.release(freed, run.task)
        run.task, run.places = task, kept
        self._changed.update(run.nodes)
        if task.is_spot:
            self.register_spot(run)

    def put_back(self, run: Run) -> None:
        """Undo `lift`: exactly the same cards, which must be free."""
        for place in run.places:
            self.hold(place, run.task)
        if run.task.is_spot:
            self.register_spot(run)

    def _enter_spot(self, run: Run) -> None:
        task = run.task
        for node, _, cards in run.places:
            if not node.closed:
                node.spot[run] = node.spot.get(run, 0) + cards
        hours = task.guarantee_hours
        self.spot_in_use[hours] = self.spot_in_use.get(hours, 0) + task.micro

    # -- divided cards -----------------------------------------------------------------------------

    def _occupy_share(self, node: Node, task: Task) -> Place:
        card = node.card_for_share(task.share)
        assert card is not None, "the node was chosen because it has room"
        place = (node, 1 << card, 0)
        self.hold(place, task)
        return place

    def _hold_share(self, node: Node, mask: int, share: int, priority: Priority) -> None:
        card = mask.bit_length() - 1
        used = node.shares.get(card)
        if used is None:
            used = [0, 0]
            node.shares = {**node.shares, card: used}
            self.divided.add(node)
            self._count_card(node, mask, -1)
        if used[priority] == 0:
            if priority is Priority.SPOT:
                node.spot_cards += 1
            else:
                self._move_hp_free(node, -1)
        used[priority] += share
        node.refresh_rooms()

    def _release_shares(self, places: Iterable[Place], task: Task) -> None:
        priority, share = task.priority, task.share
        for node, mask, _ in places:
            if node.closed:
                continue
            card = mask.bit_length() - 1
            used = node.shares[card]
            used[priority] -= share
            if used[priority] == 0:
                if priority is Priority.SPOT:
                    node.spot_cards -= 1
                else:
                    self._move_hp_free(node, +1)
            if used == [0, 0]:
                del node.shares[card]
                if not node.shares:
                    node.shares = NO_SHARES
                    self.divided.discard(node)
                self._count_card(node, mask, +1)
            node.refresh_rooms()
            self._changed.add(node)
            for tell in self._observers:
                tell(node)

    def _move_idle(self, node: Node, by: int) -> None:
        self.idle_levels[node.idle] -= 1
        node.idle += by
        self.idle_levels[node.idle] += 1

    def _move_hp_free(self, node: Node, by: int) -> None:
        self.hp_free_levels[node.hp_free] -= 1
        node.hp_free += by
        if node.irregular:
            free = node.hp_free - node.hp_surplus
            node.hp_free, node.hp_surplus = max(free, 0), max(-free, 0)
        self.hp_free_levels[node.hp_free] += 1

    def _count_card(self, node: Node, mask: int, by: int) -> None:
        """A divided card gets idle (+1), or an idle one is divided (-1)."""
        if node.irregular:
            self._count_cards(node, mask, by)
        else:
            node.free ^= mask
            self._move_idle(node, by)

    # -- nodes whose runs have numbers beyond their cards ------------------------------------------

    def _hold_irregular(self, place: Place, task: Task) -> None:
        node, mask, cards = place
        if cards:
            self._count_irregular(node, mask, -cards, task.priority)
        elif not node.closed:
            self._hold_share(node, mask, task.share, task.priority)
            self._tell_changed(node)

    def _count_irregular(self, node: Node, mask: int, cards: int, priority: Priority) -> None:
        """Whole cards are given back, or taken (below 0). On a closed node nothing is counted."""
        if node.closed:
            return
        self._count_cards(node, mask, cards)
        if priority is Priority.SPOT:
            node.spot_cards -= cards
        else:
            self._move_hp_free(node, cards)
        if node.shares:
            node.refresh_rooms()
        self._tell_changed(node)

    def _count_cards(self, node: Node, mask: int, cards: int) -> None:
        self.idle_levels[node.idle] -= 1
        node.count_cards(mask, cards)
        self.idle_levels[node.idle] += 1

    def _tell_changed(self, node: Node) -> None:
        self._changed.add(node)
        for tell in self._observers:
            tell(node)
