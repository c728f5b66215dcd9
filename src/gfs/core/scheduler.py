"""The scheduler: events in, actions out. Simulator and live cluster drive this same object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from gfs.core.actions import Plan
from gfs.core.invariants import check_pool
from gfs.core.ports import Policy, SolverFigures
from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.domain.task import Task

TickObserver = Callable[[float, Policy], None]


class Scheduler:
    """One policy per pool. Pure: the only clock is the `now` it is given, no I/O, no randomness."""

    def __init__(
        self,
        policies: Mapping[str, Policy],
        *,
        check: bool = False,
        on_tick: TickObserver | None = None,
    ) -> None:
        self.policies = dict(policies)
        self._only = next(iter(policies.values())) if len(policies) == 1 and not check else None
        self._check = check
        self._on_tick = on_tick

    @property
    def leases(self) -> bool:
        """Whether tasks hold leases: stopping at their end is then no eviction."""
        return any(policy.leases for policy in self.policies.values())

    @property
    def solver(self) -> SolverFigures | None:
        """Where programs are solved: how that went, all pools together."""
        figures = [policy.solver for policy in self.policies.values() if policy.solver is not None]
        if not figures:
            return None
        return SolverFigures(
            solves=sum(each.solves for each in figures),
            out_of_time=sum(each.out_of_time for each in figures),
            worst_gap=max(each.worst_gap for each in figures),
        )

    def handle(
        self,
        now: float,
        finished: Sequence[Run],
        tick: bool,
        arrived: Sequence[Task],
        settled: Sequence[Run] = (),
        woken: bool = False,
    ) -> Plan:
        """Take in all that happened at one instant and decide.

        The order within an instant is that of the arguments, then one scheduling pass (SPEC 2). `settled`
        are runs whose grace period has just ended: nothing changes by it, but it is a moment to decide.
        `woken`: a moment that an earlier plan asked for has come.
        """
        policy = self._only
        if policy is None:
            return self._handle_pools(now, finished, tick, arrived, settled, woken)
        # One pool: nearly every simulation.
        for run in finished:
            policy.finish(run, now)
        if tick:
            policy.tick(now)
            if self._on_tick:
                self._on_tick(now, policy)
            return policy.decide(arrived, True, now)
        return policy.decide(arrived, bool(finished), now)

    def _handle_pools(
        self,
        now: float,
        finished: Sequence[Run],
        tick: bool,
        arrived: Sequence[Task],
        settled: Sequence[Run],
        woken: bool,
    ) -> Plan:
        newcomers: dict[str, list[Task]] = {}
        freed = set()
        for run in finished:
            self.policies[run.task.gpu_model].finish(run, now)
            freed.add(run.task.gpu_model)
        if tick:
            for policy in self.policies.values():
                policy.tick(now)
                if self._on_tick:
                    self._on_tick(now, policy)
        for task in arrived:
            newcomers.setdefault(task.gpu_model, []).append(task)
        plan = Plan()
        touched = (
            set(self.policies) if tick or woken else freed | newcomers.keys() | {r.task.gpu_model for r in settled}
        )
        for model in sorted(touched):
            policy = self.policies[model]
            decided = policy.decide(newcomers.get(model, ()), tick or model in freed, now)
            plan.evictions += decided.evictions
            plan.starts += decided.starts
            plan.wake = min(plan.wake, decided.wake)
            if self._check:
                check_pool(policy.pool)
        return plan

    def waiting(self) -> Iterator[tuple[Task, Reason]]:
        """Every task that waits, and why."""
        for policy in self.policies.values():
            yield from policy.waiting()
