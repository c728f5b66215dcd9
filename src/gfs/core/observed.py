"""A policy with onlookers: parts that learn from what happens in a pool hear of everything and change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from gfs.core.actions import NOTHING, Plan
from gfs.core.ports import Observer, Policy, SolverFigures
from gfs.core.run import Run
from gfs.domain.task import Task


class ObservedPolicy:
    """Passes everything on to a policy, and tells the observers about it."""

    def __init__(self, policy: Policy, observers: Sequence[Observer]) -> None:
        self.pool = policy.pool
        self._policy = policy
        self._observers = tuple(observers)
        # Nothing to be told about these, so nothing in between.
        self.tick = policy.tick
        self.quota_rows = policy.quota_rows
        self.waiting = policy.waiting

    @property
    def leases(self) -> bool:
        """Whether the policy suspends tasks at the ends of leases instead of evicting them."""
        return self._policy.leases

    @property
    def solver(self) -> SolverFigures | None:
        """Where the policy solves programs: how that went."""
        return self._policy.solver

    def finish(self, run: Run, now: float) -> None:
        """A run is done; its cards are free."""
        for observer in self._observers:
            observer.finished(run, now)
        self._policy.finish(run, now)

    def decide(self, arrived: Sequence[Task], freed: bool, now: float) -> Plan:
        """One scheduling pass of the policy."""
        if arrived:
            for observer in self._observers:
                observer.arrived(arrived, now)
        plan = self._policy.decide(arrived, freed, now)
        if plan is not NOTHING:
            for observer in self._observers:
                observer.decided(plan, now)
        return plan
