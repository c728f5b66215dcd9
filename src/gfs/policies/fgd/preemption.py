"""Where an HP pod displaces spot tasks: fewest victims, then least growth of F with the pod in place, then node id.

On each node that could hold the pod, runs are spared in this order, each if the pod still fits without its GPUs:
1. runs that do not make room alone, those that hold the fewest GPUs of the node first;
2. of these the ones after which F would be greatest, and so for the runs that make room alone, with the pod in place;
3. earlier tasks.
So where one victim suffices, it is the one by which F grows least. In-node version: what a gang frees on other nodes
counts for nothing here. Why victims come first: docs/decisions/0039-fgd-victims.md.
"""

from __future__ import annotations

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.ports import Preemptor, Victims
from gfs.core.run import Run
from gfs.domain.task import Role
from gfs.policies.fgd.fragmentation import ArrivalMix, free_on
from gfs.policies.preemption import victims_on


class FgdPreemptor(Preemptor):
    """The node and the victims for one HP pod: the fewest, and of equally many those that make F grow least."""

    def __init__(self, pool: Pool, mix: ArrivalMix) -> None:
        self._pool = pool
        self._mix = mix

    def choose(self, role: Role, now: float) -> Victims | None:
        """The node with the fewest victims where F grows least, or None if no eviction helps."""
        pool = self._pool
        options = [self._option(node, role) for node in pool.nodes if node.spot and pool.could_hold(node, role)]
        if not options:
            return None
        _, _, position, runs = min(options, key=lambda option: option[:3])
        count = len(options)
        choice = f"least fragmentation of {count} nodes" if count > 1 else "only node that suffices"
        return Victims(pool.nodes[position], runs, choice)

    def _option(self, node: Node, role: Role) -> tuple[int, int, int, list[Run]]:
        """Number of victims, growth of F, position of the node, and the victims."""
        runs = victims_on(self._pool, node, role, sorted(node.spot, key=lambda run: self._spared(run, node, role)))
        return len(runs), self._fragmentation(node, role, runs)[1] - self._fragmentation(node)[1], node.index, runs

    def _spared(self, run: Run, node: Node, role: Role) -> tuple[int, bool, int, int, int]:
        """The order in which runs are spared."""
        fits, fragmentation = self._fragmentation(node, role, [run])
        return -run.task.urgency, fits, 0 if fits else node.spot[run], -fragmentation, run.task.index

    def _fragmentation(self, node: Node, role: Role | None = None, gone: list[Run] | None = None) -> tuple[bool, int]:
        """F of the node once these runs have gone, with a pod of the task in place if it then fits: whether it does."""
        free = free_on(node, gone or ())
        growth = self._mix.growth(*free, role) if role is not None else None
        return growth is not None, self._mix.fragmentation(*free) + (growth or 0)
