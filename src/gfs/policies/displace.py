"""Who must go so that a pod fits on a given node: shared by every preemptor.

Spot runs are looked at in an order of the preemptor's; each is spared if the pod still fits without its cards.
"""

from __future__ import annotations

from collections.abc import Iterable

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Task
from gfs.domain.units import MICRO


def could_hold(pool: Pool, node: Node, task: Task) -> bool:
    """Whether the node could hold one pod of the HP task if all its spot tasks went."""
    if not (node.hp_free >= task.cards if task.cards else node.hp_free > 0 or node.hp_room >= task.share):
        return False
    return pool.plain(task) or pool.fits_without_spot(node, task)


def victims_on(pool: Pool, node: Node, task: Task, spare_first: Iterable[Run]) -> list[Run]:
    """The spot runs that cannot be spared, in the given order. The node must be one that could hold the pod.

    Whatever is short must get free: cards, and where they count CPUs, memory and pods.
    """
    if not pool.counts_resources and task.cards and not node.shares:
        return _victims_whole(node, task.cards, spare_first)
    return _victims_divided(pool, node, task, spare_first)


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


def _victims_divided(pool: Pool, node: Node, task: Task, spare_first: Iterable[Run]) -> list[Run]:
    """The same with cards that several pods share, which are free only when their last holder goes, and with
    other resources that may be short."""
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
        if not pool.could_fit(node, task, (run for run in node.spot if run not in kept)):
            return False
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
