"""Who must go so that a pod fits on a given node: shared by every preemptor.

Spot runs are looked at in an order of the preemptor's; each is spared if the pod still fits without its cards.
"""

from __future__ import annotations

from collections.abc import Iterable

from gfs.core.node import Node
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.domain.units import MICRO


def could_hold(node: Node, task: Task) -> bool:
    """Whether the node could hold one pod of the HP task if all its spot tasks went."""
    return node.hp_free >= task.cards if task.cards else node.hp_free > 0 or node.hp_room >= task.share


def victims_on(node: Node, task: Task, spare_first: Iterable[Run]) -> list[Run]:
    """The spot runs that cannot be spared, in the given order. The node must be one that could hold the pod."""
    if task.cards and not node.shares:
        return _victims_whole(node, task.cards, spare_first)
    return _victims_divided(node, task, spare_first)


def _victims_whole(node: Node, cards: int, spare_first: Iterable[Run]) -> list[Run]:
    held = node.spot
    spare = node.idle + sum(held.values()) - cards
    victims = []
    for run in spare_first:
        here = held[run]
        if here <= spare:
            spare -= here
        else:
            victims.append(run)
    return victims


def _victims_divided(node: Node, task: Task, spare_first: Iterable[Run]) -> list[Run]:
    """The same with cards that several pods share: a card is free only when its last holder goes."""
    used = {card: hp for card, (hp, _) in node.shares.items()}
    users: dict[int, dict[Run, int]] = {}
    for run in node.spot:
        share = run.task.share
        for where, mask, _ in run.places:
            if where is node:
                for card in range(node.total):
                    if mask >> card & 1:
                        holders = users.setdefault(card, {})
                        holders[run] = holders.get(run, 0) + (share or MICRO)

    def fits(kept: set[Run]) -> bool:
        """Whether the pod fits beside HP and the spot runs in `kept`."""
        free = 0
        for card in range(node.total):
            load = used.get(card, 0) + sum(s for run, s in users.get(card, {}).items() if run in kept)
            if card not in used and card not in users and not node.free >> card & 1:
                continue  # an HP pod has the whole card
            if task.share and load + task.share <= MICRO:
                return True
            free += load == 0
        return bool(task.cards) and free >= task.cards

    kept: set[Run] = set()
    victims = []
    for run in spare_first:
        kept.add(run)
        if not fits(kept):
            kept.discard(run)
            victims.append(run)
    return victims
