"""Lyra with its periodic orchestrator: nodes are lent and taken back at intervals, some are never lent.

Every `period` seconds, at a quota tick, each node without pods is lent or kept: those kept add up to a `headroom` of
the pool. In between nothing changes hands: HP has its own nodes and the headroom, spot tasks what is on loan, and an HP
task that does not fit waits for the next round. Then nodes on loan are taken back for it, those without pods like any
idle ones (docs/schedulers/lyra.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gfs.core.listeners import Listener
from gfs.core.node import Node
from gfs.core.ports import Victims
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.task import Task
from gfs.policies.lyra import EMPTY, ON_LOAN, USED_BY_HP, LoanPlacer, Ranks, ReclaimPreemptor, ranks_of


@dataclass(slots=True)
class Loans:
    """What is remembered: which nodes are on loan, and when that is looked at again."""

    nodes: dict[str, None] = field(default_factory=dict)
    """Names of the nodes on loan."""
    due: float = float("-inf")


class LoanOrchestrator(Listener):
    """Decides at intervals which nodes are on loan."""

    def __init__(self, state: PoolState, period: float, headroom: float) -> None:
        self._state = state
        self._period, self._headroom = period, headroom
        self._loans = state.remember(Loans)
        self.on_loan = [int(node.name in self._loans.nodes) for node in state.pool.nodes]
        """Position of a node -> 1 if it is on loan."""
        self.reclaiming = False
        """Whether HP may take nodes back: in the pass that follows the orchestrator's decision."""
        self._observers: list[Callable[[Node], None]] = []
        if self._loans.due == float("-inf"):
            self._lend()
            self._loans.due = 0.0  # at the first tick, and not whenever this is built again before it
        state.listen(self)

    def observe(self, tell: Callable[[Node], None]) -> None:
        """Tell this function of every node whose loan may have changed."""
        self._observers.append(tell)

    def ticked(self, now: float) -> None:
        """The interval is over: lend what is empty, and let HP tasks that wait take nodes back in this pass."""
        if now < self._loans.due:
            return
        self._loans.due = (now // self._period + 1) * self._period
        self._lend()
        self.reclaiming = any(not waiting.task.is_spot for waiting in self._state.waiting.values())
        self._tell_all()

    def passed(self, now: float) -> None:
        """The pass is over: until the next interval nothing changes hands."""
        if self.reclaiming:
            self.reclaiming = False
            self._tell_all()

    def started(self, run: Run, now: float) -> None:
        """A node on loan where an HP task starts has been taken back."""
        if not run.task.is_spot:
            for node in run.nodes:
                self.on_loan[node.index] = 0
                self._loans.nodes.pop(node.name, None)

    def _lend(self) -> None:
        """Lend nodes with spot pods and empty ones, of which the headroom is kept, the largest nodes first."""
        pool, loans = self._state.pool, self._loans
        keep = self._headroom * pool.capacity
        loans.nodes = {}
        for node in sorted(pool.nodes, key=lambda node: (-node.total, node.index)):
            empty = node.idle == node.total and not node.closed
            if empty and keep > 0:
                keep -= node.total
            elif node.spot or empty:
                loans.nodes[node.name] = None
        self.on_loan[:] = [int(node.name in loans.nodes) for node in pool.nodes]

    def _tell_all(self) -> None:
        for tell in self._observers:
            for node in self._state.pool.nodes:
                tell(node)


class OrchestratedPlacer(LoanPlacer):
    """Best fit as before, but a node without pods belongs to the class that the orchestrator gave it to."""

    def __init__(self, state: PoolState, orchestrator: LoanOrchestrator) -> None:
        self._orchestrator = orchestrator
        super().__init__(state.pool)
        orchestrator.observe(self._index.file)

    def _follow(self) -> None:
        bucket = self._bucket
        self._index.follow(
            plain=lambda size, idle, hp: bucket(idle, 0, _kept(ranks_of(hp, size - idle - hp))),
            special=lambda node: bucket(node.idle, node.room, self._ranks_of(node)),
            marked=self._orchestrator.on_loan,
        )

    def _ranks_of(self, node: Node) -> Ranks:
        ranks = super()._ranks_of(node)
        if not self._orchestrator.on_loan[node.index]:
            return _kept(ranks)
        return ON_LOAN if ranks == EMPTY and not self._orchestrator.reclaiming else ranks


def _kept(ranks: Ranks) -> Ranks:
    """An empty node that is not on loan is HP's."""
    return USED_BY_HP if ranks == EMPTY else ranks


class PeriodicReclaimPreemptor:
    """Takes nodes back as Lyra does, but only when the orchestrator does so."""

    whole_nodes = True

    def __init__(self, state: PoolState, orchestrator: LoanOrchestrator) -> None:
        self._orchestrator = orchestrator
        self._reclaim = ReclaimPreemptor(state)

    def choose(self, task: Task, now: float) -> Victims | None:
        """The cheapest node on loan that could hold the pod, or None between two intervals."""
        return self._reclaim.choose(task, now) if self._orchestrator.reclaiming else None
