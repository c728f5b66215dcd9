"""Where an HP pod displaces spot tasks: fewest victims, then least growth of F, pod in place and victims gone.

Ties by node id. Which runs go on a node is the matter of `victims`. Nodes with the same
idle cards and the same cards of each spot run have the same answer, so each such profile is looked at once, and
with divided cards each arrangement of fractions at most once: most are ruled out by a lower bound of the growth.
Why victims come first: docs/decisions/0039-fgd-victims.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from gfs.core.lazy_heap import NodeGroups
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Victims
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.domain.units import MICRO
from gfs.policies.fgd.fitting import FittingNodes
from gfs.policies.fgd.fragmentation import ArrivalMix, free_parts
from gfs.policies.fgd.victims import DividedNode, Profile, fractions_on, latest_victims, ways
from gfs.policies.preemption import could_hold

DividedProfile = tuple[Profile, tuple[tuple[int, int, tuple[int, ...]], ...], int]
"""Idle cards and whole cards of spot runs; of each divided card what HP holds, what is free and what spot runs
hold; and the node's position if a run has fractions of several cards there, for then it is like no other."""

Option = tuple[int, int, int, list[Run]]
"""Number of victims, growth of F, position of the node, the victims: compared in this order."""


class FgdPreemptor:
    """The node and the victims for one HP pod: the fewest, and of equally many those that make F grow least."""

    def __init__(self, pool: Pool, mix: ArrivalMix) -> None:
        self._pool = pool
        self._mix = mix
        self._plain: NodeGroups[Profile] = NodeGroups(len(pool.nodes))
        """Nodes with spot runs and without divided cards."""
        self._divided: NodeGroups[DividedProfile] = NodeGroups(len(pool.nodes))
        """Nodes with spot runs and divided cards."""
        self._changed = pool.listeners.feed()
        """Nodes that changed since the last search."""
        self._fitting = FittingNodes(pool)
        """For tasks that ask for more than cards."""
        self._file(pool.nodes)

    def choose(self, task: Task, now: float) -> Victims | None:
        """The node with the fewest victims where F grows least, or None if no eviction helps."""
        self._refresh()
        best = self._best_divided(task, self._best_plain(task))
        if not self._pool.plain(task) and (best is None or not self._fits(task, best)):
            best = self._fitting.best(task, self._mix)
        if best is None:
            return None
        _, _, i, runs = best
        choice = "least fragmentation"
        if task.cards:
            count = self._pool.hp_candidates(task.cards)
            choice = f"least fragmentation of {count} nodes" if count > 1 else "only node that suffices"
        return Victims(self._pool.nodes[i], runs, choice)

    def _best_plain(self, task: Task) -> Option | None:
        need, of_idle = task.cards or 1, self._mix.of_idle
        least: tuple[int, int] | None = None
        best: list[Profile] = []
        for profile in self._plain.groups:
            victims, lefts = ways(profile, need)
            if lefts:
                rank = (victims, min(of_idle[left] for left in lefts) - of_idle[max(profile[0], 0)])
                if least is None or rank < least:
                    least, best = rank, [profile]
                elif rank == least:
                    best.append(profile)
        if least is None:
            return None
        i, profile = min((self._plain.first(profile), profile) for profile in best)
        victims, growth = least
        equals = [left for left in ways(profile, need)[1] if of_idle[left] - of_idle[max(profile[0], 0)] == growth]
        if not task.cards:
            growth += self._mix.of_part(MICRO - task.share)  # the rest of the card that the fraction opens
        return victims, growth, i, latest_victims(self._pool.nodes[i], profile, need, equals, victims)

    def _best_divided(self, task: Task, best: Option | None) -> Option | None:
        """The best of `best` and the nodes with divided cards, met by rising lower bound of their growth."""
        nodes, mix, of_part = self._pool.nodes, self._mix, cache(self._mix.of_part)
        firsts = [(self._divided.first(profile), profile) for profile in self._divided.groups]
        bounds = sorted(
            (_least_growth(profile, task, mix.of_idle, of_part), i)
            for i, profile in firsts
            if could_hold(self._pool, nodes[i], task)
        )
        for bound, i in bounds:
            if best is not None and (1, bound, i) > best[:3]:
                break  # the pod fits nowhere as it is, so there is at least one victim
            before = mix.fragmentation(nodes[i].idle, free_parts(nodes[i]))
            after, runs = DividedNode(self._pool, nodes[i]).one_by_one(task, mix)
            option = (len(runs), after - before, i, runs)
            best = option if best is None else min(best, option)
        return best

    def _fits(self, task: Task, option: Option) -> bool:
        """Whether what was found by cards alone does for a task that asks for more."""
        _, _, i, runs = option
        return self._pool.could_fit(self._pool.nodes[i], task, runs)

    def _refresh(self) -> None:
        """Bring the profiles of the nodes that changed since the last search up to date."""
        self._file(self._changed())

    def _file(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            i = node.index
            divided = bool(node.spot and node.shares)
            plain = bool(node.spot and not node.shares)
            self._plain.file(i, _profile(node) if plain else None)
            self._divided.file(i, _divided_profile(node) if divided else None)


def _profile(node: Node) -> Profile:
    return (node.idle - node.surplus, *sorted(node.spot.values(), reverse=True))


def _divided_profile(node: Node) -> DividedProfile:
    fractions: dict[int, list[int]] = {card: [] for card in node.shares}
    position = -1
    for run in node.spot:
        held = fractions_on(node, run)
        for card, share in held.items():
            fractions[card].append(share)
        if len(held) > 1:
            position = node.index
    cards = ((hp, MICRO - hp - spot, tuple(sorted(fractions[card]))) for card, (hp, spot) in node.shares.items())
    return _profile(node), tuple(sorted(cards)), position


def _least_growth(profile: DividedProfile, task: Task, of_idle: list[int], of_part: Callable[[int], int]) -> int:
    """F grows at least by this: what it loses if all that the victims touch becomes of use.

    For whole cards only runs on cards without HP can be in the way, for a fraction only those on one card.
    """
    (idle, *_), cards, position = profile
    if position >= 0:
        touched = sum(of_part(part) for _, part, _ in cards)
    elif task.cards:
        touched = sum(of_part(part) for hp, part, _ in cards if not hp)
    else:
        touched = max(of_part(part) for _, part, _ in cards)
    return -of_idle[max(idle, 0)] - touched
