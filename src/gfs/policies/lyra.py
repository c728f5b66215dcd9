"""Lyra (EuroSys'23): spot tasks run on whole nodes that HP lends and takes back (docs/schedulers/lyra.md).

A node with a spot pod is on loan. A node without any pod can be lent, or taken by HP. A node with an HP pod is in use
by HP. So no node ever holds pods of both classes, and the idle cards of a node on loan are not for HP before the whole
node has been returned.
"""

from __future__ import annotations

from collections.abc import Collection

from gfs.core.index import Rank
from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Preemptor, Victims
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.task import Priority, Role
from gfs.policies.placement import IndexPlacer

COST_DIGITS = 12
"""Costs are compared to so many digits."""

Ranks = tuple[Rank, Rank]
"""The same node seen by HP and by spot tasks: 0 if it may have pods of that class, else None."""

EMPTY: Ranks = (0, 0)
USED_BY_HP: Ranks = (0, None)
ON_LOAN: Ranks = (None, 0)

REFUSED = {Priority.HP: ON_LOAN, Priority.SPOT: USED_BY_HP}
WHY_REFUSED = {Priority.HP: "on loan to spot tasks", Priority.SPOT: "in use by HP, not on loan"}


def ranks_of(hp_cards: int, spot_cards: int) -> Ranks:
    """Which classes a node with these cards in use is for."""
    if hp_cards:
        return USED_BY_HP
    return ON_LOAN if spot_cards else EMPTY


class LoanPlacer(IndexPlacer):
    """Best fit (the fewest idle cards that suffice, ties by node id) among the nodes of the task's class."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, views=len(Priority))
        bucket = self._bucket = self._index.bucket
        self._index.follow(
            plain=lambda size, idle, hp: bucket(idle, 0, ranks_of(hp, size - idle - hp)),
            special=lambda node: bucket(node.idle, node.room, self._ranks_of(node)),
        )

    def _ranks_of(self, node: Node) -> Ranks:
        return ranks_of(node.hp_cards, node.spot_cards)

    def view(self, role: Role) -> int:
        """Returns the order of nodes for the role's class."""
        return role.priority

    def closed(self, role: Role) -> tuple[int, str]:
        """Nodes with room for a pod of the task that belong to the other class, and whose they are."""
        refused, least = REFUSED[role.priority], max(role.cards, 1)
        nodes = sum(len(self._bucket(idle, 0, refused).nodes) for idle in range(least, self.pool.sizes[-1] + 1))
        if role.share:
            for node in self.pool.divided:
                with_room = not node.idle and node.room >= role.share
                nodes += with_room and self._ranks_of(node) == refused
        return nodes, WHY_REFUSED[role.priority]


class ReclaimPreemptor(Listener, Preemptor):
    """The node on loan with the lowest preemption cost that is large enough: it is returned whole.

    Every spot task with a pod there is evicted, from all its nodes. The cost of a node is the sum over its spot tasks
    of 1 / (number of nodes the task spans), ties by fewer victims, then node id. An HP gang asks again after each node:
    the other nodes of an evicted gang are empty or cheaper then. So the cheapest *set* of nodes is approximated.
    It relies on `LoanPlacer`: a node on loan has no HP pod.
    """

    whole_nodes = True

    def __init__(self, state: PoolState) -> None:
        self._pool = state.pool
        self._share: dict[Run, float] = {}
        """Spot run -> 1 / (number of nodes it spans)."""
        for run in state.runs.values():
            if run.task.is_spot:
                self.spot_held(run)
        state.listen(self)

    def spot_held(self, run: Run) -> None:
        """Notes how many nodes it spans."""
        self._share[run] = 1 / len(run.nodes)

    def spot_released(self, run: Run) -> None:
        """Forgets it."""
        del self._share[run]

    def cost(self, runs: Collection[Run], now: float) -> float:
        """Returns the preemption cost of these runs."""
        return sum(1 / len(run.nodes) for run in runs)

    def choose(self, role: Role, now: float) -> Victims | None:
        """Returns the cheapest node on loan that could hold the pod, and every run on it; lower priorities go first."""
        on_loan = [node for node in self._pool.nodes if node.spot_cards and node.total >= role.cards]
        able = [node for node in on_loan if self._pool.could_hold(node, role)]
        node = min(able, key=lambda node: self._rank(node), default=None)
        if node is None:
            return None
        everyone = sorted(node.spot, key=lambda run: run.task.index)
        one = "only node on loan that suffices"
        return Victims(node, everyone, f"cheapest of {len(on_loan)} nodes on loan" if len(on_loan) > 1 else one)

    def _rank(self, node: Node) -> tuple[int, float, int, int]:
        highest = max(run.task.urgency for run in node.spot)
        cost = round(sum(map(self._share.__getitem__, node.spot)), COST_DIGITS)
        return highest, cost, len(node.spot), node.index
