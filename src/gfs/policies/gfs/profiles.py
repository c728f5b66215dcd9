"""Nodes by what their spot tasks hold: how few of them must go to make room for a pod.

Nodes with the same *profile*, idle cards and the cards of each spot task there, are the same to a pod that needs
victims. Groups of such nodes are kept, for each size of pod the groups by how few victims could do, and beside
them the spot runs by waste: those that would do as the only victim, and all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.policies.gfs.victims import WasteOrder

Profile = tuple[int, ...]
"""Whether cards are divided, idle cards, then the cards of each spot task (also if only in part), most first. Fewer
than 0 idle cards: so many are held beyond those that there are."""

MANY = 512
"""So many changed nodes are looked at again at the latest: no search has more to catch up with."""


class Group:
    """All nodes with one profile."""

    __slots__ = ("nodes", "profile")

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.nodes: dict[Node, None] = {}


class PodSize:
    """What is known about pods of one size that need victims."""

    def __init__(self, cards: int, profiles: NodeProfiles) -> None:
        self.cards = cards
        self._profiles = profiles
        self.group_of = profiles.group_of
        self.levels: dict[int, dict[Group, None]] = {}
        """The fewest victims that could do -> the groups of nodes where it is so."""
        self.lone = WasteOrder()
        """The runs that make room for a pod by themselves; on nodes with divided cards, those that might."""

    def few_nodes(self, victims: int, most: int) -> list[Node] | None:
        """The nodes where at least so many must go; None if they are more than `most`."""
        nodes: list[Node] = []
        for group in self.levels[victims]:
            if len(nodes) + len(group.nodes) > most:
                return None
            nodes += group.nodes
        return nodes

    def wanted(self, victims: int) -> Mapping[Group, None]:
        """Which of `group_of` these nodes have."""
        return self.levels[victims]

    def runs(self) -> WasteOrder:
        """All spot runs."""
        return self._profiles.runs()

    def enter(self, group: Group) -> None:
        """A group has its first node."""
        if victims := fewest_victims(group.profile, self.cards):
            self.levels.setdefault(victims, {})[group] = None

    def leave(self, group: Group) -> None:
        """A group has lost its last node."""
        if victims := fewest_victims(group.profile, self.cards):
            del self.levels[victims][group]
            if not self.levels[victims]:
                del self.levels[victims]

    def note(self, node: Node, group: Group | None) -> None:
        """A node has changed, and belongs to this group now."""
        missing = self.cards - node.idle + node.surplus
        if node.shares:
            missing = 0 if group and fewest_victims(group.profile, self.cards) == 1 else node.total + node.surplus + 1
        self.lone.put(node, tuple([run for run, held in node.spot.items() if held >= missing]))


@lru_cache(maxsize=1 << 16)
def fewest_victims(profile: Profile, cards: int) -> int:
    """The least number of spot tasks that must go to free `cards` cards; 0 if it cannot be done.

    On a node with divided cards it may take more: a card that several hold is free when the last one goes.
    """
    free = profile[1]
    for victims, held in enumerate(profile[2:], start=1):
        free += held
        if free >= cards:
            return victims
    return 0


class NodeProfiles(Listener):
    """The nodes of a pool by profile."""

    def __init__(self, pool: Pool) -> None:
        self._recent = pool.listeners.changed
        self._changed = pool.listeners.feed()
        """Nodes that changed since the last search."""
        pool.listeners.add(self)
        self._groups: dict[Profile, Group] = {}
        self.group_of: list[Group | None] = [None] * len(pool.nodes)
        """By position of the node; None: it has no spot task."""
        self._sizes: dict[int, PodSize] = {}
        """Cards of a pod -> what is known about such pods, for every size asked for so far."""
        self._runs: WasteOrder | None = None
        self._look_at(node for node in pool.nodes if node.spot)

    def of_size(self, cards: int) -> PodSize:
        """All about pods of so many cards, as it stands."""
        self._catch_up()
        size = self._sizes.get(cards)
        if size is None:
            size = self._sizes[cards] = PodSize(cards, self)
            for group in self._groups.values():
                size.enter(group)
                for node in group.nodes:
                    size.note(node, group)
        return size

    def runs(self) -> WasteOrder:
        """All spot runs, as they stood when a size was last asked for."""
        if self._runs is None:
            self._runs = WasteOrder()
            for group in self._groups.values():
                for node in group.nodes:
                    self._runs.put(node, tuple(node.spot))
        return self._runs

    def spot_held(self, run: Run) -> None:
        """Catch up now and then, so that no search finds very many nodes changed; not before the first search."""
        if len(self._recent) > MANY and self._sizes:
            self._catch_up()

    def spot_released(self, run: Run) -> None:
        """The same."""
        self.spot_held(run)

    def shrunk(self, run: Run, before: Task, now: float) -> None:
        """It would waste less."""
        for size in self._sizes.values():
            size.lone.reweigh(run)
        if self._runs is not None:
            self._runs.reweigh(run)

    def _catch_up(self) -> None:
        """Look again at the nodes that changed since the last time."""
        self._look_at(self._changed())

    def _look_at(self, nodes: Iterable[Node]) -> None:
        group_of, sizes, runs = self.group_of, self._sizes.values(), self._runs
        for node in nodes:
            group = group_of[node.index]
            if group is None and not node.spot:
                continue
            profile = profile_of(node)
            if (group.profile if group else None) != profile:
                if group:
                    self._leave(node, group)
                group = group_of[node.index] = self._join(node, profile) if profile else None
            for size in sizes:
                size.note(node, group)
            if runs:
                runs.put(node, tuple(node.spot))

    def _join(self, node: Node, profile: Profile) -> Group:
        group = self._groups.get(profile)
        if group is None:
            group = self._groups[profile] = Group(profile)
            for size in self._sizes.values():
                size.enter(group)
        group.nodes[node] = None
        return group

    def _leave(self, node: Node, group: Group) -> None:
        del group.nodes[node]
        if not group.nodes:
            del self._groups[group.profile]
            for size in self._sizes.values():
                size.leave(group)


def profile_of(node: Node) -> Profile | None:
    """The profile of a node; None: it has no spot task."""
    if not node.spot:
        return None
    if node.shares:
        held = [whole + _divided_cards(run, node) for run, whole in node.spot.items()]
        # With nothing idle and nothing held too much a fraction may fit on a divided card: as on one that gets idle.
        return (1, node.idle - node.surplus + bool(node.surplus), *sorted(held, reverse=True))
    return (0, node.idle - node.surplus, *sorted(node.spot.values(), reverse=True))


def _divided_cards(run: Run, node: Node) -> int:
    return len({mask for where, mask, whole in run.places if not whole and where is node})
